"""How long an act of sentinel itself may go without a sign of progress before it counts as stuck."""

from __future__ import annotations

from sentinel.model.actions import Action, CheckNodes, InspectSamples, KillAttempt, SendPage, StartAttempt
from sentinel.policy.schema import ActLimits

EVIDENCE_S = 30.0  # what can be done without must not cost minutes of every GPU
BY_LAUNCHER = (StartAttempt, KillAttempt, InspectSamples)


def stuck_after(action: Action, acts: ActLimits) -> float | None:
    """Seconds. None for a page: every delivery has a deadline of its own, and its route says so when it hangs."""
    if isinstance(action, SendPage):
        return None
    if isinstance(action, CheckNodes):  # it may say nothing for as long as its command may take
        return action.timeout_s + acts.launch_stuck_after_s
    if action.if_failed == "go on":
        return min(EVIDENCE_S, acts.stuck_after_s)
    return acts.launch_stuck_after_s if isinstance(action, BY_LAUNCHER) else acts.stuck_after_s
