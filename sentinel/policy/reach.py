"""How far back a rung goes and which steps it leaves out, with `further: 2x` and `wider: 2x` worked out.

Every rung starts again from the incident's own onset; only the distances grow from rung to rung.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.policy.quantities import StepRef
from sentinel.policy.schema import Rung


@dataclass(frozen=True, slots=True)
class Reach:
    """`before_onset_steps` and `skip` (first step, step after the last) are None where the rung has no such part."""

    before_onset_steps: int | None
    skip: tuple[StepRef, StepRef] | None


def reach_of(playbook: tuple[Rung, ...], index: int) -> Reach:
    """The reach of rung `index`. Raises ValueError when it extends something no earlier rung has (the checker refuses that)."""
    back: int | None = None
    window: tuple[StepRef, StepRef] | None = None
    for rung in playbook[: index + 1]:
        if rung.rollback is not None:
            back = _rolled_back(rung, back)
        if rung.skip is not None:
            window = _skipped(rung, window)
    rung = playbook[index]
    return Reach(back if rung.rollback is not None else None, window if rung.skip is not None else None)


def _rolled_back(rung: Rung, before: int | None) -> int:
    assert rung.rollback is not None
    if rung.rollback.before_onset_steps is not None:
        return rung.rollback.before_onset_steps
    if before is None or rung.rollback.further is None:
        raise ValueError("further: no earlier rung rolls back")
    return max(before + 1, round(before * rung.rollback.further))


def _skipped(rung: Rung, before: tuple[StepRef, StepRef] | None) -> tuple[StepRef, StepRef]:
    assert rung.skip is not None
    if rung.skip.from_ is not None and rung.skip.to is not None:
        return rung.skip.from_, rung.skip.to
    if before is None or rung.skip.wider is None:
        raise ValueError("wider: no earlier rung skips")
    (first, end), factor = before, rung.skip.wider
    start = StepRef(first.anchor, -_grown(-first.offset_steps, factor))
    return start, StepRef(end.anchor, _grown(end.offset_steps, factor))


def _grown(outward_steps: int, factor: float) -> int:
    """A distance outwards grows by the factor; one that points inwards shrinks by it, so the window never narrows."""
    return round(outward_steps * factor) if outward_steps >= 0 else round(outward_steps / factor)
