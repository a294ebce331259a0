"""The scheduler did not start an attempt: that is no failure of the run. No rung is used, no checkpoint is blamed, and neither
restarts nor remedies are counted; it is tried again after growing pauses. After `budget.engine_trouble` times in a row a person
is called, and it is tried on all the same, at the longest pause: a controller that is away for a night must not end a run of
months.

Two ways to learn of it. The launcher says that it could not hand the attempt over (`ActionFailed.by_engine`): then the same
attempt is started again, for a job may have come to be under its number, and the launcher looks for that first. Or the attempt
was launched and ended, and the last word in the launcher's log is the scheduler's (`detectors.engine_words`): then the next try
is the next attempt, for the number was used. Of that only where nothing was ever heard of a rank; what dies later is a crash.
"""

from __future__ import annotations

from sentinel.detectors.crash import Ended, Failed
from sentinel.engine.decision import Decision
from sentinel.engine.leaving import end_stopped
from sentinel.engine.opening import open_incident
from sentinel.engine.paging import page, resolve
from sentinel.engine.relaunching import relaunch
from sentinel.engine.unobserved import is_unobserved
from sentinel.model import facts as f
from sentinel.model.actions import KillAttempt, StartAttempt
from sentinel.model.amounts import time_words
from sentinel.model.attempts import ExitReport
from sentinel.model.changed import replace
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import IncidentState
from sentinel.policy.budget import backoff_s, draw_spread

LINE_CHARS_MAX = 400


def word_of_engine(decision: Decision, ended: Ended, report: ExitReport) -> str:
    """The scheduler's own word, where an attempt has ended because it was never started; empty for every other end. Behind a
    blind source nothing is known of what was heard. Observe only: nothing is started, so it is told as any death is. A pause
    waits with remedies, and not with a launch that was decided before it."""
    attempt, blind = decision.attempt, decision.state.blind
    if attempt is None or not isinstance(ended, Failed) or decision.is_observed_run:
        return ""
    has_begun = attempt.receipt_s is not None or attempt.first_step is not None or decision.live.has_beats
    if has_begun or any(rank.source == "record" for rank in report.ranks) or blind.keys() & {"metrics", "heartbeats"}:
        return ""
    return decision.detectors.refusal(is_alone=is_unobserved(decision))[:LINE_CHARS_MAX]


def launch_again(decision: Decision, line: str) -> None:
    """The next attempt, as the one that was never started: from the same checkpoint, with the same settings, for the same
    incident."""
    attempt = decision.attempt
    assert attempt is not None, "an attempt has ended"
    pause_s = _count(decision, attempt.attempt, line, is_launched=True)
    incident = next((i for i in decision.state.open_incidents if i.last_try and i.last_try.attempt == attempt.attempt), None)
    number = None if incident is None else incident.id
    reason = f"attempt {attempt.attempt} was not started by the scheduler, and is launched again as it was: {line}"
    relaunch(decision, number, attempt.resume, attempt.overrides, pause_s, reason)


def start_again(decision: Decision, action: StartAttempt, line: str) -> None:
    """The same attempt: nobody knows that it was started, and the launcher looks for it before it starts it."""
    pause_s = _count(decision, action.attempt, line[:LINE_CHARS_MAX], is_launched=False)
    decision.record(f.ActionDecided(replace(action, not_before_s=decision.now_s + pause_s)))
    if decision.state.stop_by:
        break_off(decision, f"stopped by {decision.state.stop_by}")


def break_off(decision: Decision, reason: str) -> bool:
    """Nobody wants the start any more that the scheduler did not do. It may have done it all the same, so that it is stopped;
    what follows is decided when that is known. False where no such start waits."""
    plan = decision.state.plan
    action = plan.actions[plan.next] if plan is not None else None
    if not isinstance(action, StartAttempt) or action.key not in decision.state.pending or not decision.state.engine_troubles:
        return False
    if decision.attempt is None or decision.attempt.attempt != action.attempt or not decision.is_alive:
        return False
    decision.record(f.PlanDropped(f"{reason} while the scheduler started nothing"))
    decision.record(f.AttemptStopping(action.attempt, reason))
    decision.decide(KillAttempt.of(action.attempt))
    return True


def on_killed(decision: Decision, action: KillAttempt, detail: str) -> bool:
    """The start that was broken off is known not to live. False for the end of any other attempt, which is told by the
    launcher."""
    attempt = decision.attempt
    if attempt is None or attempt.attempt != action.attempt or not decision.is_alive or decision.live.attempt == action.attempt:
        return False
    if not decision.state.stop_by or decision.state.plan is not None:
        return False
    reason = f"never started, as far as is known ({detail or 'the scheduler did not say'})"
    decision.record(f.AttemptEnded(attempt.attempt, "stopped", reason, decision.newest_step, decision.now_s))
    end_stopped(decision, f"stopped by {decision.state.stop_by}")
    return True


def on_tick(decision: Decision) -> None:
    """Once something has been started, nobody is needed any more."""
    if decision.state.engine_troubles:
        return
    for incident in decision.state.open_pages:
        if incident.kind is Kind.ENGINE_TROUBLE:
            resolve(decision, incident.id, "the scheduler has started an attempt")


def _count(decision: Decision, attempt: int, line: str, is_launched: bool) -> float:
    """On record, and a person is called when it has gone on for too long. Returns the pause."""
    times, budget = decision.state.engine_troubles + 1, decision.policy.spec.budget
    spread = draw_spread(decision.state.run_id, decision.state.next_attempt)
    pause_s = min(backoff_s(budget, times) * spread, budget.backoff[1])
    decision.record(f.EngineTrouble(attempt, times, line, pause_s, is_launched))
    is_paged = any(incident.kind is Kind.ENGINE_TROUBLE for incident in decision.state.open_pages)
    if times % budget.engine_trouble == 0 and not is_paged:  # a page that somebody closed is raised again after as many more
        _call(decision, attempt, times, line, pause_s)
    return pause_s


def _call(decision: Decision, attempt: int, times: int, line: str, pause_s: float) -> None:
    why = f"the scheduler has not started an attempt {times} times in a row: {line}"
    finding = Finding(
        Kind.ENGINE_TROUBLE, "critical", attempt, None, decision.newest_step, decision.now_s, why, value=float(times),
        outside=True
    )
    incident = open_incident(decision, finding, "EngineTrouble", None)
    decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, "a person is told, and it is tried on"))
    follows = f"it is tried on, every {time_words(pause_s)} or rarer; nothing trains meanwhile, and no rung is used"
    page(decision, incident.id, "critical", why, follows)
