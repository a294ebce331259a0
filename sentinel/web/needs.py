"""What whoever looks at a run in trouble needs first, in the order of reading: the cause, what trains now, what follows, what to
type. `needs_document` is about the run as a whole; `standing_documents` about each incident that is open or called somebody."""

from __future__ import annotations

from typing import Any

from sentinel.model.incidents import Incident, IncidentState, Outcome
from sentinel.model.state import RunState
from sentinel.paging.case_answers import AnswerCommand, answers
from sentinel.paging.case_words import follows, span
from sentinel.policy.rung_words import CONDITIONS
from sentinel.policy.schema import Policy
from sentinel.policy.schema_rungs import Rung
from sentinel.report.following import RunSnapshot
from sentinel.run_files.stall import Stall, stall_of

MINUTE_S = 60.0
_UNWATCHED = {
    "gone": "nothing is repaired until `sentinel run` is started again",
    "stuck": "nothing is repaired while the supervisor stands still",
    "unknown": "whether anybody repairs it is not known from here",
}


def needs_document(snapshot: RunSnapshot, policy: Policy | None) -> dict[str, Any] | None:
    """None for a run that goes on by itself, or has ended as it was meant to. `policy`: None where it cannot be read."""
    state = snapshot.state
    stall = stall_of(state, snapshot.now_s, snapshot.senses)
    if stall is not None and not any(str(one.kind) == "hang" for one in state.open_incidents):
        return _suspected(snapshot, stall, policy)
    if state.ended != "failed" and not state.held:
        return None
    incident = _last_straw(state)
    return {
        "head": "The run has failed" if state.ended else "The run is held and waits for a person",
        "tone": "bad",
        "incident": incident.id if incident is not None else None,
        "cause": f"{incident.kind}: {incident.reason}" if incident is not None else state.end_reason or state.held,
        "tried": _tried(incident) if incident is not None else "",
        "trains": _trains(snapshot),
        "next": follows(state, incident, snapshot.now_s),
        "answers": _typed(answers(snapshot.run_dir, state, incident, "trigger")),
    }


def _suspected(snapshot: RunSnapshot, stall: Stall, policy: Policy | None) -> dict[str, Any]:
    is_watched = snapshot.supervisor == "alive"
    unwatched = ["nobody watches this run now: a hang would be neither seen nor repaired"]
    return {
        "head": "A hang is suspected",
        "tone": "warn",
        "incident": None,
        "cause": stall.words(snapshot.now_s),
        "tried": "",
        "trains": "No step is being made." if snapshot.attempt_alive is not False else _trains(snapshot),
        "next": _when_believed(policy, stall) if is_watched else unwatched,
        "answers": [],
    }


def _when_believed(policy: Policy | None, stall: Stall) -> list[str]:
    """The silence that is a hang, and what is done then. A phase that may take long is waited for longer: the detector knows."""
    if policy is None:
        return ["what follows is not known: the policy cannot be read"]
    settings = policy.spec.detectors.hang
    rule = next((one for one in policy.spec.rules if str(one.on) == "hang"), None)
    if settings is None or not settings.enabled or rule is None:
        return ["the policy does nothing about a hang: a person must"]
    limit_s = max(settings.floor_s, settings.after_step_times * stall.step_time_s)
    believed = f"it counts as a hang once all ranks have been silent for {span(limit_s)}, or longer in a slow phase"
    rungs = policy.spec.playbooks.get(rule.playbook, ()) if rule.playbook is not None else ()
    if policy.spec.mode == "observe" or not rungs:
        return [believed, "then it is recorded, and nothing is done"]
    return [believed, f"then {_rung(rungs, 0)}", "nothing is asked of you yet"]


def standing_documents(snapshot: RunSnapshot, policy: Policy | None) -> list[dict[str, Any]]:
    """For each incident that is open, or whose page is: what follows, and what answers it, with the run's real directory."""
    state = snapshot.state
    found = {one.id: one for one in (*state.open_incidents, *state.open_pages)}
    return [_standing(snapshot, one, policy) for _, one in sorted(found.items())]


