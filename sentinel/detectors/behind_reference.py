"""behind_reference: the loss stands above a recorded run's at the same place, and does not catch up.

Sees: a level (median of the last 25 samples) above the reference's by `ratio` and by `absolute` for 100 samples in a row (30
where they stand for 500 steps), while the gap does not close by a tenth. Does not see: the first `min_history` steps, and what
lies before the reference's first point or beyond its last. Places are compared in tokens where both runs have them, else in
samples, else in steps, never one against another; which it is stands in every reason. By steps only runs of one batch size can
be compared.

Source: BLOOM's 104B stood at 6.3 where the 13B had 4.5 at the same tokens, and nobody was alarmed (BigScience's chronicles, tr8).
The constants are Sentinel's own judgement: 10 % is a quarter of that gap, and several times what seeds of one model differ by.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.reference import Axis, Reference
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Receipt, StepReading
from sentinel.streams.blocks import Blocks

METRIC = "loss"
LEVEL_BLOCKS = 5
HOLD_BLOCKS = 20
COARSE_BLOCKS = 6  # of a run that logs seldom
COARSE_STEPS = 500
CATCHING_UP = 0.9  # a gap that shrank below this share within the hold is closing
CALM = 0.5  # share of the limits below which a finding is over


@dataclass(frozen=True, slots=True)
class BehindReferenceSettings:
    """The loss stands above a recorded run's at the same tokens."""

    enabled: bool = setting(True, "flag", "Whether this detector runs. Without a reference its verdict is unknown.")
    reference: str | None = setting(
        None, "file", "A log of the run to compare with, in any format `sentinel replay` reads; relative to this policy file."
    )
    ratio: float = setting(0.1, "fraction", "Share above the reference's loss …")
    absolute: float = setting(0.1, "not negative", "… and at least so much above it.")
    min_history_steps: int = setting(200, "steps", "Steps before it judges: warm-ups differ.", alias="min_history")


class BehindReference(Detector):
    kind = Kind.BEHIND_REFERENCE

    def __init__(self, settings: BehindReferenceSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._severity = run.severity(Kind.BEHIND_REFERENCE)
        self._reference = run.reference
        self.is_idle = run.reference is None
        self._blocks = Blocks(LEVEL_BLOCKS)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt
        self._tokens_per_step: int | None = None
        self._blocks.clear()
        self._places: deque[float] = deque(maxlen=LEVEL_BLOCKS)
        self._gaps: deque[float] = deque(maxlen=HOLD_BLOCKS)
        self._since: tuple[int, float] = (0, 0.0)
        self._axis: Axis | None = None
        self._firing = False
        self._summary = ""
        self._unknown = "too little history to judge by"

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        self._tokens_per_step = receipt.tokens_per_step
        for reading in history:
            self.step(reading, 1, 0.0)

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        reference = self._reference
        if reference is None:
            return []
        value = reading.metrics.get(METRIC)
        if value is None or value - value != 0.0 or not self._blocks.push(reading.step, value):
            return []
        axis, place = self._place_of(reading, reference)
        if axis != self._axis:  # the run began to log its tokens, or ceased to
            self._axis = axis
            self._places.clear()
            self._gaps.clear()
        self._places.append(place)
        if len(self._places) < LEVEL_BLOCKS or reading.step < self._settings.min_history_steps:
            return []
        level, middle = self._blocks.middle(LEVEL_BLOCKS), self._places[LEVEL_BLOCKS // 2]
        return self._judge(level, middle, reading.step, now_s)

    def _judge(self, level: float, place: float, step: int, now_s: float) -> list[Finding]:
        reference, axis = self._reference, self._axis
        assert reference is not None
        assert axis is not None
        there = _loss_at(reference.places(axis), reference.losses, place)
        if there is None:
            self._gaps.clear()
            ends = reference.places(axis)
            self._unknown = f"{_shown(place)} {axis} are outside of {reference.name}, which has {_span(ends)} {axis}"
            self._summary = ""
            return []
        gap, limit = level - there, max(self._settings.ratio * abs(there), self._settings.absolute)
        self._summary = f"{METRIC} level {level:.4g}; {reference.name} had {there:.4g} at {_shown(place)} {axis}"
        if gap <= limit:
            self._gaps.clear()
            self._firing = self._firing and gap > CALM * limit
            return []
        if not self._gaps:
            self._since = (step, now_s)
        self._gaps.append(gap)
        if self._firing or not self._lasts(step) or gap < CATCHING_UP * self._gaps[0]:
            return []
        self._firing = True
        onset, visible_s = self._since
        reason = f"{METRIC} stands at {level:.4g} where {reference.name} had {there:.4g}, at the same {_shown(place)} {axis}"
        return [
            Finding(
                Kind.BEHIND_REFERENCE, self._severity, self._attempt, onset, step, visible_s, reason,
                metric=METRIC, value=level, baseline=there,
            )
        ]  # fmt: skip

    def _lasts(self, step: int) -> bool:
        held = len(self._gaps)
        return held >= HOLD_BLOCKS or (held >= COARSE_BLOCKS and step - self._since[0] >= COARSE_STEPS)

    def _place_of(self, reading: StepReading, reference: Reference) -> tuple[Axis, float]:
        """The first axis that both have."""
        if reference.tokens:
            tokens = reading.metrics.get("consumed_tokens")
            if tokens is None and self._tokens_per_step:
                tokens = float(reading.step * self._tokens_per_step)
            if tokens is not None:
                return "tokens", tokens
        if reference.samples:
            samples = samples_of(reading)
            if samples is not None:
                return "samples", samples
        return "steps", float(reading.step)

    def verdict(self) -> tuple[Verdict, str]:
        if self._reference is None:
            return Verdict.UNKNOWN, "no reference given"
        if not self._summary:
            return Verdict.UNKNOWN, self._unknown
        return (Verdict.BREACHED if self._firing else Verdict.HEALTHY), self._summary


def samples_of(reading: StepReading) -> float | None:
    """Samples consumed by the end of this step: as logged, else the end of its place in the data order."""
    samples = reading.metrics.get("consumed_samples")
    if samples is None and reading.samples:
        return float(reading.samples[-1].end)
    return samples


def _loss_at(places: tuple[float, ...], losses: tuple[float, ...], place: float) -> float | None:
    """Between two points in a straight line; None outside of the table."""
    if not places or not places[0] <= place <= places[-1]:
        return None
    right = min(bisect_right(places, place), len(places) - 1)
    left = max(right - 1, 0)
    width = places[right] - places[left]
    share = (place - places[left]) / width if width > 0 else 0.0
    return losses[left] + share * (losses[right] - losses[left])


def _shown(place: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if place >= size:
            return f"{place / size:.3g}{unit}"
    return f"{place:.0f}"


def _span(places: tuple[float, ...]) -> str:
    return f"{_shown(places[0])} to {_shown(places[-1])}"
