"""A run as it was seen at one moment, from outside. Made by `reading` (once) and by `following` (again and again)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.journal.holder import Supervisor
from sentinel.journal.standbys import StandbySeen
from sentinel.model.state import RunState
from sentinel.report.losses import IncidentLoss
from sentinel.report.tally import Tally
from sentinel.run_files.detector_standings import NO_STANDINGS, DetectorStandings
from sentinel.run_files.heartbeats import RankSeen
from sentinel.run_files.stall import Stall


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """How a run stands. `now_s` is session time. `seq`: of the newest entry. `newest`: the metrics of the newest step line of the
    newest attempt, also while its curves are still being drawn; `step` its step, None before there is one. `last`: the last value
    drawn of every metric of that attempt, for those that do not stand in every line. `ranks`: where each stands, while they are
    asked (`are_ranks_asked`). `trouble`: why this is older than it should be; empty otherwise. `heartbeat_s`: when the
    supervisor's loop last turned, wall clock; None where none ever was. `mirror_lag_s`: by part of the run's mirror, as
    `MirrorStanding.lag_s`. `losses`: of the incidents, by now. `standbys`: who waits to take the supervisor's place.
    `is_disk_full`: that of the run directory, asked where the supervisor stands still. `last_s`: session time of the newest
    entry."""

    run_dir: Path
    state: RunState = field(default_factory=RunState)
    now_s: float = 0.0
    seq: int = 0
    step: int | None = None
    total_steps: int | None = None
    newest: Mapping[str, float] = field(default_factory=dict)
    last: Mapping[str, float] = field(default_factory=dict)
    supervisor: Supervisor = "gone"
    attempt_alive: bool | None = None
    senses: DetectorStandings = NO_STANDINGS
    ranks: tuple[RankSeen, ...] = ()
    trouble: str = ""
    heartbeat_s: float | None = None
    mirror_lag_s: Mapping[str, float] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    losses: tuple[IncidentLoss, ...] = ()
    is_disk_full: bool = False
    standbys: tuple[StandbySeen, ...] = ()
    last_s: float | None = None


def is_idle(snapshot: RunSnapshot) -> bool:
    """Nothing of a run that has not ended trains, and nobody watches it who would launch it again."""
    return not snapshot.state.ended and snapshot.supervisor != "alive" and snapshot.attempt_alive is False


def still_since_s(snapshot: RunSnapshot, stall: Stall | None) -> float | None:
    """Since when no step is made: where the next one is overdue, and of a run that died with its supervisor, as that one saw it
    last: the newest step, or the newest entry where no step is known. What follows is no training. None where steps are made."""
    if stall is not None:
        return stall.since_s
    attempt, senses = snapshot.state.attempt, snapshot.senses
    if attempt is None or not is_idle(snapshot):
        return None
    seen_s = senses.step_times.last_step_s if senses.attempt == attempt.attempt else None
    return snapshot.last_s if seen_s is None else seen_s


def are_ranks_asked(state: RunState, stall: Stall | None, supervisor: Supervisor) -> bool:
    """Whether it is worth reading where each rank stands: where nobody else says whether anything trains."""
    attempt = state.attempt
    is_alone = supervisor != "alive" or bool(state.paused)
    return attempt is not None and not attempt.is_over and (stall is not None or is_alone)
