"""hang: nothing moves while processes live. Judged from heartbeats and step lines by the supervisor's own clock.

Sees: every rank silent for longer than its phase allows. Progress is any rank's changed heartbeat, or any new line of the
stream. Does not see: one slow rank among moving ones (straggler), a run that moves but slowly (slowdown).

The limit is `after_step_times` × the learned step time, at least the floor. Where that would kill a healthy run, a longer
one holds: a rank in init, compile, data, eval, checkpoint or idle has that phase's limit; until the first step of the attempt is
done, and while the pace is unknown, the compile limit (the first step compiles, allocates, and opens connections); without
any heartbeat, a step line is expected once per logging interval and an evaluation or a checkpoint may hide in it. The
longest of the ranks' limits holds, because the others wait for that rank.

Blamed is the one rank that stands furthest behind: the lowest step, then the earliest phase. A tie blames nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sentinel.detectors.contract import HangSettings
from sentinel.detectors.hold import Hold
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import Phase

PHASE_LIMITS_S: dict[Phase, float] = {"init": 600.0, "compile": 1200.0, "eval": 900.0, "checkpoint": 600.0, "idle": 600.0}
PHASE_ORDER: dict[Phase, int] = {
    "init": 0, "compile": 1, "data": 2, "forward": 3, "backward": 4, "optimizer": 5, "eval": 6, "checkpoint": 7, "idle": 8,
}  # fmt: skip
HIDDEN_PHASES: tuple[Phase, ...] = ("eval", "checkpoint")
RANKS_MAX = 65536


@dataclass(frozen=True, slots=True)
class Beat:
    """Where a rank stands, and since when by the supervisor's clock."""

    step: int
    phase: Phase
    heard_s: float


@dataclass(frozen=True, slots=True)
class Progress:
    """What the judge knows of an attempt. `steps_per_line` is the logging interval; `first_step_done` of *this* attempt."""

    launched_s: float
    last_s: float
    beats: Mapping[int, Beat]
    ranks_expected: int
    first_step_done: bool
    step_time_s: float | None
    steps_per_line: int


@dataclass(frozen=True, slots=True)
class HangVerdict:
    verdict: Verdict
    ranks: tuple[int, ...]
    limit_s: float
    silent_s: float
    blamed_rank: int | None
    reason: str


def choose_limit(progress: Progress, settings: HangSettings) -> tuple[float, str]:
    """Longest silence that is no hang, in seconds, and why."""

    def phase_limit(phase: Phase) -> float:
        return settings.phases.get(phase, PHASE_LIMITS_S.get(phase, 0.0))

    if not progress.beats and not progress.first_step_done:
        return max(phase_limit("init"), settings.floor_s), "no heartbeat since launch, phase init"
    step_time = progress.step_time_s
    if step_time is None:
        limit, why = max(settings.floor_s, phase_limit("compile")), "step time unknown"
    else:
        lines = 1 if progress.beats else progress.steps_per_line
        limit = max(settings.after_step_times * step_time * lines, settings.floor_s)
        why = f"{settings.after_step_times:g} x step time {step_time:.3g} s, floor {settings.floor_s:g} s"
    if not progress.first_step_done and phase_limit("compile") > limit:
        limit, why = phase_limit("compile"), "first step of the attempt"
    phases = [beat.phase for beat in progress.beats.values()] or list(HIDDEN_PHASES)
    for phase in phases:
        longest = phase_limit(phase)
        if longest > limit:
            limit, why = longest, f"phase {phase}" if progress.beats else f"no heartbeats, phase {phase} possible"
    return limit, why


def choose_blamed(beats: Mapping[int, Beat], ranks_expected: int) -> int | None:
    """The one rank furthest behind; a rank that never beat while others did stands behind all. None on a tie."""
    if not beats:
        return None
    places = {rank: (beat.step, PHASE_ORDER[beat.phase]) for rank, beat in beats.items()}
    if len(places) < ranks_expected:
        absent = [rank for rank in range(min(ranks_expected, RANKS_MAX)) if rank not in places]
        return absent[0] if len(absent) == 1 else None
    lowest = min(places.values())
    last = [rank for rank, place in places.items() if place == lowest]
    return last[0] if len(last) == 1 and len(places) > 1 else None


