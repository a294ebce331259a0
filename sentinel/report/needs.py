"""What whoever looks at a run in trouble needs first, in the order of reading: the cause, what trains now, what follows, what to
type. `needs_document` is about the run as a whole; `standing_documents` about each incident that is open or called somebody. The
page, `sentinel status` and `sentinel top` say it in these words."""

from __future__ import annotations

import shlex
from typing import Any

from sentinel.model.amounts import time_words
from sentinel.model.incidents import Incident, Outcome
from sentinel.model.state import RunState
from sentinel.paging.case_answers import AnswerCommand, answers, unwatched_answers
from sentinel.paging.case_words import follows
from sentinel.plan.last_straw import last_straw
from sentinel.plan.structural import LOOK_AT, judge_structural
from sentinel.policy.rung_words import CONDITIONS
from sentinel.policy.schema import Policy
from sentinel.policy.schema_rungs import Rung
from sentinel.report.cause import cause_of, tried_words
from sentinel.report.snapshot import RunSnapshot
from sentinel.report.unwatched import until_watched
from sentinel.run_files.stall import SILENT_S, Stall, counted_words, stall_of

MINUTE_S = 60.0
FULL_NEXT = "free space on it: the supervisor goes on by itself, and nothing is repaired before"
_NOBODY = {
    "gone": ("Nobody watches this run", "its supervisor is gone", "bad"),
    "stuck": ("Nobody watches this run", "its supervisor holds the run, and its loop stands still", "bad"),
    "unknown": ("Whether anybody watches this run is not known", "its clock differs from the one here", "warn"),
}


def needs_document(snapshot: RunSnapshot, policy: Policy | None) -> dict[str, Any] | None:
    """None for a run that goes on by itself, or has ended as it was meant to. `policy`: None where it cannot be read."""
    state = snapshot.state
    stall = stall_of(state, snapshot.now_s, snapshot.senses)
    if stall is not None and not any(str(one.kind) == "hang" for one in state.open_incidents):
        return _suspected(snapshot, stall, policy)
    if state.ended == "failed" or (state.held and not state.ended):
        return _stands_still(snapshot)
    if not state.ended and snapshot.supervisor != "alive":
        return _unwatched(snapshot)
    return _paused(snapshot) if state.paused and not state.ended else None


def _stands_still(snapshot: RunSnapshot) -> dict[str, Any]:
    """Of a run that has failed or is held."""
    state = snapshot.state
    incident = last_straw(state)
    look_at = [LOOK_AT] if incident is not None and judge_structural(incident, (), 0) else []
    unwatched = [until_watched(snapshot)] if not state.ended and snapshot.supervisor != "alive" else []
    return {
        "head": "The run has failed" if state.ended else "The run is held and waits for a person",
        "tone": "bad",
        "incident": incident.id if incident is not None else None,
        "cause": cause_of(state),
        "tried": tried_words(state, incident) if incident is not None else "",
        "trains": _trains(snapshot),
        "next": [*follows(state, incident, snapshot.now_s), *look_at, *unwatched],
        "answers": _typed(answers(snapshot.run_dir, state, incident, "trigger")),
    }


def _unwatched(snapshot: RunSnapshot) -> dict[str, Any]:
    """Nothing of it is wrong, as far as anybody knows; but nobody looks."""
    head, cause, tone, follows_ = _nobody(snapshot)
    return {
        "head": head,
        "tone": tone,
        "incident": None,
        "cause": cause,
        "tried": "",
        "trains": _trains(snapshot),
        "next": [follows_],
        "answers": _typed(_unwatched_answers(snapshot)),
    }


def _unwatched_answers(snapshot: RunSnapshot) -> list[AnswerCommand]:
    found = unwatched_answers(snapshot.run_dir, snapshot.state, snapshot.supervisor)
    disk = f"df -h {shlex.quote(str(snapshot.run_dir.absolute()))}"
    return [AnswerCommand(disk, "which disk it is"), *found] if snapshot.is_disk_full else found


def _paused(snapshot: RunSnapshot) -> dict[str, Any]:
    state = snapshot.state
    return {
        "head": "Sentinel is paused",
        "tone": "warn",
        "incident": None,
        "cause": f"{state.paused} asked for it",
        "tried": "",
        "trains": _trains(snapshot),
        "next": follows(state, None, snapshot.now_s),
        "answers": _typed(answers(snapshot.run_dir, state, None, "trigger")),
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
        "next": _when_believed(policy, stall, counted_words(stall, snapshot.ranks, snapshot.now_s)) if is_watched else unwatched,
        "answers": [] if is_watched else _typed(unwatched_answers(snapshot.run_dir, snapshot.state, snapshot.supervisor)),
    }


def _when_believed(policy: Policy | None, stall: Stall, counted: str) -> list[str]:
    """The silence that is a hang, and what is done then. A phase that may take long is waited for longer: the detector knows."""
    if policy is None:
        return ["what follows is not known: the policy cannot be read"]
    settings = policy.spec.detectors.hang
    rule = next((one for one in policy.spec.rules if str(one.on) == "hang"), None)
    if settings is None or not settings.enabled or rule is None:
        return ["the policy does nothing about a hang: a person must"]
    limit_s = max(settings.floor_s, settings.after_step_times * stall.step_time_s)
    silence = f"{time_words(limit_s)}{counted}"
    believed = f"it counts as a hang once all ranks have been silent for {silence}, or longer in a slow phase"
    rungs = policy.spec.playbooks.get(rule.playbook, ()) if rule.playbook is not None else ()
    if policy.spec.mode == "observe" or not rungs:
        return [believed, "then it is recorded, and nothing is done"]
    return [believed, f"then {_rung(rungs, 0)}", "nothing is asked of you yet"]


