"""The life of a page. One incident is one page, on every route of the policy the same:

    raised ─▶ trigger on each route, at once or when its turn has come ─▶ repeated until somebody answers
           ─▶ held back (`holding_back`): calls, repetitions and changes wait until it is let go
           ─▶ update (its words change) ─▶ acknowledge (to whoever was called) ─▶ resolve (to whoever was called)

On a route one sending follows the other: what is decided next is read from what became of the one before. Pages change nothing in
a run, so they go out while it is paused, and in observe only.
"""

from __future__ import annotations

from collections.abc import Iterator

from sentinel.detectors.registry import FINDS
from sentinel.detectors.stale_checkpoint import DAMAGED
from sentinel.engine.annotations import notes_of, runbook_of
from sentinel.engine.coming_back import WORDS, keeps_coming_back, must_stay_open
from sentinel.engine.decision import Decision
from sentinel.engine.holding_back import hold_ends, mutes_of, update_hold
from sentinel.engine.owed_pages import is_owed, is_waiting, unanswered
from sentinel.model import facts as f
from sentinel.model.actions import SendPage, Stage, page_key
from sentinel.model.changed import replace
from sentinel.model.findings import Severity
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.paging import IncidentPage, RouteStatus
from sentinel.policy.quiet_hours import was_held_words
from sentinel.policy.schema import Paging, Route
from sentinel.policy.schema_paging import RANK

REPEATED_MAX = 8  # of more pages that nobody has answered, the newest are repeated: a page an hour for each wakes nobody better
TITLE_CHARS_MAX, TEXT_CHARS_MAX = 200, 8000
ABOUT = "pages"  # of notes


def page(decision: Decision, number: int, severity: Severity, reason: str, follows: str) -> None:
    """Call a person. The text is the case: what broke, what was tried, why nobody else can go on, and what `follows`."""
    incident = decision.state.incident(number)
    if keeps_coming_back(decision.state, incident, decision.now_s):
        reason = f"{reason}; {WORDS}"
    where = f" since step {incident.onset_step}" if incident.onset_step is not None else f" at step {incident.break_step}"
    notes, runbook_url = notes_of(decision.policy, incident), runbook_of(decision.policy, incident)
    lines = [f"{incident.alert}: {incident.reason}", *notes, *([f"runbook: {runbook_url}"] if runbook_url else [])]
    lines += [f"tried: {t.remedy.reason} -> {t.outcome}{': ' + t.reason if t.reason else ''}" for t in incident.tries[:-1]]
    lines += [f"now: {reason}", f"next: {follows}"]
    title = f"{decision.state.run_id}: {incident.kind}{where}"
    raise_page(decision, f.PageRaised(number, severity, title, "\n".join(lines), True, reason, notes, runbook_url))


def raise_page(decision: Decision, wanted: f.PageRaised) -> None:
    """One more reason while nobody has answered changes the page. Everybody is called anew where what was acknowledged or
    resolved was something else, and where it has become more severe."""
    known = decision.state.incident(wanted.incident).page
    anew = known is None or known.is_answered or RANK[wanted.severity] > RANK[known.severity]
    severity = known.severity if known is not None and not anew else wanted.severity
    title, text = wanted.title[:TITLE_CHARS_MAX], wanted.text[:TEXT_CHARS_MAX]
    decision.record(replace(wanted, severity=severity, title=title, text=text, anew=anew))
    send(decision, wanted.incident)


def resolve(decision: Decision, number: int, reason: str, by: str = "") -> None:
    """Nobody is needed any more: the routes that were called get the resolve. Without an open page nothing."""
    known = decision.state.incident(number).page
    if known is not None and known.is_open:
        decision.record(f.PageResolved(number, reason, by))
        send(decision, number)


