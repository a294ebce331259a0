"""The rung `diagnose`: repeat the failed stretch unchanged, have both records compared, and go on from what that proves.

The comparison is asked for when the failure strikes again, or when the run is some steps past where it broke. Data and state: the
rung has failed and the next one (a skip) is taken. Hardware: the page names the rank that the evidence blames; a run that passed
the place goes on under probation, and one that failed again takes the next rung. Nothing proved: as without a diagnosis.
"""

from __future__ import annotations

from sentinel.client.settings import SETTINGS
from sentinel.engine.decision import Decision
from sentinel.engine.paging import page
from sentinel.model import facts as f
from sentinel.model.actions import CompareRecords
from sentinel.model.incidents import Incident, IncidentState, Outcome
from sentinel.model.records import Comparison
from sentinel.model.state import Attempt
from sentinel.plan.diagnosis import judge_diagnosis

PAST_STEPS = 10  # past the break before the records are compared: what failed once has had its chance to fail again


def is_diagnosing(incident: Incident) -> bool:
    """Its present rung is a diagnosis without a result yet."""
    last = incident.last_try
    pending = last is not None and last.outcome is Outcome.PENDING and "diagnose" in last.remedy.words
    return incident.state is IncidentState.PROBATION and pending and incident.diagnosis is None


def ask_for_comparison(decision: Decision, incident: Incident, failed_again: bool) -> None:
    """Decide the comparison once; a second finding meanwhile changes nothing."""
    attempt = decision.attempt
    assert attempt is not None
    key = f"compare/{incident.id}/{attempt.attempt}"
    first = attempt.resumed_step + 1
    until = max(incident.break_step, decision.newest_step) if failed_again else incident.break_step
    decision.decide(CompareRecords(key, incident.id, incident.attempt, attempt.attempt, first, until, failed_again))


def compare_past_break(decision: Decision, incident: Incident, step: int) -> None:
    """On every step of a probation."""
    if is_diagnosing(incident) and step > incident.break_step + PAST_STEPS:
        ask_for_comparison(decision, incident, failed_again=False)


def _same_settings(old: Attempt, new: Attempt, action: CompareRecords) -> bool:
    """Did both train the compared steps under the same settings? Else a difference proves nothing."""
    span = range(action.first_step, action.last_step + 1)
    for attempt in (old, new):
        if attempt.written_s is not None and attempt.written_step >= action.first_step - 1:
            return False
        if any(step in span for _, step in attempt.overrides.until):
            return False
    return all(getattr(old.overrides, key) == getattr(new.overrides, key) for key in SETTINGS)


def conclude(decision: Decision, action: CompareRecords, found: Comparison | None) -> str | None:
    """Write down what is proved. The reason why the rung has failed; None while its probation goes on."""
    incident = next((i for i in decision.state.open_incidents if i.id == action.incident), None)
    if incident is None or decision.attempt is None or not is_diagnosing(incident):
        return None
    onset = incident.onset_step if incident.onset_step is not None else incident.break_step
    by_number = {a.attempt: a for a in decision.state.attempts}
    old, new = by_number.get(action.old_attempt), by_number.get(action.new_attempt)
    comparable = old is not None and new is not None and _same_settings(old, new, action)
    deterministic = new is not None and new.deterministic
    diagnosis = judge_diagnosis(found if comparable else None, onset, action.struck_again, deterministic)
    decision.record(f.Diagnosed(incident.id, diagnosis))
    if diagnosis.cause == "hardware":
        follows = "sentinel goes on by itself; the machine is for a person to look at"
        page(decision, incident.id, "critical", f"diagnosis: hardware: {diagnosis.reason}", follows)
    return f"diagnosis: {diagnosis.cause}: {diagnosis.reason}" if action.struck_again else None
