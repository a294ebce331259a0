"""What people ask while a run is live. Each request is answered once: granted or refused, with the sentence they read.

A refused request changes nothing. What a person asks costs no budget and climbs no playbook, but the rules hold for them too:
nothing is resumed from at or after an onset that is not resolved, nothing is done twice, everything is on record first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sentinel.client.settings import LAPSING
from sentinel.engine import applying, approval, node_checks, paging
from sentinel.engine.attempts import launch_first_or_next
from sentinel.engine.decision import Decision
from sentinel.engine.ladder import take_next_rung, take_rung
from sentinel.engine.lapsing import spare_steps
from sentinel.engine.live_settings import write_live
from sentinel.engine.relaunching import relaunch
from sentinel.engine.retention import anchor_now, judged_now, prune, read_first, why_not_pruned
from sentinel.engine.stopping import ask_to_stop
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.attempts import PERSON, ResumePoint, SettingsInForce
from sentinel.model.incidents import Incident, Outcome
from sentinel.model.readings import RequestReading
from sentinel.plan.overrides import for_relaunch, laid_over
from sentinel.plan.retention import is_sound
from sentinel.plan.rollback import choose_at_or_below, choose_by_samples


class RequestAnswer(NamedTuple):
    """`then` carries out what was granted; None: refused."""

    words: str
    then: Callable[[], None] | None


def _refuse(words: str) -> RequestAnswer:
    return RequestAnswer(words, None)


def _nothing_more() -> None:
    """Granted, and the fact itself was all there was to do."""


def on_request(decision: Decision, asked: RequestReading) -> None:
    """Answer a request; one already answered is an old file read again."""
    if asked.id in decision.state.answered_requests:
        return
    if isinstance(asked.request, w.ApplyPolicy):
        applying.on_request(decision, asked, asked.request)  # answered when it has been read
        return
    answer, held = _answer(decision, asked), decision.state.held
    if answer.then is not None and node_checks.begin_readmission(decision, asked):
        return  # answered when it has been checked
    decision.record(f.RequestAnswered(asked.id, asked.by, asked.request, answer.then is not None, answer.words))
    if held and not decision.state.held:
        paging.on_taken_up(decision, f"the run goes on: {answer.words}", asked.by)
    if answer.then is not None:
        answer.then()


def on_tick(decision: Decision) -> None:
    """On every tick: an approval whose deadline has passed is answered by the policy's default, once nothing is under way."""
    if _under_way(decision) or decision.state.held or decision.state.stop_by or decision.state.paused or decision.state.ended:
        return
    for incident in decision.state.open_incidents:
        waits = incident.approval
        if not incident.awaits_approval or waits is None or decision.now_s < waits.deadline_s:
            continue
        request = w.Approve(incident.id) if waits.otherwise == "approve" else w.Deny(incident.id)
        on_request(decision, RequestReading(w.deadline_id(incident.id, waits.rung), "the deadline (nobody answered)", request))


def _answer(decision: Decision, asked: RequestReading) -> RequestAnswer:
    state, request = decision.state, asked.request
    if isinstance(request, w.Acknowledge):
        return _acknowledge(decision, request.incident, asked.by)
    if isinstance(request, w.Resolve):
        return _settle(decision, request.incident, asked.by)
    if isinstance(request, w.Remark):
        return RequestAnswer("noted", _nothing_more)
    if isinstance(request, w.PruneCheckpoints):
        return _prune(decision, request.keep)
    if state.ended:
        return _refuse(f"the run has {state.ended}: {state.end_reason}")
    if state.stop_by:
        return _refuse(f"the run is being stopped, by {state.stop_by}")
    if decision.is_observed_run:
        return _refuse("this run is only observed (mode observe): sentinel changes nothing in it")
    match request:
        case w.PauseRun():
            return _pause(decision)
        case w.ResumeRun():
            return _resume(decision, asked.by)
        case w.Approve() | w.Deny():
            return _decide_rung(decision, request, asked.by)
        case w.Readmit():
            return _readmit(decision, asked, request)
        case w.HoldRun() | w.RollBack() | w.LeaveOut() | w.ChangeSettings():
            return _change_training(decision, request, asked)
        case w.ApplyPolicy():
            raise AssertionError("it is answered when the policy has been read")


