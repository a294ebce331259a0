"""A command of which nothing was ever heard: no receipt, no step, no heartbeat, no checkpoint.

It may be a trainer that does not speak the contract. Its exit 0 says that it has ended, and not that it has trained. A relaunch
without a checkpoint would start it from the beginning, in a directory where its own checkpoints may lie, which is not Sentinel's
to decide.

Or it trained, and its status is not the trainer's: a shell script told the status of something else, or the command ended while
what it had started went on. Then exit 0 shows no finish.
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.giving_up import condemn_after
from sentinel.model import facts as f
from sentinel.model.incidents import Incident, IncidentState, Outcome
from sentinel.model.state import UNOBSERVED

MAY_RESTART = "restart"


def is_unobserved(decision: Decision) -> bool:
    """Whether nothing was heard in any attempt of the run. Behind a blind source that says nothing."""
    state = decision.state
    is_seen = decision.live.finished or decision.live.has_beats or bool(state.checkpoints)
    is_seen = is_seen or any(attempt.receipt_s is not None or attempt.first_step is not None for attempt in state.attempts)
    return not is_seen and not state.blind.keys() & {"metrics", "heartbeats", "checkpoints"}


def end_unobserved(decision: Decision, reason: str) -> None:
    """Neither failed nor finished, and nobody is called. What was being watched is never called healed."""
    contract = "the contract: sentinel/client/PROTOCOL.md"
    _end(decision, reason, f"{reason}; it wrote no receipt and no step: whether it trained is not known ({contract})")


def end_unproven(decision: Decision, reason: str) -> None:
    """It trained, and its status says nothing of how that ended: neither failed nor finished."""
    lost = decision.state.status_lost
    shows = f", which shows no finish ({lost})" if lost else ""
    _end(decision, reason, f"{reason}{shows}: whether it trained to its last step is not known")


def _end(decision: Decision, reason: str, why: str) -> None:
    for incident in decision.state.open_incidents:
        end_unknown(decision, incident, f"the run ended, and nobody saw whether it healed: {reason}")
        condemn_after(decision, incident, "of which nobody saw whether it healed")
    decision.record(f.RunEnded(UNOBSERVED, why))


def end_unknown(decision: Decision, incident: Incident, reason: str) -> None:
    """The incident is closed with its run, and its last try is judged no more."""
    if incident.last_try is not None and incident.last_try.outcome is Outcome.PENDING:
        decision.record(f.RungJudged(incident.id, Outcome.UNKNOWN, reason))
    decision.record(f.IncidentMoved(incident.id, IncidentState.UNKNOWN, reason))


def refuse_restart(decision: Decision) -> str:
    """Why it is not started again from the beginning; empty where it may be."""
    has_profile = decision.state.settable is not None  # it says where checkpoints lie, and those are looked for
    if MAY_RESTART in decision.state.capabilities or has_profile or not is_unobserved(decision):
        return ""
    return (
        "no receipt, step, heartbeat or checkpoint was ever seen of this command: to start it from the beginning might overwrite "
        "checkpoints that sentinel does not know; start it again yourself, name its profile (--trainer, sentinel trainers list), "
        "or declare by --with restart that it may be"
    )
