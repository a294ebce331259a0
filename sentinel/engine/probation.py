"""Watching what happens after: patience while an incident is open, probation after a remedy, and the end of the run.

Called on every step while an incident is open. It keeps no counters of its own: each verdict is a median over the last
steps, so that a restarted supervisor that reads the stream again says the same.
"""

from __future__ import annotations

from sentinel.detectors.bands import top_of_band
from sentinel.detectors.registry import FINDS
from sentinel.engine.annotations import rule_of
from sentinel.engine.decision import Decision
from sentinel.engine.diagnosis import compare_past_break, is_diagnosing
from sentinel.engine.ladder import fail_rung
from sentinel.engine.paging import on_recovered, page
from sentinel.engine.sources import STREAM
from sentinel.engine.unobserved import end_unknown
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.model.incidents import Band, Incident, IncidentState, Outcome
from sentinel.plan.holes import end_of_last
from sentinel.plan.verdict import ROWS_MIN, BandVerdict, Peak, judge_band, rows_to_tell

HEALED_AFTER_STEPS = 10  # a level younger than this is not believed to have healed
GRADUAL_ROWS = 30  # asked for after a drift or a divergence, in place of ROWS_MIN
LASTING_ROWS_MAX = 40  # asked for at most of what lasts
PROBATIONS_WAITED = 10  # for rows; where they are seldom, for twice LASTING_ROWS_MAX of their usual intervals
NEW_NORMAL_ROWS = 30
# What is found where no level was known: that the rows since are clean is all the proof there can be, and enough.
PROVEN_BY_ROWS = (Kind.NON_FINITE, Kind.LOSS_SCALE_COLLAPSE, Kind.EXPRESSION)
MOVES_WEIGHTS = {"lr": "the learning rate", "update_norm": "the norm of the update"}
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
    past = decision.steps_seen(incident.break_step, step)
    if past < needed or is_diagnosing(incident) or _keeps_firing(decision, incident, step):
        return
    if not incident.is_numeric:
        if not (still := _standstill(decision, incident, incident.break_step)):
            recover(decision, incident, f"{past} steps past step {incident.break_step} without another finding")
        elif not _awaits_rows(decision, past):
            fail_rung(decision, incident.id, still)
        return
    verdict = _band_verdict(decision, incident, incident.break_step)
    if verdict.is_within:
        recover(decision, incident, f"{past} steps past step {incident.break_step}: {verdict.reason}")
    elif verdict.is_known or not _awaits_rows(decision, past):
        fail_rung(decision, incident.id, verdict.reason)


def _judge_patience(decision: Decision, incident: Incident, step: int) -> None:
    """`wait` (and observe only): back in the band is healed and benign; above it for too long, or too late, is not. Observe only
    takes the next rung then, which is recorded and not carried out."""
    rungs = decision.rungs_of(incident)
    rung = rungs[incident.rung] if 0 <= incident.rung < len(rungs) else None
    wait = rung.wait if rung is not None else None
    last = incident.last_try
    since = decision.steps_seen(max(incident.detected_step, last.taken_step if last else 0), step)
    window = (wait.unless_above_band_steps if wait else None) or HEALED_AFTER_STEPS
    if since < window:
        return
    span = _span_with_rows(decision, incident, step, window, since)
    verdict = _band_verdict(decision, incident, step - span, window, _peak(incident))
    still = decision.detectors.still_true(incident.kind, incident.alert)
    if not verdict.is_known and not still and _awaits_rows(decision, since):
        return
    healed = verdict.is_within and not still
    reason = still or verdict.reason
    observed = last is not None and last.outcome is Outcome.OBSERVED
    if healed and _keeps_firing(decision, incident, step):
        return
    if healed and since >= max(window, HEALED_AFTER_STEPS):
        recover(decision, incident, f"healed by itself: {reason}", _is_untouched(incident), _back_since(decision, incident))
    elif incident.awaits_approval:
        return
    elif observed:
        _judge_observed(decision, incident, since, reason)
    elif wait is None or _rows_since(decision, incident, step - since, wait.rows) < wait.rows:
        return
    elif not healed and wait.unless_above_band_steps is not None and (still or _is_still_above(decision, incident)):
        fail_rung(decision, incident.id, reason if still else f"above its band for {window} steps: {reason}")
    elif since >= wait.for_steps and (still or not _is_returning(decision, incident, span)):
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


def _is_still_above(decision: Decision, incident: Incident) -> bool:
    """Is the newest row above the band too? The first window still holds the spike's own rows; one that is over is waited for."""
    band = incident.band
    newest = decision.detectors.rows_before(band.metric, decision.newest_step + 1, 1) if band is not None else []
    if band is None or not newest:
        return True
    return not newest[0][1] <= top_of_band(band.median, band.mad, decision.policy.spec.probation.recovered_when.ratio)


def _is_returning(decision: Decision, incident: Incident, span: int) -> bool:
    """Whether the rows of the verdict reach back to before it came back: it stands in its band now, and what it did while it did
    not is no reason to act. Soon the verdict is of rows behind that alone; until then no more than its rows are waited for."""
    back = _back_since(decision, incident)
    return back is not None and back > decision.newest_step - span + 1


