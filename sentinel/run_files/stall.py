"""A run that trains and whose next step is overdue, in words: what is suspected before a hang is believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.model.amounts import time_words
from sentinel.model.stall import StepTimes
from sentinel.model.state import RunState
from sentinel.run_files.detector_standings import OLD_AFTER_S, DetectorStandings
from sentinel.run_files.heartbeats import RankSeen

STALLED = "stalled"
LAST_SEEN = "last seen {}"  # a supervisor's word, where none is there to say it now
SILENT_S = 10.0  # no heartbeat for so long is worth a colour
TRAINS = ("training", "probation", "observing")


@dataclass(frozen=True, slots=True)
class Stall:
    """`since_s`: when the last step was made. `step_time_s`: how long one takes."""

    since_s: float
    step_time_s: float

    def words(self, now_s: float) -> str:
        return f"no step for {time_words(now_s - self.since_s)} (a step takes {time_words(self.step_time_s)})"


def find_stall(state: RunState, times: StepTimes, seen_s: float) -> Stall | None:
    """As whoever watches the run sees it at `seen_s`. None where steps come in time, and where nothing trains."""
    attempt = state.attempt
    if attempt is None or attempt.is_over or state.label not in TRAINS:
        return None
    since_s = times.stalled_since_s(seen_s)
    return Stall(since_s, times.step_time_s) if since_s is not None and times.step_time_s is not None else None


def stall_of(state: RunState, now_s: float, standings: DetectorStandings) -> Stall | None:
    """As the supervisor saw it when it wrote last: what came after that is not held against the run. None as well where it has
    not written for long, or of another attempt: what holds now is then not known."""
    written_s, attempt = standings.time_s, state.attempt
    if written_s is None or now_s - written_s > OLD_AFTER_S or attempt is None or standings.attempt != attempt.attempt:
        return None
    return find_stall(state, standings.step_times, written_s)


def is_silent(silent_s: float, stall: Stall | None, now_s: float) -> bool:
    """Whether a rank's silence is worth a colour; whether it is a hang others judge. While one is suspected, it is as soon as the
    rank has been silent for half of that time."""
    return silent_s > (min(SILENT_S, (now_s - stall.since_s) / 2) if stall is not None else SILENT_S)


def counted_words(stall: Stall, ranks: Sequence[RankSeen], now_s: float) -> str:
    """What is to be added where every rank has been silent for longer than no step came: a supervisor that began in between
    counts what it has watched itself. Else empty."""
    silent_s = min((seen.silent_s for seen in ranks), default=0.0)
    is_longer = silent_s > now_s - stall.since_s + SILENT_S
    return ", counted from when this supervisor began to watch" if is_longer else ""


def run_word(state: RunState, stall: Stall | None) -> str:
    """How the run stands, in the one word that every surface shows."""
    return STALLED if stall is not None else state.label