def judge_hang(now_s: float, progress: Progress, settings: HangSettings) -> HangVerdict:
    """Is the attempt hanging at `now_s`? Pure; all times by the supervisor's clock."""
    limit_s, why = choose_limit(progress, settings)
    silent_s = max(0.0, now_s - progress.last_s)
    total = max(len(progress.beats), progress.ranks_expected)
    if silent_s <= limit_s:
        reason = f"progress {silent_s:.1f} s ago, limit {limit_s:g} s ({why})"
        return HangVerdict(Verdict.HEALTHY, (), limit_s, silent_s, None, reason)
    blamed = choose_blamed(progress.beats, progress.ranks_expected)
    ranks = tuple(sorted(progress.beats))
    who = f"{total}/{total} ranks silent" if total else "silent"
    where = f"; rank {blamed} furthest behind" if blamed is not None else ""
    reason = f"{who} for over {limit_s:g} s ({why}){where}"
    return HangVerdict(Verdict.BREACHED, ranks, limit_s, silent_s, blamed, reason)


class Hang:
    """Remembers beats and answers `tick`: one finding per silent episode."""

    kind = Kind.HANG

    def __init__(self, settings: HangSettings, hold: Hold, severity: Severity) -> None:
        self._settings = settings
        self._hold_s = hold.seconds
        self._severity = severity
        self._alive = False
        self._last: HangVerdict | None = None
        self.begin(0)
        self._alive = False

    def begin(self, attempt: int, now_s: float = 0.0) -> None:
        self._attempt = attempt
        self._alive = True
        self._launched_s = self._last_s = now_s
        self._beats: dict[int, Beat] = {}
        self._fired = False
        self._first_step_done = False
        self._last = None
        self.ranks_expected = 0

    def end(self) -> None:
        """The attempt is over: silence is natural."""
        self._alive = False
        self._last = None

    def progress(self, now_s: float, *, step_done: bool = False) -> None:
        self._last_s = max(self._last_s, now_s)
        self._fired = False
        self._first_step_done = self._first_step_done or step_done

    def beat(self, rank: int, step: int, phase: Phase, now_s: float) -> None:
        if rank in self._beats or len(self._beats) < RANKS_MAX:
            self._beats[rank] = Beat(step, phase, now_s)
        self.progress(now_s)

    def tick(self, now_s: float, newest_step: int, step_time_s: float | None, steps_per_line: int) -> Finding | None:
        if not self._alive or not self._settings.enabled:
            return None
        facts = Progress(
            self._launched_s, self._last_s, self._beats, self.ranks_expected, self._first_step_done, step_time_s, steps_per_line
        )
        judged = self._last = judge_hang(now_s, facts, self._settings)
        if judged.verdict is not Verdict.BREACHED or self._fired or judged.silent_s <= judged.limit_s + self._hold_s:
            return None
        self._fired = True
        return Finding(
            Kind.HANG, self._severity, self._attempt, None, newest_step, self._last_s, judged.reason,
            value=round(judged.silent_s, 3), baseline=judged.limit_s, blamed_rank=judged.blamed_rank,
        )  # fmt: skip

    @property
    def is_alive(self) -> bool:
        """Does an attempt run, as far as was told?"""
        return self._alive

    @property
    def has_beats(self) -> bool:
        return bool(self._beats)

    def verdict(self) -> tuple[Verdict, str]:
        if not self._settings.enabled:
            return Verdict.UNKNOWN, "switched off by policy"
        if not self._alive:
            return Verdict.UNKNOWN, "no attempt is running"
        if self._last is None:
            return Verdict.UNKNOWN, "not judged yet"
        return self._last.verdict, self._last.reason
