"""Will more of the same help? The same failure at the same step, from further back, without the data, at a lower rate, says no.

State was another (a rollback), data was another (a skip), the size of a step was another (the learning rate), and it broke where
it had broken before: what is left is in the code, the configuration or the schedule, and a person is called at once, with that
reasoning, and not after every rung has cost its hours. A rung that does something else (another precision, a fresh optimizer,
another node) or that a person has to approve is still tried. What the trainer only says it has done is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sentinel.model.incidents import Incident, Outcome, Try
from sentinel.plan.proving import LEARNING_RATE, SKIP
from sentinel.policy.schema import Rung
from sentinel.policy.schema_rungs import WORDS

SAME_STEPS = 10  # an onset is dated to within some rows; what breaks of itself breaks tens of steps apart

LOOK_AT = "neither state nor data nor the size of a step explains it; look at code, configuration and schedule"
"""What follows of it for a person."""


def judge_structural(incident: Incident, rungs: Sequence[Rung], index: int) -> str:
    """Why rung `index` and those behind it need not be tried; empty while they may help."""
    onset = incident.onset_step
    if onset is None or any(_is_another_way(rung) or rung.approval for rung in _left(rungs, index)):
        return ""
    struck = [t for t in incident.tries if t.outcome is Outcome.FAILED and t.struck_step is not None]
    same = [t for t in struck if abs((t.struck_step or 0) - onset) <= SAME_STEPS]
    back = [t for t in same if t.remedy.rollback_to_step is not None and "rollback" in t.remedy.words]
    without = [t for t in same if t.remedy.skip and t.is_proven(SKIP)]
    slower = [t for t in same if t.remedy.lr_scale is not None and t.remedy.lr_scale < 1.0 and t.is_proven(LEARNING_RATE)]
    if not (back and without and slower):
        return ""
    samples = sum(span.end - span.start for span in without[-1].remedy.skip)
    furthest = min(t.remedy.rollback_to_step or 0 for t in back)
    return (
        f"structural: {incident.kind} at step {_steps(same)} again and again, from as far back as step {furthest}, without "
        f"{samples} samples around it, and at {slower[-1].remedy.lr_scale:g}x the learning rate: {LOOK_AT}"
    )


def _is_another_way(rung: Rung) -> bool:
    return not all(WORDS[part].is_more_of_the_same for part in rung.parts)


def _left(rungs: Sequence[Rung], index: int) -> Iterable[Rung]:
    """The rungs that would still act, before the one that ends the playbook."""
    for rung in rungs[index:]:
        if rung.hold or rung.page is not None:
            return
        yield rung


def _steps(tries: Iterable[Try]) -> str:
    steps = sorted({t.struck_step for t in tries if t.struck_step is not None})
    return f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