def _span_with_rows(decision: Decision, incident: Incident, step: int, window: int, since: int) -> int:
    """The window, or so much more of what came since that it holds ROWS_MIN rows: a run logged every 100 steps has one row in a
    window of 20. Of what has lasted for long more rows are asked, half of those since, up to LASTING_ROWS_MAX: whoever looks at
    ten rows often enough finds ten that lie low."""
    if incident.band is None:
        return window
    metric = incident.band.metric
    rows = decision.detectors.rows_before(metric, step + 1, 2 * LASTING_ROWS_MAX)
    lasted = sum(1 for at, _ in rows if at > step - since)
    wanted = rows[-max(_rows_asked(decision, incident), lasted // 2) :]
    return min(max(window, step - wanted[0][0] + 1), since) if wanted else window


def _rows_since(decision: Decision, incident: Incident, after_step: int, at_most: int) -> int:
    """Rows of the judged metric after a step, counted up to so many."""
    if incident.band is None:
        return min(at_most, decision.detectors.count_rows(after_step))
    rows = decision.detectors.rows_before(incident.band.metric, decision.newest_step + 1, at_most)
    return sum(1 for step, _ in rows if step > after_step)


def _rows_asked(decision: Decision, incident: Incident) -> int:
    """In much noise ten rows do not tell a level from one that is 5 % too high."""
    ratio = decision.policy.spec.probation.recovered_when.ratio
    return max(_rows_of_kind(incident), rows_to_tell(incident.band, ratio))


def _rows_of_kind(incident: Incident) -> int:
    """What was found slowly has left its level by little, and ten rows do not tell the two apart."""
    return GRADUAL_ROWS if FINDS[incident.kind].bend else ROWS_MIN


def _awaits_rows(decision: Decision, since: int) -> bool:
    """Whether rows that decide are still waited for: of a metric that is not logged any more none will come."""
    probations = PROBATIONS_WAITED * decision.policy.spec.probation.steps
    return since < max(probations, 2 * LASTING_ROWS_MAX * decision.detectors.interval_steps)


def _judge_observed(decision: Decision, incident: Incident, since: int, reason: str) -> None:
    """Nothing was done about it, and it has not healed. It cannot stay open for ever: whatever broke next would be taken for
    more of the same. After a probation's length, and NEW_NORMAL_ROWS rows, it is closed, a person is informed, and watching
    goes on from there."""
    probation = decision.policy.spec.probation.steps
    if not decision.observes_only or decision.state.paused or since < probation:
        return  # during a pause a person is at it, and the rung is taken up when it ends
    level = decision.detectors.level(incident.band.metric, decision.newest_step - since) if incident.band is not None else None
    if level is None or level.count >= NEW_NORMAL_ROWS or not _awaits_rows(decision, since):
        verdict = f"observe only: {since} steps after the remedy that was not carried out, taken as the new normal: {reason}"
        decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, verdict))
        page(decision, incident.id, incident.severity, verdict, "observe only: sentinel does nothing, and watches on")


def settle_at_finish(decision: Decision) -> bool:
    """The trainer finished. Every open incident is closed, or (False) one needs another try before the run may end."""
    for incident in decision.state.open_incidents:
        verdict = _verdict_at_end(decision, incident) if incident.is_numeric else None
        if verdict is not None and not verdict.is_known:
            unknown = f"the run finished before it was known: {verdict.reason}"
            end_unknown(decision, incident, unknown)
            page(decision, incident.id, incident.severity, unknown, "the run has finished; look at its last steps")
            continue
        if verdict is not None and not verdict.is_within:
            fail_rung(decision, incident.id, f"the run finished above its band: {verdict.reason}")
            waits = decision.state.incident(incident.id).awaits_approval
            if decision.state.plan is not None or decision.state.giving_up or decision.state.paused or waits:
                return False
            continue
        recover(decision, decision.state.incident(incident.id), CLOSED_EARLY if incident.tries else "the run finished healthy")
    return True


def _verdict_at_end(decision: Decision, incident: Incident) -> BandVerdict:
    """Unknown where the last steps were not seen."""
    if STREAM in decision.state.blind:
        return BandVerdict("unknown", f"its last numbers are missing: {decision.state.blind[STREAM]}")
    lost = [(first, last) for first, last in decision.live.holes if last > decision.newest_step]
    if lost:
        return BandVerdict("unknown", f"the numbers of its last steps, {lost[0][0]} to {lost[-1][1]}, were lost")
    return _band_verdict(decision, incident, _judged_after(decision, incident), 1, is_last=True)


