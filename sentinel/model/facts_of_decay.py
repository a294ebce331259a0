"""Facts about settings that lapse. How facts work is said in `facts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentinel.model.attempts import Overrides
from sentinel.model.recorded import recorded_as


@recorded_as("SettingLapsed")
@dataclass(frozen=True, slots=True)
class SettingLapsed:
    """Settings go back to the trainer's own at `step`, and the run is watched. `before`: with them. `by_trainer`: it did so by
    itself, at its own `until`; else it is being asked, and its answer is the proof."""

    attempt: int
    keys: tuple[str, ...]
    step: int
    before: Overrides
    reason: str
    by_trainer: bool = False


@recorded_as("LapseJudged")
@dataclass(frozen=True, slots=True)
class LapseJudged:
    """proven: healthy without them for a probation. failed: an incident opened in it, and they are wanted again. refused: the
    trainer did not obey, and is left to its own `until`. overtaken: it never took effect, or they were set anew. `overrides`:
    what is wanted from here on, None where nothing changes. `incident`: the one that failed it."""

    keys: tuple[str, ...]
    outcome: Literal["proven", "failed", "refused", "overtaken"]
    reason: str
    overrides: Overrides | None = None
    incident: int | None = None