def _standing(snapshot: RunSnapshot, incident: Incident, policy: Policy | None) -> dict[str, Any]:
    state = snapshot.state
    page = incident.page
    asked = page is not None and page.is_open
    typed = answers(snapshot.run_dir, state, incident, "trigger" if asked or incident.awaits_approval else "message")
    return {
        "incident": incident.id,
        "next": _next(snapshot, incident, policy),
        "answers": _typed(typed),
    }


def _next(snapshot: RunSnapshot, incident: Incident, policy: Policy | None) -> list[str]:
    """The journal says what is meant to happen; where nobody is there to do it, only what is seen is said."""
    state, page = snapshot.state, incident.page
    if not state.ended and snapshot.supervisor != "alive":
        return [_trains(snapshot), _UNWATCHED[snapshot.supervisor]]
    would = [page.reason] if incident.awaits_approval and page is not None and page.reason else []
    return [*would, *follows(state, incident, _whole_minutes(snapshot, incident)), *_if_it_fails(state, incident, policy)]


def _whole_minutes(snapshot: RunSnapshot, incident: Incident) -> float:
    """The time by which a deadline is whole minutes away: words that change each second are read by nobody."""
    if incident.approval is None:
        return snapshot.now_s
    left_s = incident.approval.deadline_s - snapshot.now_s
    return snapshot.now_s + (left_s % MINUTE_S if left_s > 2 * MINUTE_S else 0.0)


def _if_it_fails(state: RunState, incident: Incident, policy: Policy | None) -> list[str]:
    """The rung after the one that is being tried, by the policy as it stands. Nothing where that is not known."""
    last = incident.last_try
    if policy is None or incident.is_closed or incident.awaits_approval or last is None or last.outcome is not Outcome.PENDING:
        return []
    if state.observe_only or state.paused:
        return []
    rungs = policy.spec.playbooks.get(incident.playbook, ())
    if incident.rung >= len(rungs) or rungs[incident.rung].keys != last.remedy.words:
        return []
    if incident.rung + 1 == len(rungs):
        return ["if that fails, no rung is left: a person is called"]
    return [f"if that fails: {_rung(rungs, incident.rung + 1)}"]


def _rung(rungs: tuple[Rung, ...], index: int) -> str:
    rung = rungs[index]
    words = [word for word in rung.keys if word not in CONDITIONS]
    if "page" not in words:
        return f"rung {index + 1}, {' + '.join(words)}" + (", which waits for approval" if rung.approval is not None else "")
    end = {"stop_now": ", and training stops", "hold": ", and training is held"}.get(str(rung.then), "")
    return f"rung {index + 1}, a person is called{end}"


def _typed(found: list[AnswerCommand]) -> list[dict[str, str]]:
    return [{"command": answer.command, "what": answer.what} for answer in found]


def _last_straw(state: RunState) -> Incident | None:
    """The newest that Sentinel had no repair left for."""
    return next((one for one in reversed(state.incidents) if one.state is IncidentState.EXHAUSTED), None)


def _tried(incident: Incident) -> str:
    """How many repairs it took, and what the last one failed of: that may be something else than what began it."""
    tries = [one for one in incident.tries if one.outcome is not Outcome.PAGED]
    if not tries:
        return "No repair was tried."
    count = f"{len(tries)} repairs were tried; the last" if len(tries) > 1 else "One repair was tried; it"
    last = tries[-1]
    return f"{count} {str(last.outcome).replace('_', ' ')}" + (f": {last.reason}" if last.reason else "")


def _trains(snapshot: RunSnapshot) -> str:
    attempt_alive, unseen = snapshot.attempt_alive, snapshot.state.unseen
    if unseen is not None:
        return f"Whether ranks of it live on other machines is not known: {unseen.reason}."
    if attempt_alive is None:
        return "Whether anything of it trains is not known from here."
    return "Processes of its newest attempt are still there." if attempt_alive else "Nothing of it trains now."
