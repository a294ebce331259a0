"""A rung with `approval: required` waits for a person, until a deadline; then the policy's default holds.

Meanwhile training goes on if it lives, and an incident that heals by itself needs no answer any more.
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.paging import raise_page
from sentinel.model import facts as f
from sentinel.model.amounts import time_words
from sentinel.model.incidents import Incident, Outcome, Remedy
from sentinel.plan.playbook_change import marks_of
from sentinel.policy.schema import Rung


def is_granted(incident: Incident, rung: Rung, index: int) -> bool:
    """Whether the rung may be taken now: it needs nobody, or somebody said yes to this very rung."""
    asked = incident.approval
    return rung.approval is None or (asked is not None and asked.rung == index and asked.answer == "approve")


def ask(decision: Decision, incident: Incident, rung: Rung, index: int, reason: str) -> None:
    """Ask once for each rung; asked again before the answer (the fault struck again), nothing is new."""
    assert rung.approval is not None
    known = incident.approval
    if known is not None and known.rung == index and not known.answer:
        return decision.note(f.about_incident(incident.id), f"still waits for approval of rung {index + 1}")
    wanted = rung.approval
    deadline_s = decision.now_s + wanted.within_s
    mark = marks_of(decision.rungs_of(incident))[index]
    decision.record(f.ApprovalAsked(incident.id, index, deadline_s, wanted.otherwise, reason, mark))
    default = "it is taken" if wanted.otherwise == "approve" else "it is passed over"
    would = f"rung {index + 1} of playbook {incident.playbook} would: {reason}"
    text = (
        f"{incident.alert}: {incident.reason}\n{would}\n"
        f"answer with: sentinel approve {incident.id} RUN_DIR, or: sentinel deny {incident.id} RUN_DIR\n"
        f"next: without an answer in {time_words(wanted.within_s)} {default}"
    )
    title = f"{decision.state.run_id}: {incident.kind} waits for approval"
    raise_page(decision, f.PageRaised(incident.id, incident.severity, title, text, reason=would))
    return None


def pass_over(decision: Decision, incident: Incident, rung: Rung, index: int, reason: str) -> None:
    """The rung is not taken, and the record says by whom."""
    decision.take(incident.id, Remedy(index, rung.keys, reason))
    decision.record(f.RungJudged(incident.id, Outcome.DENIED, reason))