def keep_at_stop(decision: Decision) -> None:
    """The run is stopped in a probation: what was saved since the remedy is good enough to go on from, if the attempt has passed
    the step at which it broke and stands in the band since. Of a live change, what was saved before it lies there too."""
    attempt = decision.attempt
    for incident in decision.state.open_incidents:
        last = incident.last_try
        if attempt is None or incident.limit_step is None or incident.state is not IncidentState.PROBATION:
            continue
        if last is None or last.attempt is None or last.attempt > attempt.attempt or is_diagnosing(incident):
            continue
        verdict = _band_verdict(decision, incident, incident.break_step)
        still = decision.detectors.still_true(incident.kind, incident.alert) or _is_last_row_above(decision, incident)
        if verdict.is_within and not still:
            decision.record(f.ProbationKept(incident.id, decision.newest_step, verdict.reason))


def _is_last_row_above(decision: Decision, incident: Incident) -> bool:
    """Where no level was known before, every row since was judged by its detector alone."""
    return incident.band is not None and _is_still_above(decision, incident)


def _is_untouched(incident: Incident) -> bool:
    """Nothing was relaunched or changed for it: patience, pages and what was only observed do not count."""
    return not incident.put_back and not any(
        t.attempt is not None or (t.remedy.live and t.outcome is not Outcome.OBSERVED) for t in incident.tries
    )


def _back_since(decision: Decision, incident: Incident) -> int | None:
    """The verdict needs a window of rows: the metric was back before that. It never was before the fault itself was over."""
    band, onset = incident.band, incident.onset_step
    if band is None or onset is None:
        return None
    ratio = decision.policy.spec.probation.recovered_when.ratio
    back = decision.detectors.back_since(band.metric, top_of_band(band.median, band.mad, ratio), onset)
    good = decision.detectors.good_since(incident.kind)
    return back if back is None or good is None else max(back, good)


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


def _judged_after(decision: Decision, incident: Incident) -> int:
    """The step behind which the rows of a finished run are judged. Of a remedy's rows the newest count, as many as are asked for,
    also from before the step where it broke: the run may end just past it."""
    if incident.state is not IncidentState.PROBATION:
        return incident.detected_step
    resume = decision.state.attempts[-1].resume
    if resume is None:
        return incident.break_step
    metric = incident.band.metric if incident.band is not None else ""
    newest = decision.detectors.rows_before(metric, decision.newest_step + 1, _rows_asked(decision, incident))
    return min(incident.break_step, max(resume.step, newest[0][0] - 1) if newest else resume.step)


def _band_verdict(
    decision: Decision,
    incident: Incident,
    after_step: int,
    rows_above: int = ROWS_MIN,
    peak: Peak | None = None,
    is_last: bool = False,
) -> BandVerdict:
    """Where the judged metric stands since, against its level before the incident. Where numbers were lost since, only what came
    behind them tells it: nobody knows what they would have shown. `is_last`: no more rows will come, and the
    least that tell anything have to do. The rest as in `judge_band`."""
    before = incident.band
    after_step = max(after_step, end_of_last(decision.live.holes, decision.newest_step))
    if still := _standstill(decision, incident, after_step):
        return BandVerdict("unknown", still)
    if before is None and incident.kind in PROVEN_BY_ROWS:
        return _judge_rows(decision, after_step)
    level = decision.detectors.level(before.metric, after_step) if before is not None else None
    now = None
    if before is not None and level is not None:
        now = Band(before.metric, level.median, level.mad, level.count, level.last_step)
    ratio = decision.policy.spec.probation.recovered_when.ratio
    asked = _rows_of_kind(incident) if is_last else _rows_asked(decision, incident)
    return judge_band(now, before, ratio, peak, asked, rows_above)


def _standstill(decision: Decision, incident: Incident, after_step: int) -> str:
    """Why the rows since prove nothing: the weights did not move, though they had before. A schedule that was restored wrongly is
    the usual cause, and its loss is as flat as one could wish."""
    detectors, attempt = decision.detectors, decision.attempt
    began = incident.onset_step if incident.onset_step is not None else incident.detected_step
    if attempt is not None and attempt.resume is not None:
        began = min(began, attempt.resume.step + 1)  # its own rows before the step at which it broke are of the repair as well
    for metric, words in MOVES_WEIGHTS.items():
        now, before = detectors.level(metric, after_step), detectors.rows_before(metric, began, 1)
        if now is not None and now.median == 0.0 and before and before[0][1] > 0.0:
            return f"{words} is 0 in most of {now.count} rows, and was {before[0][1]:.4g} before the incident: nothing is trained"
    return ""


def _peak(incident: Incident) -> Peak | None:
    """How high the judged metric stood when it was found. For patience alone: a remedy trains other steps, and from where it had
    stood it need not come back."""
    if incident.band is None or incident.metric != incident.band.metric or not incident.value:
        return None
    return Peak(incident.detected_step, float(incident.value))


def _judge_rows(decision: Decision, after_step: int) -> BandVerdict:
    """No level was known before: rows that came since, and in which nothing was found again."""
    rows = decision.detectors.count_rows(after_step)
    reason = f"{rows} rows since without another finding, and no level before the incident to judge by"
    return BandVerdict("within" if rows >= ROWS_MIN else "unknown", reason)
