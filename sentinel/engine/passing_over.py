"""A rung that cannot be carried out is passed over with its reason, and the next is taken."""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.exclusion import reason_against
from sentinel.model import facts as f
from sentinel.model.incidents import Incident, Outcome, Remedy
from sentinel.plan.exclusion import CAPABILITY as EXCLUDE
from sentinel.policy.available import lacking
from sentinel.policy.schema import Rung


def reason_to_pass_over(decision: Decision, incident: Incident, rung: Rung) -> str:
    """Empty where it can be carried out. The trainer, or the command, may lack what it needs; a node cannot be left out."""
    found = lacking(rung, decision.state.abilities, decision.state.settable)
    state = decision.state
    missing = (state.refusal_of(needed.name) or needed.message for _, needed in found if needed.name != EXCLUDE)
    return next(missing, "") or reason_against(decision, incident, rung)


def pass_over(decision: Decision, incident: Incident, rung: Rung, index: int, reason: str) -> None:
    what = "leave out the blamed node" if rung.exclude is not None else "passed over"
    decision.take(incident.id, Remedy(index, rung.keys, f"{what}: {reason}"))
    decision.record(f.RungJudged(incident.id, Outcome.PASSED_OVER, reason))