def on_recovered(decision: Decision, number: int, reason: str) -> None:
    """A page that was open is resolved; where nobody was called, routes with `messages` get a message."""
    incident = decision.state.incident(number)
    if incident.page is not None and incident.page.is_open:
        return resolve(decision, number, f"it has recovered: {reason}")
    title = f"{decision.state.run_id}: {incident.kind} has recovered without a person"
    tried = [f"tried: {t.remedy.reason} -> {t.outcome}" for t in incident.tries]
    text = "\n".join([f"{incident.alert}: {incident.reason}", *tried, f"now: {reason}", "next: nothing, training goes on"])
    paging = decision.policy.spec.paging
    for route in paging.routes:
        if route.settings.messages and route.is_for(incident.severity):
            if muted := mutes_of(paging, incident, incident.severity, route.name, decision.now_s):
                decision.note(ABOUT, f"{route.name} gets no message of incident {number}, which has recovered: {muted[0].name}")
                continue
            key = page_key(number, 1, "message", route.name)
            message = SendPage(
                key, number, incident.severity, title[:TITLE_CHARS_MAX], text[:TEXT_CHARS_MAX], stage="message", route=route.name
            )
            decision.decide(message)
    return None


def withdraw_what_is_over(decision: Decision) -> None:
    """A page about what is no more, where its detector measures that: nobody need look any more. The incident itself was closed
    when a person was called. What keeps coming back is over only once it has stayed away."""
    for incident in decision.state.open_pages:
        finds = FINDS.get(incident.kind)
        if finds is None or not finds.is_measured or not (why := decision.detectors.over(incident.kind, incident.metric)):
            continue
        if not must_stay_open(decision.state, incident, decision.now_s):
            resolve(decision, incident.id, why)


def on_taken_up(decision: Decision, reason: str, by: str) -> None:
    """A person goes on with a run that was given up: what sentinel called for is answered by that."""
    for incident in decision.state.incidents:
        if incident.is_closed:
            resolve(decision, incident.id, reason, by)


def on_end(decision: Decision) -> None:
    """The run has just ended. Finished: nobody is needed, but for what the end left unknown, and for what is wrong with what the
    run leaves behind. Stopped: what somebody had in hand is settled, the rest stays open."""
    state = decision.state
    waiting = [route.name for route in decision.policy.spec.paging.routes if is_waiting(state, route)]
    if state.ended == "failed" and waiting:
        stays = f"sentinel stays until {', '.join(waiting)} was tried or somebody answers; Ctrl-C ends that"
        decision.note(ABOUT, f"nobody has answered yet: {stays}")
    if is_owed(state, decision.policy.spec.paging, decision.now_s) and (ends := hold_ends(unanswered(state))):
        decision.note(ABOUT, f"a page waits: {ends}; sentinel stays until it is out or somebody answers; Ctrl-C ends that")
    for incident in state.incidents:
        if state.ended == "finished":
            if incident.state is IncidentState.UNKNOWN and incident.closed_s == decision.now_s:
                continue  # it was closed by the end itself: somebody has to look
            if _outlives(decision, incident):
                continue
            resolve(decision, incident.id, state.end_reason)
        elif state.ended == "stopped" and incident.acknowledged_by:
            resolve(decision, incident.id, f"the run was {state.end_reason}", incident.acknowledged_by)


def _outlives(decision: Decision, incident: Incident) -> bool:
    """Whether it still stood when the run finished, and concerns its numbers or what it saved: no final checkpoint is there, or
    half of the loss was never logged."""
    finds, detectors = FINDS.get(incident.kind), decision.detectors
    if finds is None or not finds.outlives:
        return False
    if incident.metric == DAMAGED:
        return True  # a younger one that holds would have taken it back
    return not detectors.over(incident.kind, incident.metric) if finds.is_measured else detectors.is_breached(incident.kind)


def on_tick(decision: Decision) -> None:
    """On every tick: what only time makes due, the repetitions among it."""
    if not decision.state.incidents:
        return
    known = [
        i for i in decision.state.incidents if i.page is not None and (i.page.is_open or any(t.is_open for t in i.page.routes))
    ]
    unanswered = [i.id for i in known if i.page is not None and not i.page.is_answered]
    for incident in known:
        send(decision, incident.id, repeats=incident.id in unanswered[-REPEATED_MAX:])


