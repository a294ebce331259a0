"""Settings, streams and shorthands for tests of the bank. Settings are the detectors' own."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.contract import WatchedRun
from sentinel.detectors.hang import HangSettings
from sentinel.detectors.hold import Hold
from sentinel.detectors.reference import Reference
from sentinel.detectors.registry import FINDS, TUNED
from sentinel.detectors.slowdown import SlowdownSettings
from sentinel.detectors.spike import SpikeSettings
from sentinel.detectors.straggler import StragglerSettings
from sentinel.detectors.trend import TrendSettings
from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.readings import Heartbeat, Phase, Receipt, StepReading
from sentinel.streams.series import Series

BATCH = 16


@dataclass(frozen=True, slots=True)
class SpikeConfig(SpikeSettings):
    """As shipped, but awake after 100 steps."""

    min_history_steps: int = 100


HANG = HangSettings(phases={"init": 600.0, "compile": 1200.0, "data": 300.0, "eval": 900.0, "checkpoint": 600.0, "idle": 600.0})


def config(**changed: Any) -> SimpleNamespace:
    """`spec.detectors`: every detector of the registry as shipped, but for what would make a test long."""
    shipped: dict[str, Any] = {name: settings() for name, _, settings in TUNED}
    shorter = {
        "spike": SpikeConfig(),
        "hang": HANG,
        "slowdown": SlowdownSettings(lasting_s=30.0, min_history_steps=100),
        "straggler": StragglerSettings(lasting_steps=20, lasting_s=10.0),
        "trend": TrendSettings(lasting_steps=500, warmup_steps=100),
    }
    return SimpleNamespace(grace_steps=50, onset_lookback_steps=500, **shipped | shorter | changed)


SHORT_RUN = SpikeConfig(window_steps=40, level_steps=10, min_history_steps=50)
SEVERITIES: dict[Kind, Severity] = {
    Kind.SPIKE: "warning", Kind.NON_FINITE: "critical", Kind.HANG: "critical", Kind.CRASH: "critical",
}  # fmt: skip


def make_bank(
    spike: SpikeSettings | None = None, hang: HangSettings | None = None, *, hold_steps: int = 2, begun: bool = True
) -> DetectorBank:
    tuned = config(spike=spike or SpikeConfig(), hang=hang or HANG)
    bank = DetectorBank(tuned, {Kind.SPIKE: Hold(steps=hold_steps)}, SEVERITIES)
    if begun:
        bank.begin_attempt(1, 0.0)
    return bank


def row(step: int, *, attempt: int = 1, time_s: float | None = None, **metrics: float) -> StepReading:
    first = max(0, step - 1) * BATCH
    samples = (SampleRange(first, first + BATCH),)
    return StepReading(attempt, step, float(step) if time_s is None else time_s, samples, metrics)


def receipt(
    attempt: int = 1, resume_step: int = 0, world_size: int = 2, history: tuple[StepReading, ...] = (), **overrides: object
) -> Receipt:
    return Receipt(attempt, 0.0, resume_step, None, world_size, overrides, {}, history)


def beat(rank: int, step: int, phase: Phase, attempt: int = 1) -> Heartbeat:
    return Heartbeat(attempt, rank, step, phase, 0.0)


def feed(bank: DetectorBank, rows: Iterable[StepReading]) -> list[Finding]:
    """Every row, heard one second after another."""
    found: list[Finding] = []
    for reading in rows:
        found.extend(bank.step(reading, float(reading.step)))
    return found


def alarms(found: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.severity != "info"]


def falling_loss(step: int) -> float:
    """A power law, as training losses fall: steep at first, from 11 down to 2.3."""
    return 2.3 + 8.7 / (1.0 + step / 25.0)


def clean_run(steps: int, seed: int, *, noise: float = 0.05, every: int = 1, norm_noise: float = 0.2) -> Iterator[StepReading]:
    """A healthy noisy run: gaussian loss noise relative to the level, log-normal gradient norm."""
    dice = random.Random(seed)
    for step in range(every, steps + 1, every):
        loss = falling_loss(step) * (1.0 + dice.gauss(0.0, noise))
        yield row(step, loss=loss, grad_norm=0.4 * dice.lognormvariate(0.0, norm_noise), lr=3e-4)


def hurt(rows: Iterable[StepReading], first: int, last: int, *, loss: float = 0.0, norm: float = 1.0) -> Iterator[StepReading]:
    """The same rows, steps first..last raised."""
    for reading in rows:
        if first <= reading.step <= last:
            metrics = dict(reading.metrics)
            metrics["loss"] += loss
            metrics["grad_norm"] *= norm
            reading = StepReading(reading.attempt, reading.step, reading.time_s, reading.samples, metrics)
        yield reading


def watched(newest_step: int = 0, reference: Reference | None = None) -> WatchedRun:
    """What a detector alone is built with, where no bank is needed."""
    series = Series(())
    series.begin(newest_step)
    return WatchedRun(series, lambda kind: FINDS[kind].severity, {}, reference)
