"""Whether the checkpoints that are kept reach as far back as the playbooks go."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel.errors import Problem
from sentinel.policy.schema import PolicySpec, Retain, Rung

LAST_MIN = 2  # with one alone, the one that turns out to be damaged is the only one


def check_retention(spec: PolicySpec) -> Iterator[Problem]:
    """No rung may go back further than checkpoints are kept, by sentinel or by whoever else, where the policy says how many."""
    every, elsewhere, retain = spec.run.checkpoint_every_steps, spec.run.checkpoints_kept, spec.checkpoints.retain
    if retain is not None:
        yield from _check_retain(retain, every, elsewhere, any(True for _ in _all_depths(spec)))
    counts = {"spec.run.checkpoints_kept": elsewhere, "spec.checkpoints.retain.last": retain.last if retain else None}
    kept = min((count for count in counts.values() if count is not None), default=None)
    if every is None or kept is None:
        return
    too_few = next(name for name, count in counts.items() if count == kept)
    reach = (kept - 1) * every
    for name, index, steps, key in _all_depths(spec):
        if steps > reach:
            message = f"goes back {steps} steps, and {kept} checkpoints of every {every} steps reach back only {reach}"
            remedy = f"keep {-(-steps // every) + 1} checkpoints ({too_few}), or go back less"
            yield Problem(f"spec.playbooks.{name}[{index}].rollback.{key}", message, remedy)


def _check_retain(retain: Retain, every: int | None, elsewhere: int | None, rolls_back: bool) -> Iterator[Problem]:
    if retain.last < LAST_MIN:
        message = "with one checkpoint alone there is nothing to go back to when it turns out to be damaged"
        yield Problem("spec.checkpoints.retain.last", message, f"write at least {LAST_MIN}; 5 is usual")
    if elsewhere is not None and elsewhere < retain.last:
        message = f"{retain.last} is never reached: spec.run.checkpoints_kept says that somebody else keeps only {elsewhere}"
        yield Problem("spec.checkpoints.retain.last", message, "let one of the two delete checkpoints, not both", "warning")
    if every is None and rolls_back:
        message = "whether the last ones reach as far back as the playbooks go is judged only while the run goes on"
        remedy = "write how often the trainer saves, spec.run: {checkpoint_every: 250 steps}"
        yield Problem("spec.checkpoints.retain", message, remedy, "warning")
    if every is not None and retain.every_steps is not None and retain.every_steps % every:
        message = f"few checkpoints are at a multiple of {retain.every_steps} steps: the trainer saves every {every}"
        yield Problem("spec.checkpoints.retain.every", message, f"write a multiple of {every} steps", "warning")


def _all_depths(spec: PolicySpec) -> Iterator[tuple[str, int, int, str]]:
    """Playbook, index, steps before the onset and the word that says so, of every rung that rolls back."""
    for name, playbook in spec.playbooks.items():
        for index, steps in depths(playbook):
            rollback = playbook[index].rollback
            assert rollback is not None
            yield name, index, steps, "before_onset" if rollback.before_onset_steps else "further"


def depths(playbook: tuple[Rung, ...]) -> Iterator[tuple[int, int]]:
    """Index and steps before the onset of every rung that rolls back."""
    steps = 1.0
    for index, rung in enumerate(playbook):
        if rung.rollback is None:
            continue
        before = rung.rollback.before_onset_steps
        steps = float(before) if before is not None else steps * (rung.rollback.further or 1.0)
        yield index, round(steps)