def send(decision: Decision, number: int, repeats: bool = False) -> None:
    """Decide what is due on each route. `repeats`: what nobody has answered may be sent once more."""
    known = decision.state.incident(number).page
    if known is None:
        return
    _withdraw(decision, number, known)
    update_hold(decision, number)
    known = decision.state.incident(number).page
    assert known is not None
    for status, stage in tuple(_due(known, decision.policy.spec.paging, decision.now_s, repeats)):
        key = page_key(number, status.sent + 1, stage, status.route)
        is_first = stage == "trigger" and status.number < known.number
        by = {"acknowledge": known.acknowledged_by, "resolve": known.resolved_by}.get(stage, "")
        text = _text(known, stage, is_first)
        decision.decide(SendPage(key, number, known.severity, known.title, text, stage, status.route, by))


def _due(known: IncidentPage, paging: Paging, now_s: float, repeats: bool) -> Iterator[tuple[RouteStatus, Stage]]:
    for index, route in enumerate(paging.routes):
        status = known.on(route.name)
        if status.under_way is not None:
            continue
        is_held = known.is_held(route.name)
        if not known.is_open:
            if status.is_open:
                yield status, "resolve"
        elif known.acknowledged_by:
            if status.is_open and not status.acknowledged and status.number == known.number:
                yield status, "acknowledge"
        elif is_held:
            continue
        elif status.is_open and status.acknowledged and route.closes_first:
            yield status, "resolve"
        elif status.number < known.number:
            if _is_its_turn(known, paging, index, now_s):
                yield status, "trigger"
        elif status.is_open and status.version < known.version:
            yield status, "update"
        elif repeats and now_s - status.triggered_s >= paging.repeat_every_s:
            yield status, "trigger"


def _is_its_turn(known: IncidentPage, paging: Paging, index: int, now_s: float) -> bool:
    """At once, or `after` so long, or when a route that it waits behind could not deliver in time. One failure brings one waiting
    route forward, the next in line."""
    route = paging.routes[index]
    after_s = route.settings.after_s
    if not route.is_for(known.severity):
        return False
    if after_s is None or now_s - known.due_s >= after_s:
        return True
    for before in reversed(paging.routes[:index]):
        if not before.is_for(known.severity) or known.is_held(before.name):
            continue
        if _could_not(known, before, paging.deadline_s, now_s):
            return True
        if before.settings.after_s is not None:
            return False
    return False


def _could_not(known: IncidentPage, route: Route, deadline_s: float, now_s: float) -> bool:
    status = known.on(route.name)
    if status.delivered == known.number:
        return False
    if status.number == known.number:
        return status.failed or now_s - status.triggered_s > deadline_s
    return route.settings.after_s is None and now_s - known.due_s > deadline_s


def _withdraw(decision: Decision, number: int, known: IncidentPage) -> None:
    """A call that has not got through is not tried again once it is answered, or another has taken its place."""
    why = f"acknowledged by {known.acknowledged_by}" if known.acknowledged_by else f"resolved: {known.resolved}"
    for status in known.routes:
        key = page_key(number, status.sent, "trigger", status.route)
        if status.under_way != "trigger" or key not in decision.state.pending:
            continue
        if known.is_answered or status.number < known.number:
            reason = why if known.is_answered else "everybody is called anew"
            decision.record(f.ActionAbandoned(key, f"no longer wanted, {reason}", withdrawn=True))


def _text(known: IncidentPage, stage: Stage, is_first: bool) -> str:
    if is_first and known.freed_from is not None:
        return f"{was_held_words(known)}\n{known.text}"
    if stage == "acknowledge":
        return f"acknowledged by {known.acknowledged_by}: it is not repeated\n{known.text}"
    if stage == "resolve" and known.is_open:
        return f"resolved: what was acknowledged is over, and another call follows\n{known.text}"
    if stage == "resolve":
        by = f" (by {known.resolved_by})" if known.resolved_by else ""
        return f"resolved: {known.resolved}{by}\n{known.text}"
    return known.text
