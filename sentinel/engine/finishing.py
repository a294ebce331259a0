"""The trainer has finished. What is open is settled first, and what nobody has seen is named; only then the run is over."""

from __future__ import annotations

from sentinel.engine import unread
from sentinel.engine.decision import Decision
from sentinel.engine.probation import settle_at_finish
from sentinel.model import facts as f


def finish(decision: Decision) -> None:
    if settle_at_finish(decision):
        unread.at_finish(decision)
        decision.record(f.RunEnded("finished", f"the trainer finished at step {decision.newest_step}"))
    elif decision.state.paused and decision.state.plan is None and not decision.state.giving_up:
        decision.record(f.Held(f"paused by {decision.state.paused}, and the trainer finished with an incident open"))