def _change_training(
    decision: Decision, request: w.HoldRun | w.RollBack | w.LeaveOut | w.ChangeSettings, asked: RequestReading
) -> RequestAnswer:
    busy = _under_way(decision)
    if busy:
        return _refuse(busy)
    match request:
        case w.HoldRun():
            return _hold(decision)
        case w.RollBack():
            return _roll_back(decision, request, asked.by)
        case w.LeaveOut():
            return _leave_out(decision, request, asked)
        case w.ChangeSettings():
            return _change(decision, request, asked)


def _under_way(decision: Decision) -> str:
    """What must end before anything else is launched or written; empty when nothing is under way."""
    state = decision.state
    if state.plan is not None:
        return "a recovery is under way; ask again when the new attempt trains, or use `sentinel stop`"
    if state.hold_by:
        return f"the run is being held, by {state.hold_by}"
    if state.giving_up and not state.held:
        return f"the attempt is being ended: {state.giving_up_reason}"
    return ""


# Who acts: sentinel, a person, or nobody.


def _pause(decision: Decision) -> RequestAnswer:
    if decision.state.paused:
        return _refuse(f"already paused by {decision.state.paused}")
    under_way = "; the recovery under way is carried out to its end" if decision.state.plan is not None else ""
    return RequestAnswer(f"paused: watching goes on, remedies wait for `sentinel resume`{under_way}", _nothing_more)


def _resume(decision: Decision, by: str) -> RequestAnswer:
    state = decision.state
    if not (state.paused or state.held or state.hold_by):
        return _refuse("neither paused nor held: there is nothing to resume")
    if state.hold_by and not state.held:
        return _refuse(f"the hold asked for by {state.hold_by} is still being carried out; ask again when the run is held")
    over = ["the pause is over: remedies are carried out again"] if state.paused else []
    over += ["the hold is over: the run goes on"] if state.held else []
    return RequestAnswer("; ".join(over), lambda: _go_on(decision, by))


def _go_on(decision: Decision, by: str) -> None:
    """What was only observed during a pause is taken up now; a run without a living attempt is launched again."""
    for incident in reversed(decision.state.open_incidents):
        last = incident.last_try
        if last is not None and last.outcome is Outcome.OBSERVED and decision.state.plan is None:
            take_next_rung(decision, incident.id, max(0, incident.rung))  # -1: in a policy applied since, it begins anew
    waits = any(i.awaits_approval for i in decision.state.open_incidents)
    if decision.state.plan is None and not decision.is_alive and not decision.state.giving_up and not waits:
        launch_first_or_next(decision, f"resumed by {by}")


def _hold(decision: Decision) -> RequestAnswer:
    if decision.state.held:
        return _refuse(f"already held: {decision.state.held}")
    if not decision.is_alive:
        return _refuse("no attempt lives: there is nothing to hold")
    return RequestAnswer("training stops after a checkpoint and waits for `sentinel resume`", lambda: ask_to_stop(decision))


def _decide_rung(decision: Decision, request: w.Approve | w.Deny, by: str) -> RequestAnswer:
    number = request.incident
    incident = next((i for i in decision.state.open_incidents if i.id == number and i.awaits_approval), None)
    if incident is None or incident.approval is None:
        waiting = ", ".join(str(i.id) for i in decision.state.open_incidents if i.awaits_approval) or "none"
        return _refuse(f"incident {number} waits for no approval (waiting: {waiting})")
    busy = _under_way(decision) or ("the run is held; `sentinel resume` first" if decision.state.held else "")
    if busy:
        return _refuse(busy)
    index = incident.approval.rung
    if request.rung not in (None, index):
        late = f"rung {request.rung + 1} waits for no approval any more"
        return _refuse(f"{late}; rung {index + 1} does: look at it, and answer that")
    rungs = decision.rungs_of(incident)
    if index >= len(rungs):
        return _refuse(f"rung {index + 1} is no longer in playbook {incident.playbook}")
    if isinstance(request, w.Approve):

        def approve() -> None:
            paging.send(decision, number)
            take_rung(decision, number, index)

        return RequestAnswer(f"rung {index + 1} of incident {number} is taken", approve)

    def deny() -> None:
        paging.send(decision, number)
        approval.pass_over(decision, decision.state.incident(number), rungs[index], index, f"denied by {by}")
        take_next_rung(decision, number)

    return RequestAnswer(f"rung {index + 1} of incident {number} is passed over", deny)


