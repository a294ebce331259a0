"""Which checkpoint to start from. A checkpoint at or after an open numeric incident's onset is never an answer, unless it was
saved in that incident's probation and the numbers held when the run was stopped there (`Incident.rules_out`).

A checkpoint of step s holds the model after update s; the loss of step s+1 is the first it influences. An onset at step o
therefore leaves checkpoints up to o-1 clean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sentinel.model.incidents import Incident
from sentinel.model.state import Checkpoint


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """`checkpoint` None means a start from scratch (step 0)."""

    checkpoint: Checkpoint | None
    reason: str

    @property
    def step(self) -> int:
        return self.checkpoint.step if self.checkpoint else 0


def choose_newest(checkpoints: Iterable[Checkpoint], open_incidents: Iterable[Incident]) -> RollbackTarget:
    """The newest checkpoint that is not condemned and that no open numeric incident rules out."""
    numeric = [i for i in open_incidents if i.limit_step is not None]
    onsets = [i.limit_step for i in numeric if i.limit_step is not None]
    usable = [c for c in checkpoints if not c.condemned and not any(i.rules_out(c.step) for i in numeric)]
    newest = max(usable, key=lambda c: c.step, default=None)
    why = f", the newest before the open onset at step {min(onsets)}" if onsets else ", the newest"
    if newest is None:
        return RollbackTarget(None, f"no checkpoint{' before step ' + str(min(onsets)) if onsets else ''}: start from scratch")
    if onsets and newest.step >= min(onsets):
        kept = ", ".join(str(i.id) for i in numeric if i.limit_step is not None and newest.step >= i.limit_step)
        why = f", saved in the probation of incident {kept}, in which the numbers held"
    return RollbackTarget(newest, f"checkpoint of step {newest.step}{why}")


def choose_at_or_below(checkpoints: Iterable[Checkpoint], open_incidents: Iterable[Incident], step: int) -> RollbackTarget:
    """What a person asks for: the newest good checkpoint at or below `step`, and before every open numeric incident's onset."""
    choice = choose_newest((c for c in checkpoints if c.step <= step), open_incidents)
    if choice.checkpoint is None:
        return RollbackTarget(None, f"no good checkpoint at or below step {step}: start from scratch")
    return RollbackTarget(choice.checkpoint, f"{choice.reason} at or below step {step}")


def choose_by_samples(checkpoints: Iterable[Checkpoint], open_incidents: Iterable[Incident], sample: int) -> RollbackTarget:
    """The newest good checkpoint whose data cursor has not passed `sample`."""
    return choose_newest((c for c in checkpoints if c.samples_end <= sample), open_incidents)


def choose_before(
    checkpoints: Iterable[Checkpoint], onset_step: int, margin_steps: int, limit_step: int | None = None
) -> RollbackTarget:
    """The newest clean checkpoint at least `margin_steps` before the onset, and before `limit_step` where that is earlier.

    Where every clean checkpoint is nearer than that, the oldest clean one; where there is none, a start from scratch.
    """
    limit = onset_step if limit_step is None else min(onset_step, limit_step)
    clean = sorted((c for c in checkpoints if not c.condemned and c.step < limit), key=lambda c: c.step)
    far = [c for c in clean if c.step <= onset_step - margin_steps]
    if far:
        found = far[-1]
        distance = f"{onset_step - found.step} steps before the onset at step {onset_step}"
        return RollbackTarget(found, f"checkpoint of step {found.step}, {distance}")
    if clean and margin_steps < onset_step:
        found = clean[0]
        short = f"{onset_step - found.step} steps before the onset at step {onset_step}; none is {margin_steps} steps before it"
        return RollbackTarget(found, f"checkpoint of step {found.step}, {short}")
    none = f"no checkpoint lies {margin_steps} steps before the onset at step {onset_step}"
    return RollbackTarget(None, f"{none}: start from scratch")
