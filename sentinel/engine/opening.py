"""A finding that belongs to no incident opens one: dated back to the earliest co-signal (`detectors/onset.py`), placed in the
data order, with the level the metric stood at before. The finding itself, and its key, stay as they were found."""

from __future__ import annotations

from math import isfinite

from sentinel.detectors.registry import FINDS
from sentinel.engine.annotations import labels_of
from sentinel.engine.decision import Decision
from sentinel.engine.exclusion import blamed_node, other_node
from sentinel.model import facts as f
from sentinel.model.findings import Finding
from sentinel.model.incidents import Band, Incident, SampleAnchor
from sentinel.plan.verdict import ROWS_MIN, measure_fall
from sentinel.streams.level import measure_level, measure_noise, since_newest_interval

LEVEL_ROWS = 20  # before the onset, where no detector knows the level
NOISE_ROWS = 300
FOUND_AGAIN_S = 3600.0  # after a supervisor began


def open_incident(decision: Decision, finding: Finding, alert: str, playbook: str | None, link: str = "") -> Incident:
    """`link`: what the table of causes says of it, said with its reason."""
    band: Band | None = None
    anchor: SampleAnchor | None = None
    onset, reason = finding.onset_step, finding.reason
    if finding.kind.is_numeric:
        dated = decision.detectors.date_onset(finding)
        if dated is not None:
            onset = _within_reach(decision, finding, dated.step)
            reason = f"{finding.reason}; {dated.reason}"
            if onset != dated.step:
                reason += f"; taken as {onset}, because no checkpoint is older than step {onset - 1}"
        band = _band_before(decision, finding, onset, dated.signal if dated is not None else None)
        anchor = _anchor(decision, onset, finding.detected_step)
    if link:
        reason = f"{reason}; {link}"
    blamed = blamed_node(decision, finding)
    incident = Incident(
        id=decision.state.next_incident,
        kind=finding.kind,
        severity=finding.severity,
        alert=alert,
        playbook=playbook or "",
        attempt=finding.attempt,
        onset_step=onset,
        detected_step=finding.detected_step,
        break_step=max(finding.detected_step, decision.newest_step),
        visible_s=_visible_s(decision, finding),
        detected_s=decision.now_s,
        reason=reason,
        band=band,
        samples=anchor,
        blamed_rank=finding.blamed_rank,
        blamed_node=blamed,
        other_node=other_node(decision, blamed),
        retryable=finding.retryable,
        value=_shown(finding.value),
        baseline=_shown(finding.baseline),
        metric=finding.metric or "",
        labels=labels_of(decision.policy, alert),
    )
    decision.record(f.FindingRecorded(finding, incident.id, f"rule {alert}"))
    decision.record(f.IncidentOpened(incident))
    return incident


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def reported_before(decision: Decision, finding: Finding) -> Incident | None:
    """What stands and does not break is found again by whoever reads its signs anew: said once for each attempt, rank and metric.
    Another layer's `grad_norm/LAYER` is news, and so is what was over by measurement in between. Incidents of old journals name
    no metric, and stand for all."""
    state, finds = decision.state, FINDS[finding.kind]
    if not finds.only_tells or decision.now_s - state.session_s > FOUND_AGAIN_S:
        return None
    whom, metrics = (finding.kind, finding.attempt, finding.blamed_rank), ("", finding.metric or "")
    before = (i for i in reversed(state.incidents) if i.detected_s < state.session_s)
    if finds.is_measured:
        before = (i for i in before if i.page is None or i.page.is_open)
    return next((i for i in before if (i.kind, i.attempt, i.blamed_rank) == whom and i.metric in metrics), None)


def _within_reach(decision: Decision, finding: Finding, dated_step: int) -> int:
    """A date must not cost the run: where the only checkpoints before the alarm's own onset are younger than the date, the
    oldest of them counts as clean. A start from scratch is for a person to choose."""
    own = finding.onset_step if finding.onset_step is not None else finding.detected_step
    clean = [c.step for c in decision.state.checkpoints if not c.condemned and c.step < own]
    return min(clean) + 1 if clean and min(clean) >= dated_step else dated_step


def _visible_s(decision: Decision, finding: Finding) -> float:
    """A run that died while nobody watched was visibly dead since its last step, not since somebody looked."""
    last_s = decision.live.last_step_s
    unwatched = finding.onset_step is None and last_s is not None and last_s < decision.state.session_s
    return min(finding.visible_s, last_s) if unwatched and last_s is not None else finding.visible_s


def _band_before(decision: Decision, finding: Finding, onset_step: int | None, signal: str | None) -> Band | None:
    """Where the judged metric stood. What found it knows best: the level its own breach left, or the one it climbed from. Where
    another metric broke, or that breach is long past, or the judged metric moved before it, the rows before the onset tell.
    None of fewer than ROWS_MIN rows. The spread is that of neighbouring rows, which neither a descent nor the trouble widens."""
    metric = decision.policy.spec.probation.recovered_when.metric
    window = decision.policy.spec.detectors.spike.window_steps
    onset = onset_step if onset_step is not None else finding.detected_step
    detectors = decision.detectors
    level = detectors.found_from(finding.kind, metric)
    end = onset if level is None else min(onset, level.last_step + 1)
    rows = since_newest_interval(detectors.rows_before(metric, end, NOISE_ROWS))
    if level is None and not FINDS[finding.kind].is_gradual and signal != metric:
        level = detectors.pre_breach(metric)
        level = level if level is not None and level.last_step >= onset - window else None
    if level is None or level.count < ROWS_MIN:
        level = measure_level(rows[-LEVEL_ROWS:])
    if level is None or level.count < ROWS_MIN or not isfinite(level.median):
        return None
    mad = min(level.mad, measure_noise(rows)) if len(rows) >= ROWS_MIN else level.mad
    fall = measure_fall(rows, measure_noise(rows))
    return Band(metric, level.median, mad, level.count, level.last_step, fall.size, fall.steps, fall.lasting)


def _anchor(decision: Decision, onset_step: int | None, detected_step: int) -> SampleAnchor | None:
    per_step = decision.detectors.samples_per_step
    onset = decision.detectors.samples_of(onset_step) if onset_step is not None else None
    detected = decision.detectors.samples_of(detected_step)
    if not onset or not detected or not per_step:
        return None
    return SampleAnchor(onset[0].start, detected[-1].end, per_step, decision.state.overrides.data_seed)
