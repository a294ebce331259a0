"""Settings of the detectors that judge slowly: numbers over tens to thousands of steps, and the run's own pace."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sentinel.policy.schema_fields import (
    Count,
    Flag,
    Fraction,
    MetricName,
    Model,
    Multiple,
    NotNegative,
    Positive,
    Seconds,
    Steps,
    written,
)


class LossScaleSettings(Model):
    """fp16's loss scale collapses."""

    enabled: Flag = True
    """Whether this detector runs."""
    halvings: Count = 3
    """So many halvings within the window are a collapse. Healthy fp16 halves once."""
    window_steps: Steps = written("20 steps", alias="within")
    """The window of halvings and overflows."""
    floor: Positive = 1.0
    """A scale that came down to this is a collapse, however slowly."""
    overflows_max: Count = 5
    """More overflows than this within the window are a collapse, where the scale itself is not logged."""
    search_steps: Steps = written("100 steps", alias="search")
    """Silent for so long at the start: the scaler searches its first scale by halving."""


class DivergenceSettings(Model):
    """The loss stands above the best it had reached, and does not come back."""

    enabled: Flag = True
    """Whether this detector runs."""
    ratio: Fraction = 0.05
    """Share above its own best level."""


class DriftSettings(Model):
    """A slow, steady climb."""

    enabled: Flag = True
    """Whether this detector runs."""
    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = ("loss", "grad_norm")
    """The streams watched. Norms are recorded as info only."""
    z: Positive = 2.0
    """Climb of the level, in units of the noise of a single sample."""
    relative: Fraction = 0.03
    """And at least this share of the level."""
    norm_relative: Positive = 0.2
    """Climb of a norm worth recording."""
    window_steps: Steps = written("500 steps", alias="window")
    """The climb is measured from the lowest level of so many steps."""
    min_history_steps: Steps = written("200 steps", alias="min_history")
    """Steps seen before it judges at all."""


class TooGoodSettings(Model):
    """A loss that is implausibly low, or falls as no learning does."""

    enabled: Flag = True
    """Whether this detector runs."""
    below: Positive = 0.1
    """A loss that began above 1 and stands below this is not believed."""
    fall: Fraction = 0.5
    """Share of its level that a loss loses within 100 samples, late in a run, and is not believed."""
    min_history_steps: Steps = written("1000 steps", alias="min_history")
    """Steps seen before a fall is judged: the descent at the start is one."""


class PlateauSettings(Model):
    """The loss has stopped falling: recorded as info."""

    enabled: Flag = True
    """Whether this detector runs."""
    improvement: Fraction = 0.005
    """A fall of this share of the best level is progress."""
    window_steps: Steps = written("10000 steps", alias="window")
    """Steps without progress."""


class GeneralisationSettings(Model):
    """Validation loss rises while training loss falls: recorded as info."""

    enabled: Flag = True
    """Whether this detector runs."""
    relative: Fraction = 0.01
    """Share above the best validation loss."""
    evals_in_a_row: Count = 3
    """So many evaluations in a row."""


class BehindReferenceSettings(Model):
    """The loss stands above a recorded run's at the same tokens."""

    enabled: Flag = True
    """Whether this detector runs. Without a reference its verdict is unknown."""
    reference: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """A log of the run to compare with, in any format `sentinel replay` reads; relative to this policy file."""
    ratio: Fraction = 0.1
    """Share above the reference's loss …"""
    absolute: NotNegative = 0.1
    """… and at least so much above it."""
    min_history_steps: Steps = written("200 steps", alias="min_history")
    """Steps before it judges: warm-ups differ."""


class PrecursorSettings(Model):
    """What often goes before a spike: recorded as info, and never more."""

    enabled: Flag = True
    """Whether this detector runs."""
    metrics: Annotated[tuple[MetricName, ...], Field(min_length=1)] = (
        "update_norm", "adam_v_max", "logit_max", "activation_norm",
    )  # fmt: skip
    """The streams watched, each on its own."""
    jump: Positive = 2.0
    """Times its level of the last 100 samples."""


class SlowdownSettings(Model):
    """Steps take longer than the run's own best pace."""

    enabled: Flag = True
    """Whether this detector runs."""
    factor: Multiple = written("1.5x")
    """Times the best pace this run has kept."""
    lasting_steps: Steps = written("50 steps", alias="lasting")
    """For so many steps …"""
    lasting_s: Seconds = written("10m", alias="at_least")
    """… and so long."""
    min_history_steps: Steps = written("200 steps", alias="min_history")
    """Steps seen before it judges at all."""


class StragglerSettings(Model):
    """One rank is slower at its own work than its peers, and all wait for it."""

    enabled: Flag = True
    """Whether this detector runs."""
    factor: Multiple = written("1.5x")
    """Times the work of the typical rank …"""
    share: Fraction = 0.1
    """… and more than it by this share of a step."""
    lasting_steps: Steps = written("50 steps", alias="lasting")
    """For so many steps …"""
    lasting_s: Seconds = written("5m", alias="at_least")
    """… and so long."""


class StaleCheckpointSettings(Model):
    """Training goes on and is not being saved."""

    enabled: Flag = True
    """Whether this detector runs."""
    intervals: Multiple = written("2.5x", alias="after")
    """Times the run's own interval between checkpoints, in steps and in seconds."""
    max_age_s: Seconds | None = Field(default=None, alias="max_age", validate_default=False)
    """And never older than this, whatever the rhythm; left out: no such limit."""
