"""Numbers that are not read while ranks go on: the stream cannot be read, or says nothing. Training is left alone, for nothing
shows that it is sick. But nothing is judged either: a run may train on NaN for the rest of a month. A person is called after
`acts.unseen_page_after`, and where a run finishes with steps that nobody has read, its end is called unknown.
"""

from __future__ import annotations

from sentinel.detectors.stream_gap import INTERVALS
from sentinel.engine.coming_back import must_stay_open
from sentinel.engine.decision import Decision
from sentinel.engine.opening import open_incident
from sentinel.engine.paging import page, resolve
from sentinel.engine.sources import STREAM
from sentinel.model import facts as f
from sentinel.model.amounts import time_words
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident, IncidentState

NUMBERS = ("metrics", STREAM)  # sources: the file of the stream, and what comes from it


def on_tick(decision: Decision) -> None:
    """Call a person when it has lasted too long; nobody is needed any more once numbers come again."""
    state = decision.state
    since = [since_s for source, since_s in state.blind_since_s.items() if source in NUMBERS]
    open_ones = [incident for incident in state.open_pages if incident.kind is Kind.UNREAD]
    if not since:
        for incident in open_ones:
            is_read = decision.newest_step > incident.detected_step  # whoever was started anew has not looked yet
            if is_read and not must_stay_open(state, incident, decision.now_s):
                resolve(decision, incident.id, "numbers are read again; those of the steps between were never judged")
        return
    lasted_s = decision.now_s - min(since)
    if lasted_s < decision.policy.spec.acts.unseen_page_after_s or open_ones or state.open_incidents:
        return
    if state.ended or not decision.is_alive:
        return
    why = f"nothing has been judged for {time_words(lasted_s)}: {_why_blind(decision)}"
    incident = _open(decision, why, IncidentState.EXHAUSTED, "a person is called, and training goes on")
    page(decision, incident.id, incident.severity, why, "training goes on, and nothing is judged until its numbers are read")


def at_finish(decision: Decision) -> None:
    """The trainer has finished, and steps that its ranks have made were not read: nobody knows how they were."""
    if any(i.state is IncidentState.UNKNOWN and i.closed_s == decision.now_s for i in decision.state.incidents):
        return  # somebody was called to look at the last steps already
    newest, furthest = decision.newest_step, decision.detectors.furthest_step
    is_behind = furthest - newest > INTERVALS * decision.detectors.interval_steps
    if not is_behind and not any(source in decision.state.blind for source in NUMBERS):
        return
    behind = f"ranks were at step {furthest}, and the newest step that was read is {newest}" if is_behind else ""
    why = "; ".join(words for words in (behind, _why_blind(decision)) if words)
    incident = _open(decision, why, IncidentState.UNKNOWN, f"the run finished, and its last steps were not judged: {why}")
    page(decision, incident.id, incident.severity, why, "the run has finished; look at its last steps")


def _why_blind(decision: Decision) -> str:
    return "; ".join(f"{source}: {why}" for source, why in decision.state.blind.items() if source in NUMBERS)


def _open(decision: Decision, why: str, moved: IncidentState, verdict: str) -> Incident:
    attempt = decision.attempt.attempt if decision.attempt is not None else 0
    finding = Finding(Kind.UNREAD, "warning", attempt, None, decision.newest_step, decision.now_s, why, outside=True)
    incident = open_incident(decision, finding, "Unread", None)
    decision.record(f.IncidentMoved(incident.id, moved, verdict))
    return incident
