"""Settings of the built-in detectors. Each has defaults, and `spike: off` switches one off."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from sentinel.policy.quantities import Malformed, parse_duration, show
from sentinel.policy.schema_fields import (
    Count,
    Flag,
    Fraction,
    MetricName,
    Model,
    Multiple,
    Phase,
    Positive,
    Seconds,
    Steps,
    StepTimes,
    written,
)
from sentinel.policy.schema_hardware import GpuFaultSettings
from sentinel.policy.schema_slow_detectors import (
    BehindReferenceSettings,
    DivergenceSettings,
    DriftSettings,
    GeneralisationSettings,
    LossScaleSettings,
    PlateauSettings,
    PrecursorSettings,
    SlowdownSettings,
    StaleCheckpointSettings,
    StragglerSettings,
    TooGoodSettings,
)

# Longest silence believed in each phase. Step phases (data, forward, backward, optimizer) have none: the step time rules there.
PHASE_LIMITS: dict[Phase, str] = {
    "init": "10m", "compile": "20m", "eval": "15m", "checkpoint": "10m", "idle": "10m",
}  # fmt: skip


def _merged_phases(given: dict[Phase, float]) -> dict[Phase, float]:
    """A phase left out keeps its default."""
    return {phase: parse_duration(text) for phase, text in PHASE_LIMITS.items()} | given


Phases = Annotated[dict[Phase, Seconds], AfterValidator(_merged_phases)]


class NonFiniteSettings(Model):
    """NaN or infinity in a loss, parameter or moment is certain at once; a gated gradient only when it keeps coming."""

    enabled: Flag = True
    """Whether this detector runs."""
    gated_in_a_row: Count = 5
    """So many skipped updates with a non-finite gradient in a row are an alarm; fewer are recorded as info."""


class SpikeSettings(Model):
    """A sudden rise above the run's own recent level."""

    enabled: Flag = True
    """Whether this detector runs."""
    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = ("loss", "grad_norm")
    """The streams watched, each on its own."""
    z: Positive = 8.0
    """Robust deviations (median and MAD of the window) above the level before a value counts."""
    relative: Fraction = 0.03
    """And at least this share above the level, so that a very quiet run does not alarm at nothing."""
    window_steps: Steps = written("200 steps", alias="window")
    """Steps the spread is learned from."""
    level_steps: Steps = written("20 steps", alias="level")
    """Steps the present level is the median of."""
    min_history_steps: Steps = written("200 steps", alias="min_history")
    """Steps seen before the detector judges at all; until then the verdict is unknown."""


class HangSettings(Model):
    """No progress while processes live."""

    enabled: Flag = True
    """Whether this detector runs."""
    after_step_times: StepTimes = written("3x step_time", alias="after")
    """Silence, in multiples of the run's own step time, that is a hang."""
    floor_s: Seconds = written("30s", alias="floor")
    """Never call a shorter silence a hang."""
    phases: Phases = written(PHASE_LIMITS)
    """Longest silence in a phase that is not a step."""
    standstill: Multiple = written("10x")
    """Times such a limit that heartbeats may change without a step: a livelock is a hang, too."""


class CrashSettings(Model):
    """An attempt that ended on its own. Three ends before the first step are a broken job."""

    enabled: Flag = True
    """Whether this detector runs."""


def _switch(value: Any) -> Any:
    """`spike: off` for `spike: {enabled: false}`; `on` likewise."""
    if value in ("off", "on") or isinstance(value, bool):
        return {"enabled": value in ("on", True)}
    if not isinstance(value, (dict, Model)):
        raise Malformed(f"{show(value)} is not a detector's settings", "write 'off', or its settings as a mapping")
    return value


def _switched(title: str) -> Any:
    """Editors may see either form."""
    return Field(default_factory=dict, description=title, json_schema_extra=_or_a_word)


def _or_a_word(schema: dict[str, Any]) -> None:
    reference = schema.pop("$ref")
    schema["anyOf"] = [{"$ref": reference}, {"enum": ["off", "on", True, False]}]


class Detectors(Model):
    """The detectors of this version."""

    non_finite: Annotated[NonFiniteSettings, BeforeValidator(_switch)] = _switched("NaN and infinity")
    spike: Annotated[SpikeSettings, BeforeValidator(_switch)] = _switched("sudden rise of a metric")
    hang: Annotated[HangSettings, BeforeValidator(_switch)] = _switched("silence while processes live")
    crash: Annotated[CrashSettings, BeforeValidator(_switch)] = _switched("an attempt that ended on its own")
    gpu_fault: Annotated[GpuFaultSettings, BeforeValidator(_switch)] = _switched("sick hardware")
    loss_scale: Annotated[LossScaleSettings, BeforeValidator(_switch)] = _switched("fp16's loss scale collapses")
    divergence: Annotated[DivergenceSettings, BeforeValidator(_switch)] = _switched("no way back")
    drift: Annotated[DriftSettings, BeforeValidator(_switch)] = _switched("a slow, steady climb")
    too_good: Annotated[TooGoodSettings, BeforeValidator(_switch)] = _switched("an implausibly low loss")
    plateau: Annotated[PlateauSettings, BeforeValidator(_switch)] = _switched("the loss has stopped falling")
    generalisation: Annotated[GeneralisationSettings, BeforeValidator(_switch)] = _switched("validation loss rises alone")
    precursor: Annotated[PrecursorSettings, BeforeValidator(_switch)] = _switched("what often goes before a spike")
    slowdown: Annotated[SlowdownSettings, BeforeValidator(_switch)] = _switched("steps take longer than they did")
    straggler: Annotated[StragglerSettings, BeforeValidator(_switch)] = _switched("one rank keeps the others waiting")
    stale_checkpoint: Annotated[StaleCheckpointSettings, BeforeValidator(_switch)] = _switched("training is not being saved")
    behind_reference: Annotated[BehindReferenceSettings, BeforeValidator(_switch)] = _switched("above a recorded run's loss")
    grace_steps: Steps = written("50 steps", alias="grace")
    """Steps after a resume in which a bump is usual: only a tall one is an alarm. Never for values that are no number."""
    onset_lookback_steps: Steps = written("500 steps", alias="onset_lookback")
    """How far before an alarm its onset may be dated back by another signal: what is rolled back and skipped grows with it."""
