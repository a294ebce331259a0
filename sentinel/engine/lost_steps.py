"""Steps that a relaunch trains again, as far as rows show them.

A trainer that prints every tenth step may have made nine more when it died. What was seen to be lost is counted, and
beside it how many more there may be; nobody knows where no row told how far apart rows are, or where a logger writes its
rows to a file in blocks (Lightning's CSVLogger those of a hundred steps).
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.sources import STREAM
from sentinel.model import facts as f
from sentinel.model.actions import StartAttempt
from sentinel.model.state import Attempt

ROWS_MIN = 2  # of the attempt, that tell how far apart rows are
SOURCE = "metrics"


def count_lost(decision: Decision, incident: int | None, action: StartAttempt) -> None:
    """After a restart of the supervisor the stream may not have been read to its end yet."""
    if incident is None:
        return
    last = decision.state.incident(incident).last_try
    resumed = action.resume.step if action.resume else 0
    seen = max(0, max(decision.newest_step, last.taken_step if last else 0) - resumed)
    behind = _may_follow(decision)
    unseen = None if behind is None else max(0, decision.newest_step + behind - resumed - seen)
    if seen or unseen != 0:
        decision.record(f.StepsLost(incident, seen, unseen))


def _may_follow(decision: Decision) -> int | None:
    """How many steps may have been made behind the newest row of the attempt. None: not known."""
    attempt, detectors = decision.attempt, decision.detectors
    if attempt is None:
        return 0
    if {SOURCE, STREAM} & decision.state.blind.keys() or decision.state.rows_late:
        return None
    if decision.live.attempt == attempt.attempt and detectors.count_rows(attempt.resumed_step) >= ROWS_MIN:
        return detectors.interval_steps - 1
    apart = max((_first_gap(one) for one in (attempt, *decision.state.attempts)), default=0)
    if apart > 0:
        return apart - 1
    if decision.state.settable is None and attempt.receipt_s is not None:  # it writes its stream itself, and says where it is
        return max(0, detectors.furthest_step - decision.newest_step - 1)
    return None


def _first_gap(attempt: Attempt) -> int:
    """From where it began to its first row, which is about as far as its rows are apart; 0 where it showed none."""
    return 0 if attempt.first_step is None else max(1, attempt.first_step - attempt.resumed_step)
