"""precursor: what often goes before an instability: update norms that jump, Adam's largest variance, growing attention logits.

Sees: a block of five samples of a watched metric whose median is `jump` times the median of the 100 samples before it. Does
not see: metrics the trainer does not log; whether a spike will follow. Always info: it asks for attention and never intervenes.

Source: update spikes precede loss spikes (Marin 32B); Adam's variance lags a gradient that grows (StableAdamW: 1 to 8 steps of
warning); attention logits grow before they diverge (small-scale proxies). The factor is Sentinel's own; no labelled runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.detectors.contract import Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import StepReading
from sentinel.streams.blocks import Blocks

PAST_BLOCKS = 20


@dataclass(frozen=True, slots=True)
class PrecursorSettings:
    """What often goes before a spike: recorded as info, and never more."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    metrics: tuple[str, ...] = setting(
        ("update_norm", "adam_v_max", "logit_max", "activation_norm"), "metrics", "The streams watched, each on its own."
    )
    jump: float = setting(2.0, "positive", "Times its level of the last 100 samples.")


class Precursor(Detector):
    kind = Kind.PRECURSOR

    def __init__(self, settings: PrecursorSettings, run: WatchedRun) -> None:
        self._jump = settings.jump
        self._blocks = {name: Blocks(PAST_BLOCKS + 1) for name in settings.metrics}
        self.reads = frozenset(settings.metrics)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt
        self._high: dict[str, float] = {}
        for blocks in self._blocks.values():
            blocks.clear()

    def learn(self, reading: StepReading) -> None:
        self.step(reading, 1, 0.0)

    def step(self, reading: StepReading, covered: int, now_s: float) -> list[Finding]:
        found: list[Finding] = []
        get = reading.metrics.get
        for name, blocks in self._blocks.items():
            value = get(name)
            if value is None or value - value != 0.0 or not blocks.push(reading.step, value) or blocks.count <= PAST_BLOCKS:
                continue
            level, now = blocks.middle(PAST_BLOCKS, skip=1), blocks.medians[-1]
            if not now > self._jump * level > 0.0:
                self._high.pop(name, None)
                continue
            known, self._high[name] = name in self._high, now / level
            if known:
                continue
            onset = blocks.steps[-2] + 1
            reason = f"{name} is {now / level:.1f} times its level of {level:.4g}: often the first sign of a spike"
            found.append(
                Finding(
                    Kind.PRECURSOR, "info", self._attempt, onset, reading.step, now_s, reason,
                    metric=name, value=now, baseline=level,
                )
            )  # fmt: skip
        return found

    def verdict(self) -> tuple[Verdict, str]:
        judged = [name for name, blocks in self._blocks.items() if blocks.count > PAST_BLOCKS]
        if not judged:
            return Verdict.UNKNOWN, "none of its metrics is logged, or too little history"
        if self._high:
            return Verdict.BREACHED, "; ".join(f"{name} at {times:.1f} times its level" for name, times in self._high.items())
        return Verdict.HEALTHY, f"no jump of {', '.join(judged)}"
