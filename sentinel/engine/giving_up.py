"""Out of remedies: the incident is exhausted, a person is paged with the whole case, and the policy says what becomes of
the training meanwhile. Never a checkpoint after an unresolved onset, so the attempt is killed and not asked."""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.opening import open_incident
from sentinel.engine.paging import page
from sentinel.model import facts as f
from sentinel.model.actions import Action, KillAttempt
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.incidents import Incident, IncidentState, Outcome, Remedy
from sentinel.policy.schema import Rung

FOLLOWS = {
    "stop_now": "training is stopped now and the run has failed, until somebody starts it again: sentinel run --run-dir RUN_DIR",
    "hold": "training is stopped now and the run is held, until somebody goes on with it: sentinel resume RUN_DIR",
    "keep_training": "training goes on as it is, and nothing more is tried",
}
FAILED = "nothing trains any more; the run goes on when somebody starts it again: sentinel run --run-dir RUN_DIR"


def give_up(decision: Decision, incident_id: int, reason: str, page_rung: int | None = None, then: str | None = None) -> None:
    """Exhaust the incident. The rung that applies is the next one that ends the playbook; without any, stop and page."""
    incident = decision.state.incident(incident_id)
    rungs = decision.rungs_of(incident)
    index = page_rung if page_rung is not None else _next_end(rungs, incident.rung + 1)
    rung = rungs[index] if index is not None else None
    severity: Severity = rung.page.severity if rung is not None and rung.page is not None else "critical"
    after = then or ("hold" if rung is not None and rung.hold else rung.then if rung is not None and rung.then else "stop_now")
    if decision.observes_only:
        after = "keep_training"
    words = rung.keys if rung is not None else ("page",)
    remedy = Remedy(index if index is not None else incident.rung + 1, words, reason)
    if decision.state.paused and not decision.is_observed_run:  # a person is at it: this is taken up when the pause ends
        decision.take(incident_id, remedy)
        decision.record(f.RungJudged(incident_id, Outcome.OBSERVED, f"paused by {decision.state.paused}, nothing done: {reason}"))
        return
    decision.take(incident_id, remedy)
    decision.record(f.RungJudged(incident_id, Outcome.OBSERVED if decision.observes_only else Outcome.PAGED, reason))
    decision.record(f.IncidentMoved(incident_id, IncidentState.EXHAUSTED, reason))
    decision.record(f.GaveUp(incident_id, after, reason))
    if after != "keep_training":
        condemn_after(decision, incident)
    elif incident.limit_step is not None:
        suspect = f"checkpoints from step {incident.limit_step} on are suspect, and are used all the same"
        decision.note(f.about_incident(incident.id), f"{suspect}: training goes on from what they hold ({reason})")
    page(decision, incident_id, severity, reason, FOLLOWS[after])
    finish_giving_up(decision)


def condemn_after(decision: Decision, incident: Incident, why: str = "which was never repaired") -> None:
    """What was saved at or after an onset that was never repaired is not to be resumed from, by whoever starts the run again."""
    limit = incident.limit_step
    if limit is not None:
        for checkpoint in decision.state.checkpoints:
            if checkpoint.step >= limit and (not checkpoint.condemned or checkpoint.damaged):
                suspect = f"at or after the onset of incident {incident.id}, {why}"
                decision.record(f.CheckpointCondemned(checkpoint.step, suspect))


def fail_run(decision: Decision, reason: str) -> None:
    """The end without repair: no incident stays open in a run that has failed, and a critical one never ends unsaid."""
    for incident in decision.state.open_incidents:
        if incident.last_try is not None and incident.last_try.outcome is Outcome.PENDING:
            decision.record(f.RungJudged(incident.id, Outcome.FAILED, "the run failed before it had proved itself"))
        decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, f"the run failed: {reason}"))
        condemn_after(decision, incident)
        last = not decision.state.open_incidents  # a run never fails unsaid, however mild what it failed of
        is_open = incident.page is not None and incident.page.is_open
        if is_open or (not incident.pages and (incident.severity == "critical" or last)):
            page(decision, incident.id, "critical", f"the run failed: {reason}", FAILED)
    decision.record(f.RunEnded("failed", reason))


def finish_giving_up(decision: Decision) -> None:
    """Carry out `stop_now` and `hold`: kill what lives; once nothing lives, the run has failed, or is held."""
    state = decision.state
    if not state.giving_up:
        return
    attempt = decision.attempt
    if decision.is_alive and attempt is not None:
        if not attempt.stopping:
            decision.record(f.AttemptStopping(attempt.attempt, state.giving_up_reason))
        decision.decide(KillAttempt.of(attempt.attempt))
    elif state.giving_up == "hold":
        if not state.held:
            decision.record(f.Held(state.giving_up_reason))
    elif not state.ended:
        fail_run(decision, state.giving_up_reason)


def is_last_resort(rungs: tuple[Rung, ...], index: int) -> bool:
    """A page that ends the playbook: it says what follows, or nothing comes after it."""
    return rungs[index].page is not None and (rungs[index].then is not None or index == len(rungs) - 1)


def _next_end(rungs: tuple[Rung, ...], start: int) -> int | None:
    return next((i for i in range(start, len(rungs)) if rungs[i].hold or is_last_resort(rungs, i)), None)


def unable(decision: Decision, action: Action, reason: str) -> None:
    """Sentinel itself cannot act: that is a page, whatever the playbook would still have tried."""
    plan = decision.state.plan
    decision.record(f.PlanDropped(f"unable to act: {reason}"))
    if plan is not None and plan.incident is not None and not decision.state.incident(plan.incident).is_closed:
        give_up(decision, plan.incident, f"unable to act: {reason}")
        if not (
            decision.is_alive or decision.state.giving_up or decision.state.ended
        ):  # `keep_training`, and nothing is there to train
            fail_run(decision, f"unable to act: {reason}")
        return
    open_ones = decision.state.open_incidents
    if open_ones or any(attempt.first_step is not None for attempt in decision.state.attempts):
        follows = "the attempt trains on, and nobody repairs it" if decision.is_alive else FAILED
        number = open_ones[-1].id if open_ones else _open_own(decision, reason)
        page(decision, number, "critical", f"unable to act: {reason}", follows)
    if decision.state.giving_up and isinstance(action, KillAttempt):
        return  # the attempt still lives: the page says so, and its end will be seen when it comes
    if decision.is_alive:
        return
    finish_giving_up(decision)
    if not decision.state.ended and not decision.state.held:
        fail_run(decision, f"unable to act: {reason}")


def _open_own(decision: Decision, reason: str) -> int:
    """An incident of sentinel's own, where what it could not do was for none: a launch, or what a person asked for. Not before
    the run has trained: whoever types a command that cannot be started reads that where it stands."""
    attempt = decision.attempt.attempt if decision.attempt is not None else 0
    finding = Finding(
        Kind.CANNOT_ACT, "critical", attempt, None, decision.newest_step, decision.now_s, f"unable to act: {reason}", outside=True
    )
    incident = open_incident(decision, finding, "CannotAct", None)
    decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, "a person is called"))
    return incident.id
