"""Watching what happens after: patience while an incident is open, probation after a remedy, and the end of the run.

Called on every step while an incident is open. It keeps no counters of its own: each verdict is a median over the last
steps, so that a restarted supervisor that reads the stream again says the same.
"""

from __future__ import annotations

from sentinel.detectors.bands import top_of_band
from sentinel.engine.annotations import rule_of
from sentinel.engine.decision import Decision
from sentinel.engine.diagnosis import compare_past_break, is_diagnosing
from sentinel.engine.ladder import fail_rung
from sentinel.engine.paging import on_recovered, page
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.model.incidents import Band, Incident, IncidentState, Outcome
from sentinel.plan.verdict import BandVerdict, judge_band

HEALED_AFTER_STEPS = 10  # a level younger than this is not believed to have healed
ROWS_MIN = 3  # nor one of fewer rows: a run logged every 100 steps has one row in a window of 20
ROWS_LIMIT = 10  # probations: so long are rows waited for
NEW_NORMAL_ROWS = 30
CLOSED_EARLY = "the run ended healthy inside probation"


def judge_open_incidents(decision: Decision, step: int) -> None:
    """After a new step: restore, heal, fail or prove every open incident that this step decides."""
    for incident in decision.state.open_incidents:
        if decision.state.plan is not None or decision.state.giving_up:
            return
        if incident.state is IncidentState.PROBATION:
            if incident.restored_s is None and step > incident.break_step:
                decision.record(f.Restored(incident.id, step))
            compare_past_break(decision, incident, step)
            _judge_probation(decision, decision.state.incident(incident.id), step)
        elif incident.is_numeric:
            _judge_patience(decision, incident, step)


def _judge_probation(decision: Decision, incident: Incident, step: int) -> None:
    """A remedy has worked when the metric is back, for N steps, past the step where it broke."""
    needed = decision.policy.spec.probation.steps
    past = step - incident.break_step
    if past < needed or is_diagnosing(incident) or _keeps_firing(decision, incident, step):
        return
    verdict = _band_verdict(decision, incident, incident.break_step)
    if verdict is None:
        recover(decision, incident, f"{past} steps past step {incident.break_step} without another finding")
    elif verdict.is_within:
        recover(decision, incident, f"{past} steps past step {incident.break_step}: {verdict.reason}")
    else:
        fail_rung(decision, incident.id, verdict.reason)


def _judge_patience(decision: Decision, incident: Incident, step: int) -> None:
    """`wait` (and observe only): back in the band is healed and benign; above it for too long, or too late, is not. Observe only
    takes the next rung then, which is recorded and not carried out."""
    rungs = decision.rungs_of(incident)
    rung = rungs[incident.rung] if 0 <= incident.rung < len(rungs) else None
    wait = rung.wait if rung is not None else None
    last = incident.last_try
    since = step - max(incident.detected_step, last.taken_step if last else 0)
    window = (wait.unless_above_band_steps if wait else None) or HEALED_AFTER_STEPS
    if since < window:
        return
    span = _span_with_rows(decision, incident, step, window, since)
    if span is None:
        return
    verdict = _band_verdict(decision, incident, step - span)
    still = decision.detectors.still_true(incident.kind, incident.alert)
    healed = (verdict is None or verdict.is_within) and not still
    reason = still or (verdict.reason if verdict else "no level before the incident to judge by")
    observed = last is not None and last.outcome is Outcome.OBSERVED
    judged = verdict is not None or incident.kind is Kind.EXPRESSION
    if healed and judged and _keeps_firing(decision, incident, step):
        return
    if healed and since >= max(window, HEALED_AFTER_STEPS) and judged:
        recover(decision, incident, f"healed by itself: {reason}", _is_untouched(incident), _back_since(decision, incident))
    elif incident.awaits_approval:
        return
    elif observed:
        _judge_observed(decision, incident, since, reason)
    elif wait is None:
        return
    elif not healed and wait.unless_above_band_steps is not None and (still or _is_still_above(decision, incident, step)):
        fail_rung(decision, incident.id, reason if still else f"above its band for {window} steps: {reason}")
    elif since >= wait.for_steps:
        fail_rung(decision, incident.id, f"not healed within {wait.for_steps} steps: {reason}")


def _keeps_firing(decision: Decision, incident: Incident, step: int) -> bool:
    """`keep_firing_for`: so long after it was last seen, or broke, it is not called healed, so that what comes and goes is one
    incident. The end of the run does not wait for it."""
    rule = rule_of(decision.policy, incident)
    if rule is None:
        return False
    last_step = max(incident.break_step, incident.detected_step, incident.again_step or 0)
    last_s = max(incident.detected_s, incident.again_s or 0.0)
    keep = rule.keep_firing_for
    return step - last_step < keep.steps or decision.now_s - last_s < keep.seconds


