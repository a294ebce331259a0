"""Does a checkpoint lead to the same failure again and again? Then it is passed over for an older one.

Two attempts that began with this very checkpoint failed in the same way soon after it: both before their first step (a load that
dies), or both within SOON_STEPS of it, at about the same step. What speaks for the checkpoint outweighs that:

- an attempt that began with it trained on past SOON_STEPS;
- an attempt of the same time that did not begin with it failed in the same way, or there: then it is the data, the code, or a
  machine. So of failing loads at most one checkpoint is passed over in a row, and a dead node does not walk a run back;
- the failure's cause is known to lie outside (`Finding.outside`: memory, a GPU, the scheduler, a disk, another rank's silence);
- there is no older checkpoint to go to.

A hang is never blamed on a checkpoint: who is silent does not say why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sentinel.model.incidents import Incident
from sentinel.model.state import Attempt, Checkpoint
from sentinel.plan.rollback import choose_newest

SOON_STEPS = 10  # a broken state shows at once, or once some updates in a row were gated
ABOUT_STEPS = 3
TIMES = 2


@dataclass(frozen=True, slots=True)
class CheckpointBlame:
    """The checkpoint to pass over, and why."""

    checkpoint: Checkpoint
    reason: str


def judge_blame(
    checkpoints: Sequence[Checkpoint], attempts: Sequence[Attempt], open_incidents: Iterable[Incident], newest_step: int
) -> CheckpointBlame | None:
    """What the newest attempt's failure says of the checkpoint it began with; `newest_step` is that attempt's. None: nothing."""
    last = attempts[-1] if attempts else None
    if last is None or not last.failed or last.resume is None:
        return None
    found = next((c for c in checkpoints if c.step == last.resumed_step and not c.condemned), None)
    if found is None or found.attempt >= last.attempt:
        return None
    since = [a for a in attempts if a.attempt >= found.attempt]
    own = [a for a in since if a.attempt > found.attempt and a.resume is not None and a.resumed_step == found.step]
    if any(_trained(a, newest_step if a is last else 0) > found.step + SOON_STEPS for a in own):
        return None
    alike = [a for a in own if _is_alike(a, last)]
    if len(alike) < TIMES or any(_is_alike(a, last) or _is_near(a, last) for a in since if a not in own):
        return None
    older = choose_newest((c for c in checkpoints if c.step < found.step), open_incidents).checkpoint
    if older is None:
        return None
    who = " and ".join(str(a.attempt) for a in alike[-TIMES:])
    how = "before their first step" if last.first_step is None else f"within {SOON_STEPS} steps of it"
    reason = f"attempts {who}, which resumed from it, failed alike ({last.failed}) {how}; the one of step {older.step} is tried"
    return CheckpointBlame(found, reason)


def _is_alike(one: Attempt, other: Attempt) -> bool:
    if not one.failed or one.failed != other.failed:
        return False
    if one.first_step is None or other.first_step is None:
        return one.first_step is other.first_step
    return abs(one.failed_step - other.failed_step) <= ABOUT_STEPS


def _is_near(one: Attempt, other: Attempt) -> bool:
    """Failed alike at about the same place, whether or not it had made a step before: a step that kills whoever comes to it may
    be the first after a checkpoint."""
    places = [a.failed_step if a.first_step is not None else a.resumed_step for a in (one, other)]
    return bool(one.failed) and one.failed == other.failed and abs(places[0] - places[1]) <= ABOUT_STEPS


def _trained(attempt: Attempt, newest_step: int) -> int:
    """The furthest step it is known to have made; 0 for one that made none."""
    if attempt.first_step is None:
        return 0
    marks = (mark.step for mark in attempt.marks)
    return max((attempt.first_step, attempt.last_step, attempt.failed_step, newest_step, *marks))
