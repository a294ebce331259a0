"""onset: when it really began. The alarm's metric is often not the first to move, and the onset decides how far to roll back.

Sees: a rise of a metric whose row in `model/metrics.py` says `onset`. It must lead into the alarm without a break, have no cause
of its own (`own_cause.py`: a NaN, or a gradient of a row or two that was far too large), and lie within `lookback_steps` before
the alarm and not before the last cut (relaunch, changed settings, a jump of the learning rate). The earliest of them dates the
incident. The loss scale counts when it stands at a quarter or less of what it was, for good: its first halving.
Does not see: what is not logged; a blip that ended before the alarm; a metric that rose all along and has no start; falls
(`too_good` keeps its own date). A climb too slow for a change point is seen where `drift` found a norm creeping that still does:
it dates the slow alarms that follow.

Source: `streams/change_point.py` for the statistics. Slow alarms are dated anew from the step that found them, because their own
onset is the edge of a median of 55 to 100 samples. BLOOM's loss scale pointed to iteration 4.7k when its spike came at 7k, and
healthy fp16 runs halve and double again and again: hence two halvings without a return (LOG.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from sentinel.detectors.contract import Creep
from sentinel.detectors.own_cause import has_own_cause
from sentinel.detectors.registry import FINDS
from sentinel.model.findings import Finding
from sentinel.model.metrics import METRICS, Onset
from sentinel.streams.change_point import (
    Rows,
    find_bend,
    find_departure,
    find_growth,
    find_hinge,
    find_jump,
    find_rise,
    find_settling,
    had_risen,
)
from sentinel.streams.series import Series

# Of signals that began at one step the first is named: the loss scale last, because its halvings follow something else.
SIGNALS: Mapping[str, Onset] = {
    metric.name: metric.onset
    for metric in sorted(METRICS, key=lambda metric: metric.onset == "halvings")
    if metric.onset is not None
}
LOOKBACK_ROWS = 100  # where rows are seldom, the policy's steps hold few of them or none: so many rows at most are looked back
LOSS_RISE = 0.03
NORM_RISE = 0.2
FALLEN = 0.25  # of its highest: healthy scalers halve once and double again


@dataclass(frozen=True, slots=True)
class Dated:
    """Where an incident began, by which signal, and the sentence that says so."""

    step: int
    signal: str
    reason: str


def date_onset(
    series: Series,
    finding: Finding,
    lookback_steps: int,
    cut_step: int,
    creeping: Creep | None = None,
    well_until: int = -1,
) -> Dated | None:
    """The earliest credible start of what the finding found; None where the finding's own onset stands.

    `creeping`: a norm that climbs slowly now, as `drift` found it. `well_until`: the first step of the samples in which its
    metric stood best: it had not left its level before, and no bend of a descent is taken for the beginning."""
    lookback_steps = max(lookback_steps, min(lookback_steps, LOOKBACK_ROWS) * series.interval_steps)
    onset = finding.onset_step
    if onset is None or not finding.kind.is_numeric or FINDS[finding.kind].keeps_onset:
        return None
    own = finding.metric or "-"
    first = _bend(series, finding, onset, max(onset - lookback_steps, well_until + 1), cut_step)
    began, signal = first, own
    for name, sign in SIGNALS.items():
        at = _start(series, name, sign, first - 1, lookback_steps, cut_step)
        if at is not None and at < began and not has_own_cause(series, name, at, first):
            began, signal = at, name
    if creeping is not None and FINDS[finding.kind].bend:
        crept = _departure(series, creeping, cut_step)
        if max(onset - lookback_steps, cut_step + 1) <= crept < began:
            signal, began = creeping.metric, crept
    if began == onset:
        return None
    if signal == own:
        return Dated(began, own, f"onset {began} by the change point of {own}, {onset} by its own rule")
    return Dated(began, signal, f"onset {began} by {signal}, {own} followed at {first}")


def _bend(series: Series, finding: Finding, onset: int, earliest: int, cut_step: int) -> int:
    """The alarm's own metric, dated anew by the shape in which it climbs; the alarm's own onset where that cannot be done."""
    power = FINDS[finding.kind].bend
    if finding.metric is None or not (power or SIGNALS.get(finding.metric) == "rise"):
        return onset
    rows = series.entries(finding.metric, cut_step, finding.detected_step)
    if not power:
        growth = find_growth(rows)
        return growth if growth is not None and earliest <= growth < onset else onset
    settling = find_settling(rows, power)
    if settling is not None and settling >= earliest:
        return settling
    jump = find_jump(rows)  # what stays up since one row climbs no more, and a bend fitted to it begins too early
    if jump is not None and jump >= earliest and not _was_climbing(finding, rows, jump):
        return jump
    bends = (find_bend(rows, power), find_hinge(rows) if power == 1 else None)  # a climb that bends again begins before its hinge
    return min((bend for bend in bends if bend is not None and bend >= earliest), default=onset)


def _was_climbing(finding: Finding, rows: Rows, jump: int) -> bool:
    """A jump that the newest rows of a climb seem to make, when the metric was on its way up long before."""
    lowest, level = finding.baseline, finding.value
    return lowest is not None and level is not None and had_risen(rows, jump, lowest, level)


def _departure(series: Series, creep: Creep, cut_step: int) -> int:
    """Since when a norm climbs, by the rows in which it was found: they end where its climb is seen."""
    rows = series.entries(creep.metric, cut_step, creep.found_step)
    return find_departure([(step, math.log(value)) for step, value in rows if 0.0 < value < math.inf], creep.lowest_step)


def _start(series: Series, metric: str, sign: Onset, up_to_step: int, lookback_steps: int, cut_step: int) -> int | None:
    rows = series.entries(metric, -1, up_to_step)
    after = max(up_to_step - lookback_steps, cut_step)
    if sign == "halvings":
        return _first_halving(rows, after)
    rise = find_rise(rows, after, log_space=sign == "ratio", relative=NORM_RISE if sign == "ratio" else LOSS_RISE)
    return None if rise is None else rise.step


def _first_halving(rows: Rows, after_step: int) -> int | None:
    """Since when the scale stands below everything before, of a fall that ended at a quarter of its height or less."""
    seen = [(step, value) for step, value in rows if step >= after_step and 0.0 < value < math.inf]
    if not seen or seen[-1][1] > FALLEN * max(value for _, value in seen):
        return None
    lowest = list(accumulate((value for _, value in seen), min))
    highest = 0.0
    start: int | None = None
    for index in range(len(seen) - 1, 0, -1):
        highest = max(highest, seen[index][1])
        if highest < lowest[index - 1]:
            start = seen[index][0]
    return start