def _is_still_above(decision: Decision, incident: Incident, step: int) -> bool:
    """Is the newest row above the band too? The first window still holds the spike's own rows; one that is over is waited for."""
    newest = _band_verdict(decision, incident, step - 1)
    return newest is None or not newest.is_within


def _span_with_rows(decision: Decision, incident: Incident, step: int, window: int, since: int) -> int | None:
    """The window, or so much more of what came since that it holds ROWS_MIN rows; None while there are fewer. A metric that is
    not logged at all any more is not waited for."""
    if incident.band is None or since >= ROWS_LIMIT * decision.policy.spec.probation.steps:
        return window
    span = window
    while True:
        level = decision.detectors.level(incident.band.metric, step - span)
        count = 0 if level is None else level.count
        if count >= ROWS_MIN:
            return span
        if span >= since:
            return None if count else window
        span = min(2 * span, since)


def _judge_observed(decision: Decision, incident: Incident, since: int, reason: str) -> None:
    """Nothing was done about it, and it has not healed. It cannot stay open for ever: whatever broke next would be taken for
    more of the same. After a probation's length, and NEW_NORMAL_ROWS rows, it is closed, a person is informed, and watching
    goes on from there."""
    probation = decision.policy.spec.probation.steps
    if not decision.observes_only or decision.state.paused or since < probation:
        return  # during a pause a person is at it, and the rung is taken up when it ends
    level = decision.detectors.level(incident.band.metric, decision.newest_step - since) if incident.band is not None else None
    if level is None or level.count >= NEW_NORMAL_ROWS or since >= ROWS_LIMIT * probation:
        verdict = f"observe only: {since} steps after the remedy that was not carried out, taken as the new normal: {reason}"
        decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, verdict))
        page(decision, incident.id, incident.severity, verdict, "observe only: sentinel does nothing, and watches on")


def settle_at_finish(decision: Decision) -> bool:
    """The trainer finished. Every open incident is closed, or (False) one needs another try before the run may end."""
    for incident in decision.state.open_incidents:
        verdict = _band_verdict(decision, incident, _since(incident)) if incident.is_numeric else None
        if verdict is not None and not verdict.is_within:
            fail_rung(decision, incident.id, f"the run finished above its band: {verdict.reason}")
            waits = decision.state.incident(incident.id).awaits_approval
            if decision.state.plan is not None or decision.state.giving_up or decision.state.paused or waits:
                return False
            continue
        recover(decision, decision.state.incident(incident.id), CLOSED_EARLY if incident.tries else "the run finished healthy")
    return True


def _is_untouched(incident: Incident) -> bool:
    """Nothing was relaunched or changed for it: patience, pages and what was only observed do not count."""
    return not incident.put_back and not any(
        t.attempt is not None or (t.remedy.live and t.outcome is not Outcome.OBSERVED) for t in incident.tries
    )


def _back_since(decision: Decision, incident: Incident) -> int | None:
    """The verdict needs a window of rows: the metric was back before that."""
    band, onset = incident.band, incident.onset_step
    if band is None or onset is None:
        return None
    ratio = decision.policy.spec.probation.recovered_when.ratio
    return decision.detectors.back_since(band.metric, top_of_band(band.median, band.mad, ratio), onset)


def recover(
    decision: Decision, incident: Incident, reason: str, benign: bool | None = None, back_step: int | None = None
) -> None:
    """`benign` and `back_step` as in `IncidentMoved`."""
    if incident.tries and incident.tries[-1].outcome is Outcome.PENDING:
        decision.record(f.RungJudged(incident.id, Outcome.WORKED, reason))
    if incident.restored_s is None:
        decision.record(f.Restored(incident.id, decision.newest_step))
    decision.record(f.IncidentMoved(incident.id, IncidentState.RECOVERED, reason, benign, back_step))
    on_recovered(decision, incident.id, reason)


def _since(incident: Incident) -> int:
    return incident.break_step if incident.state is IncidentState.PROBATION else incident.detected_step


def _band_verdict(decision: Decision, incident: Incident, after_step: int) -> BandVerdict | None:
    """None where there is nothing to compare: no band before the incident, or no value since."""
    if incident.band is None:
        return None
    level = decision.detectors.level(incident.band.metric, after_step)
    if level is None or level.count == 0:
        return None
    now = Band(incident.band.metric, level.median, level.mad, level.count)
    return judge_band(now, incident.band, decision.policy.spec.probation.recovered_when.ratio)
