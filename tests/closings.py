"""Which incidents of a stream were closed as healed, and whether that was true.

A closing is false where the median of the next rows stays more than 5 %, and more than three of its own standard errors, above
where the metric would have stood had nothing happened. Whoever asks says where that is: a drawn stream knows it, of a recorded
one it is the best level that it had before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sentinel.engine import Engine
from sentinel.model import facts as f
from sentinel.model.events import ActionDone, Event, SupervisorStarted
from sentinel.model.incidents import Incident, IncidentState, Outcome
from sentinel.model.readings import Receipt, StepReading
from sentinel.policy.schema import Policy

NEXT_ROWS, ROWS_MIN = 50, 10
FALSE_RATIO, FALSE_ERRORS = 0.05, 3.0
MEDIAN_ERROR = 1.253 * 1.4826


class Watched(NamedTuple):
    """An incident, and its end: the step and the reason of the verdict; no state while it is open.

    `acted_step`: when the run would have been repaired; None where it never came to that.
    """

    incident: Incident
    step: int
    state: IncidentState | None
    reason: str
    acted_step: int | None = None


def watch(rows: Iterable[StepReading], policy: Policy, history: tuple[StepReading, ...] = ()) -> list[Watched]:
    """Every numeric incident of a stream that nobody acts on."""
    engine, opened, ended, acted = Engine(policy), dict[int, Incident](), dict[int, Watched](), dict[int, int]()

    def tell(now_s: float, event: Event | StepReading | Receipt) -> None:
        for fact in engine.handle(now_s, event):
            match fact:
                case f.IncidentOpened(incident=incident) if incident.is_numeric:
                    opened[incident.id] = incident
                case f.IncidentMoved(incident=number, to=to, reason=reason) if number in opened:
                    ended[number] = Watched(opened[number], newest, to, reason)
                case f.RungJudged(incident=number, outcome=Outcome.OBSERVED):
                    acted.setdefault(number, newest)
                case f.ActionDecided(action=action):
                    tell(now_s, ActionDone(action.key, "done"))
                case _:
                    pass

    newest = history[-1].step if history else 0
    tell(0.0, SupervisorStarted(1, "closings", 0, "closings", ("closings",), "/", policy.metadata.name, "0" * 64, True))
    tell(0.0, Receipt(1, 0.0, newest, None, 1, {}, {}, history))
    for row in rows:
        newest = row.step
        tell(row.time_s, row)
    return [
        ended.get(number, Watched(incident, newest, None, ""))._replace(acted_step=acted.get(number))
        for number, incident in opened.items()
    ]


def is_false(after: Sequence[tuple[int, float]], level_at: Callable[[int], float]) -> bool | None:
    """Of the (step, value) rows behind a closing; None where they are too few to tell."""
    excess = [value - level_at(step) for step, value in after[:NEXT_ROWS]]
    if len(excess) < ROWS_MIN:
        return None
    above = median(excess)
    error = MEDIAN_ERROR * median([abs(one - above) for one in excess]) / math.sqrt(len(excess))
    return above > FALSE_RATIO * abs(level_at(after[0][0])) and above > FALSE_ERRORS * error


def median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