def unwatched_words(snapshot: RunSnapshot) -> str:
    """One sentence where nobody watches a run that has not ended, or nobody knows; else empty."""
    if snapshot.state.ended or snapshot.supervisor == "alive":
        return ""
    head, cause, _, follows_ = _nobody(snapshot)
    return f"{head}: {cause}; {follows_}"


def _nobody(snapshot: RunSnapshot) -> tuple[str, str, str, str]:
    """Who watches, why not, the tone, what follows. A supervisor on a full disk waits for room, and writes nothing down."""
    if snapshot.is_disk_full:
        return "The disk is full", f"nothing can be written to {snapshot.run_dir}; the supervisor waits", "bad", FULL_NEXT
    return (*_NOBODY[snapshot.supervisor], until_watched(snapshot))


def standing_documents(snapshot: RunSnapshot, policy: Policy | None) -> list[dict[str, Any]]:
    """For each incident that is open, or whose page is: what broke, what follows, and what answers it, with the run's real
    directory. `waits`: it needs a person's word: a rung waits for it, or its page is open and nobody has answered."""
    state = snapshot.state
    found = {one.id: one for one in (*state.open_incidents, *state.open_pages)}
    return [_standing(snapshot, one, policy) for _, one in sorted(found.items())]


def _standing(snapshot: RunSnapshot, incident: Incident, policy: Policy | None) -> dict[str, Any]:
    state = snapshot.state
    page = incident.page
    asked = page is not None and page.is_open
    typed = answers(snapshot.run_dir, state, incident, "trigger" if asked or _is_asked(state, incident) else "message")
    return {
        "incident": incident.id,
        "kind": str(incident.kind),
        "state": str(incident.state),
        "stands": incident.stands,
        "reason": incident.reason,
        "waits": _is_asked(state, incident) or (page is not None and page.is_open and not page.is_answered),
        "next": _next(snapshot, incident, policy),
        "answers": _typed(typed),
    }


def _is_asked(state: RunState, incident: Incident) -> bool:
    """A rung waits for a person. Of a run that has ended nobody can answer it."""
    return incident.awaits_approval and not state.ended


def _next(snapshot: RunSnapshot, incident: Incident, policy: Policy | None) -> list[str]:
    """The journal says what is meant to happen; where nobody is there to do it, only what is seen is said."""
    state, page = snapshot.state, incident.page
    if not state.ended and snapshot.supervisor != "alive":
        return [_trains(snapshot), until_watched(snapshot)]
    would = [page.reason] if _is_asked(state, incident) and page is not None and page.reason else []
    return [*would, *follows(state, incident, _whole_minutes(snapshot, incident)), *_if_it_fails(state, incident, policy)]


def _whole_minutes(snapshot: RunSnapshot, incident: Incident) -> float:
    """The time by which a deadline is whole minutes away: words that change each second are read by nobody."""
    if incident.approval is None:
        return snapshot.now_s
    left_s = incident.approval.deadline_s - snapshot.now_s
    return snapshot.now_s + (left_s % MINUTE_S if left_s > 2 * MINUTE_S else 0.0)


def _if_it_fails(state: RunState, incident: Incident, policy: Policy | None) -> list[str]:
    """The rung after the one that is being tried or waits, by the policy as it stands. Nothing where that is not known."""
    last = incident.last_try
    if policy is None or incident.is_closed or state.observe_only or state.paused or state.ended:
        return []
    rungs = policy.spec.playbooks.get(incident.playbook, ())
    if incident.awaits_approval and incident.approval is not None:
        after = incident.approval.rung + 1
        is_passed_over = incident.approval.otherwise != "approve"
        return [f"then: {_rung(rungs, after)}"] if is_passed_over and after < len(rungs) else []
    if last is None or last.outcome is not Outcome.PENDING:
        return []
    if incident.rung >= len(rungs) or rungs[incident.rung].keys != last.remedy.words:
        return []
    if incident.rung + 1 == len(rungs):
        return ["if that fails, no rung is left: a person is called"]
    return [f"if that fails: {_rung(rungs, incident.rung + 1)}"]


def _rung(rungs: tuple[Rung, ...], index: int) -> str:
    rung = rungs[index]
    words = [word for word in rung.keys if word not in CONDITIONS]
    if "page" not in words:
        again = ": training starts again from a checkpoint" if rung.does("relaunches") else ""
        waits = ", which waits for approval" if rung.approval is not None else ""
        return f"rung {index + 1}, {' + '.join(words)}{again}{waits}"
    end = {"stop_now": ", and training stops", "hold": ", and training is held"}.get(str(rung.then), "")
    return f"rung {index + 1}, a person is called{end}"


def _typed(found: list[AnswerCommand]) -> list[dict[str, str]]:
    return [{"command": answer.command, "what": answer.what} for answer in found]


def _trains(snapshot: RunSnapshot) -> str:
    attempt_alive, unseen = snapshot.attempt_alive, snapshot.state.unseen
    if unseen is not None:
        return f"Whether ranks of it live on other machines is not known: {unseen.reason}."
    if attempt_alive is None:
        return "Whether anything of it trains is not known from here."
    return _beating(snapshot) if attempt_alive else "Nothing of it trains now."


def _beating(snapshot: RunSnapshot) -> str:
    """Of processes that live: whether they do anything. The words change each minute at most: somebody reads them."""
    there = "Processes of its newest attempt are still there"
    if not snapshot.ranks:
        return f"{there}."
    silent_s = min(seen.silent_s for seen in snapshot.ranks)
    if silent_s <= SILENT_S:
        return "It trains on: its ranks still beat."
    silence = time_words(silent_s - silent_s % MINUTE_S) if silent_s >= MINUTE_S else "some time"
    return f"{there}, and no rank has beaten for {silence}."