def _prune(decision: Decision, keep: int) -> RequestAnswer:
    """Also of a run that has ended or is held: what it would resume from is known then."""
    if busy := why_not_pruned(decision):
        return _refuse(busy)
    judged = judged_now(decision, keep)
    if (anchor := anchor_now(decision, judged, keep)) is not None:
        sound = max((c.step for c in decision.state.checkpoints if is_sound(c)), default=None)
        why = "none that stays was read whole yet" if sound is None else f"step {sound} is the newest that was read whole"
        first = f"the checkpoint of step {anchor.step} is read whole first, for {why}"
        words = f"{first}; what is older and not needed is deleted if it holds, and else only what is older than one that held"
        return RequestAnswer(words, lambda: read_first(decision, anchor, keep))
    if not (spared := [one for one in judged if one.prune]):
        return _refuse(f"no checkpoint can be spared: each is one of the newest {keep}, or a resume or a rollback may need it")
    steps = ", ".join(str(one.checkpoint.step) for one in spared)
    return RequestAnswer(f"deleted, one after the other: the checkpoints of steps {steps}", lambda: prune(decision, judged, keep))


# What is trained, and with which settings.


def _roll_back(decision: Decision, request: w.RollBack, by: str) -> RequestAnswer:
    state = decision.state
    if request.to_step > decision.newest_step:
        return _refuse(f"step {request.to_step} lies ahead: the run stands at step {decision.newest_step}")
    if request.settings.skip and "skip" not in state.abilities:
        return _refuse("the trainer cannot skip samples (capability 'skip')")
    choice = choose_at_or_below(state.checkpoints, state.open_incidents, request.to_step)
    if choice.checkpoint is None and request.to_step > 0:
        steps = ", ".join(str(c.step) for c in state.checkpoints[:8]) or "none"
        return _refuse(f"{choice.reason} (checkpoints: {steps}); --to 0 starts from scratch")
    overrides = laid_over(for_relaunch(state.overrides, choice.step, None), request.settings, request.keys, PERSON, None)
    found = choice.checkpoint
    resume = ResumePoint(found.step, found.path, found.digest) if found else None
    reason = f"rolled back by {by}: {choice.reason}"
    return RequestAnswer(choice.reason, lambda: relaunch(decision, None, resume, overrides, 0.0, reason, asked=True))


def _leave_out(decision: Decision, request: w.LeaveOut, asked: RequestReading) -> RequestAnswer:
    """Ahead of the data cursor a living trainer is told; what was trained on already takes going back to before it."""
    state, start = decision.state, request.samples.start
    if "skip" not in state.abilities:
        return _refuse("the trainer cannot skip samples (capability 'skip')")
    seen = decision.detectors.samples_of(decision.newest_step)
    wanted = SettingsInForce(skip=(request.samples,))
    if decision.is_alive and seen and seen[-1].end <= start and "live_overrides" in state.abilities:
        words = f"samples {start}..{request.samples.end} will be left out (training stands at sample {seen[-1].end})"
        return RequestAnswer(words, lambda: _write(decision, asked, wanted, (), None))
    choice = choose_by_samples(state.checkpoints, state.open_incidents, start)
    if choice.checkpoint is None and state.pruned:
        return _refuse(f"no checkpoint from before sample {start} is left (they were deleted); `rollback --to 0` starts over")
    overrides = laid_over(for_relaunch(state.overrides, choice.step, None), wanted, (), PERSON, None)
    found = choice.checkpoint
    resume = ResumePoint(found.step, found.path, found.digest) if found else None
    reason = f"samples {start}..{request.samples.end} left out by {asked.by}: {choice.reason}"
    return RequestAnswer(
        f"already trained on, or not known: {choice.reason}",
        lambda: relaunch(decision, None, resume, overrides, 0.0, reason, asked=True),
    )


