"""What a frame of the terminal view shows, all of it, as values. Made by the supervisor's own view and by `sentinel top`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sentinel.curves.blocks import Point
from sentinel.curves.registry import metrics_shown_on
from sentinel.engine.goodput import surviving_steps
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.plan.last_straw import stands_still_for
from sentinel.run_files.gpu_standing import GpuSeen
from sentinel.run_files.heartbeats import RankSeen
from sentinel.run_files.stall import Stall
from sentinel.terminal.words import Line

METRICS = metrics_shown_on("terminal")
"""What has a curve, as far as there is room; the first come first."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything a frame shows. `lines` are elapsed time and words, oldest first. `warnings`: what is wrong with the looking
    itself, or threatens the run, a sentence each. `gpus_why_not`: why no GPU is seen; both empty where nobody asked. `needs`: as
    `sentinel status --json` has it, where whoever made the picture knows. `standbys`: on which machines one waits. `is_watched`:
    whether a supervisor says how it stands. `idle_since_s`: since when nothing of a run trains that nobody watches."""

    state: RunState
    now_s: float
    total: int | None  # steps of the whole run, None while unknown
    points: tuple[Point, ...]
    lines: tuple[tuple[str, Line], ...]
    step_time_s: float | None
    blocks: bool  # the terminal can show block characters
    ranks: tuple[RankSeen, ...] = ()
    gpus: tuple[GpuSeen, ...] = ()
    gpus_why_not: str = ""
    warnings: tuple[str, ...] = ()
    stall: Stall | None = None
    needs: Mapping[str, Any] | None = None
    standbys: tuple[str, ...] = ()
    is_watched: bool = True
    idle_since_s: float | None = None

    @property
    def still_since_s(self) -> float | None:
        """Since when no step is made; None where steps are."""
        return self.stall.since_s if self.stall is not None else self.idle_since_s


def newest_step(picture: Picture) -> int:
    attempt = picture.state.attempt
    if attempt is None:
        return 0
    if picture.points and picture.points[-1].attempt == attempt.attempt:
        return picture.points[-1].step
    return max(attempt.last_step, attempt.resumed_step)


def shown_incident(state: RunState) -> Incident | None:
    """What the run failed of or is held for, else the newest open incident, else the newest of all."""
    return stands_still_for(state) or (state.open_incidents or state.incidents or (None,))[-1]


def survival_in(picture: Picture) -> Callable[[Point], bool]:
    """Whether the run stands on a point now. An attempt that the state holds no more lies before the oldest that it holds."""
    attempts = picture.state.attempts
    keep = dict(zip((attempt.attempt for attempt in attempts), surviving_steps(attempts), strict=True))
    oldest = min((attempt.resumed_step for attempt in attempts), default=math.inf)
    return lambda point: point.step <= keep.get(point.attempt, oldest)
