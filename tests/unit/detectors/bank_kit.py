"""Settings, streams and shorthands for tests of the bank. Settings are plain dataclasses: detectors ask for a shape only."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.hold import Hold
from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.readings import Heartbeat, Phase, Receipt, StepReading

BATCH = 16


@dataclass(frozen=True)
class NonFiniteConfig:
    enabled: bool = True
    gated_in_a_row: int = 5


@dataclass(frozen=True)
class SpikeConfig:
    enabled: bool = True
    metrics: tuple[str, ...] = ("loss", "grad_norm")
    z: float = 8.0
    relative: float = 0.03
    window_steps: int = 200
    level_steps: int = 20
    min_history_steps: int = 100


@dataclass(frozen=True)
class HangConfig:
    enabled: bool = True
    after_step_times: float = 3.0
    floor_s: float = 30.0
    phases: Mapping[Phase, float] = field(
        default_factory=lambda: {
            "init": 600.0,
            "compile": 1200.0,
            "data": 300.0,
            "eval": 900.0,
            "checkpoint": 600.0,
            "idle": 600.0,
        }
    )
    standstill: float = 10.0


@dataclass(frozen=True)
class LossScaleConfig:
    enabled: bool = True
    halvings: int = 3
    window_steps: int = 20
    floor: float = 1.0
    overflows_max: int = 5
    search_steps: int = 100


@dataclass(frozen=True)
class DivergenceConfig:
    enabled: bool = True
    ratio: float = 0.05


@dataclass(frozen=True)
class DriftConfig:
    enabled: bool = True
    metrics: tuple[str, ...] = ("loss", "grad_norm")
    z: float = 2.0
    relative: float = 0.03
    norm_relative: float = 0.2
    window_steps: int = 500
    min_history_steps: int = 200


@dataclass(frozen=True)
class TooGoodConfig:
    enabled: bool = True
    below: float = 0.1
    fall: float = 0.5
    min_history_steps: int = 1000


@dataclass(frozen=True)
class PlateauConfig:
    enabled: bool = True
    improvement: float = 0.005
    window_steps: int = 10_000


@dataclass(frozen=True)
class GeneralisationConfig:
    enabled: bool = True
    relative: float = 0.01
    evals_in_a_row: int = 3


@dataclass(frozen=True)
class PrecursorConfig:
    enabled: bool = True
    metrics: tuple[str, ...] = ("update_norm", "adam_v_max", "logit_max", "activation_norm")
    jump: float = 2.0


@dataclass(frozen=True)
class SlowdownConfig:
    enabled: bool = True
    factor: float = 1.5
    lasting_steps: int = 50
    lasting_s: float = 30.0
    min_history_steps: int = 100


@dataclass(frozen=True)
class StragglerConfig:
    enabled: bool = True
    factor: float = 1.5
    share: float = 0.1
    lasting_steps: int = 20
    lasting_s: float = 10.0


@dataclass(frozen=True)
class StaleCheckpointConfig:
    enabled: bool = True
    intervals: float = 2.5
    max_age_s: float | None = None


@dataclass(frozen=True)
class GpuFaultConfig:
    enabled: bool = True
    throttle_s: float = 300.0


@dataclass(frozen=True)
class BehindReferenceConfig:
    enabled: bool = True
    ratio: float = 0.1
    absolute: float = 0.1
    min_history_steps: int = 200


@dataclass(frozen=True)
class Config:
    non_finite: NonFiniteConfig = NonFiniteConfig()
    spike: SpikeConfig = SpikeConfig()
    hang: HangConfig = HangConfig()
    gpu_fault: GpuFaultConfig = GpuFaultConfig()
    loss_scale: LossScaleConfig = LossScaleConfig()
    divergence: DivergenceConfig = DivergenceConfig()
    drift: DriftConfig = DriftConfig()
    too_good: TooGoodConfig = TooGoodConfig()
    plateau: PlateauConfig = PlateauConfig()
    generalisation: GeneralisationConfig = GeneralisationConfig()
    precursor: PrecursorConfig = PrecursorConfig()
    slowdown: SlowdownConfig = SlowdownConfig()
    straggler: StragglerConfig = StragglerConfig()
    stale_checkpoint: StaleCheckpointConfig = StaleCheckpointConfig()
    behind_reference: BehindReferenceConfig = BehindReferenceConfig()
    grace_steps: int = 50
    onset_lookback_steps: int = 500


SHORT_RUN = SpikeConfig(window_steps=40, level_steps=10, min_history_steps=50)
SEVERITIES: dict[Kind, Severity] = {
    Kind.SPIKE: "warning", Kind.NON_FINITE: "critical", Kind.HANG: "critical", Kind.CRASH: "critical",
}  # fmt: skip


def make_bank(
    spike: SpikeConfig | None = None, hang: HangConfig | None = None, *, hold_steps: int = 2, begun: bool = True
) -> DetectorBank:
    config = Config(NonFiniteConfig(), spike or SpikeConfig(), hang or HangConfig())
    bank = DetectorBank(config, {Kind.SPIKE: Hold(steps=hold_steps)}, SEVERITIES)
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