def _change(decision: Decision, request: w.ChangeSettings, asked: RequestReading) -> RequestAnswer:
    attempt = decision.attempt
    if attempt is None or attempt.is_over:
        return _refuse("no attempt lives; `sentinel rollback --to STEP --set …` relaunches with other settings")
    if attempt.first_step is None:
        return _refuse("the attempt has not made its first step yet; ask again when it trains")
    if "live_overrides" not in decision.state.abilities:
        return _refuse("the trainer cannot change settings while it runs (capability 'live_overrides')")
    return RequestAnswer(
        f"asked of the trainer: {_in_words(decision, request)}",
        lambda: _write(decision, asked, request.settings, request.keys, request.until_steps),
    )


def _in_words(decision: Decision, request: w.ChangeSettings) -> str:
    """Each setting with its value, and until when where it lapses."""
    end = f" until step {decision.newest_step + request.until_steps}" if request.until_steps is not None else ""
    values = {key: getattr(request.settings, key) for key in request.keys}
    lapsing = [f"{key} {value}" for key, value in values.items() if value is not None and key in LAPSING]
    lasting = [f"{key} {value}" for key, value in values.items() if value is not None and key not in LAPSING]
    back = [f"{key} as configured" for key, value in values.items() if value is None]
    return ", ".join([*([", ".join(lapsing) + end] if lapsing else []), *lasting, *back])


def _write(
    decision: Decision, asked: RequestReading, wanted: SettingsInForce, keys: tuple[str, ...], until_steps: int | None
) -> None:
    until = decision.newest_step + until_steps if until_steps is not None else None
    now = for_relaunch(decision.state.overrides, decision.newest_step, None)
    later = laid_over(now, wanted, keys, PERSON, until, until_steps or 0, spare_steps(decision))
    write_live(decision, None, f"wish-{asked.id}", later, "person")


# What changes no training: it is only taken note of.


def _readmit(decision: Decision, asked: RequestReading, request: w.Readmit) -> RequestAnswer:
    """Where the policy checks nodes, it is granted by the check (`node_checks.begin_readmission`)."""
    node, out = request.node, [one.node for one in decision.state.excluded]
    if node not in out:
        return _refuse(f"{node} is not left out (left out: {', '.join(out) or 'none'})")
    if busy := node_checks.why_checked_already(decision, asked.id, node):
        return _refuse(busy)
    how = ", unchecked, as asked for" if request.force else ""
    words = f"{node} may be used again, from the next launch on{how}"
    return RequestAnswer(words, lambda: node_checks.on_readmitted(decision, node, asked.by))


def _acknowledge(decision: Decision, number: int, by: str) -> RequestAnswer:
    incident = _find(decision, number)
    if isinstance(incident, RequestAnswer):
        return incident
    if incident.acknowledged_by:
        return _refuse(f"incident {number} was already acknowledged by {incident.acknowledged_by}")
    if incident.page is not None and not incident.page.is_open:
        return _refuse(f"the page of incident {number} is resolved: {incident.page.resolved}")
    return RequestAnswer(f"incident {number} is acknowledged by {by}", lambda: paging.send(decision, number))


def _settle(decision: Decision, number: int, by: str) -> RequestAnswer:
    incident = _find(decision, number)
    if isinstance(incident, RequestAnswer):
        return incident
    if incident.page is None:
        return _refuse(f"nobody was called for incident {number} (open pages: {_numbers(decision.state.open_pages)})")
    if not incident.page.is_open:
        return _refuse(f"the page of incident {number} is already resolved: {incident.page.resolved}")
    return RequestAnswer(
        f"the page of incident {number} is resolved", lambda: paging.resolve(decision, number, "a person says so", by)
    )


def _find(decision: Decision, number: int) -> Incident | RequestAnswer:
    found = next((i for i in decision.state.incidents if i.id == number), None)
    newest = _numbers(decision.state.incidents[-8:])
    return found if found is not None else _refuse(f"there is no incident {number} (newest: {newest})")


def _numbers(incidents: tuple[Incident, ...]) -> str:
    return ", ".join(str(i.id) for i in incidents) or "none"
