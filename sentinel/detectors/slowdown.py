"""slowdown: the steps take longer than this run's own best pace did, and go on doing so. A person is informed; training goes on.

Sees: blocks of five rows whose median costs `factor` times the reference, one after another, for `lasting_steps` steps and
`lasting_s` seconds. The cost of a row is, best first: one over `tokens_per_s`; `step_time_s`; the time between two rows. The
last two are counted for each sample where the rows name their samples, so a batch that grows is no slowdown. The reference is
the lowest level (median of twelve blocks) of the attempt and of the history it resumed from. Does not see: why; a run that
was slow from its first step on; who is slow (straggler); a stand-still (hang).

An evaluation, a checkpoint or a compilation is one long row: it is left out where the stream names it, and a median of
five does not feel it elsewhere. When the logging interval changes, everything is learned anew, for pauses then fall into
the rows differently; so it is when a better source of the cost appears, and when the world's size differs from the history's.
All of it is read from the stream alone, so that a restarted supervisor says the same.

Source: Sentinel's own. Fail-slows last from tens of seconds to ten hours and cost jobs a third of their time on average (Falcon,
arXiv 2410.12588); single slow steps are common everywhere: hence a factor that no jitter reaches, and a long hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sentinel.detectors.contract import NOTHING, Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Receipt, StepReading, TrainerNote

BLOCK = 5
REFERENCE_BLOCKS = 12  # sixty rows: the lowest of shorter levels lies too low in very noisy runs (LOG.md)
BLOCKS_MIN = 3  # slow blocks in a row, however coarsely is logged
CALM_BLOCKS = 2
OTHER_ROWS = 5  # rows of another interval, before a block is full, are a new interval
ABSENT_ROWS = 50  # rows without the source in use, before a block is full, and it has stayed away
TOKENS = "tokens_per_s"
LOGGED = (TOKENS, "step_time_s")
SOURCES = (*LOGGED, "time_s")
INFINITE = float("inf")

Place = tuple[int, float, float]  # step, trainer's time, supervisor's time


@dataclass(frozen=True, slots=True)
class SlowdownSettings:
    """Steps take longer than the run's own best pace."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    factor: float = setting(1.5, "multiple", "Times the best pace this run has kept.")
    lasting_steps: int = setting(50, "steps", "For so many steps …", alias="lasting")
    lasting_s: float = setting(600.0, "seconds", "… and so long.", alias="at_least")
    min_history_steps: int = setting(200, "steps", "Steps seen before it judges at all.", alias="min_history")


class Slowdown(Detector):
    kind = Kind.SLOWDOWN

    def __init__(self, settings: SlowdownSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._severity = run.severity(Kind.SLOWDOWN)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._start = start
        self._last: tuple[int, float] | None = None
        self._gap = 0
        self._odd_gaps = self._odd_sources = 0
        self._left: set[str] = set()
        self._paused = False
        self._source = ""
        self._is_sampled = False
        self._size = 1
        self._first: int | None = None
        self._forget()

    def _forget(self) -> None:
        """What was learned is not comparable with what comes."""
        self._part: list[tuple[float, Place]] = []
        self._levels: deque[float] = deque(maxlen=REFERENCE_BLOCKS)
        self._best: float | None = None
        self._slow: list[float] = []
        self._onset: Place = (0, 0.0, 0.0)
        self._tail: Place | None = None  # where a block that was not slow yet became so
        self._reported: float | None = None
        self._calm = 0

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        """Rows of another world size say nothing about the pace of this one."""
        if receipt.history_world_size != receipt.world_size:
            return
        for reading in history:
            self._take(reading, 0.0)
        self._last = None
        self._part.clear()
        self._slow.clear()
        self._reported = None

    def note(self, note: TrainerNote, now_s: float) -> None:
        """The stream names something slow and legitimate: the running interval says nothing."""
        self._paused = True

    def step(self, reading: StepReading, covered: int, now_s: float) -> Sequence[Finding]:
        if not self._take(reading, now_s):
            return NOTHING
        step, time_s, _ = self._onset
        lasted_s = reading.time_s - time_s
        is_timed = reading.time_s > 0.0 and time_s > 0.0
        long = reading.step - step >= self._settings.lasting_steps and (not is_timed or lasted_s >= self._settings.lasting_s)
        enough = self._first is not None and step - self._first >= self._settings.min_history_steps
        if len(self._slow) < BLOCKS_MIN or not long or not enough or reading.step <= self._start.quiet_until:
            return NOTHING
        self._reported = sorted(self._slow)[len(self._slow) // 2]
        self._slow.clear()
        return (self._finding(reading.step, self._reported),)

    # What a row costs.

    def _take(self, reading: StepReading, now_s: float) -> bool:
        """Learn a row; True when it completed a slow block. Called for every row: what is rare is left to others."""
        step, time_s, last = reading.step, reading.time_s, self._last
        self._last = (step, time_s)
        gap, paused = step - last[0] if last is not None else 0, self._paused
        if paused:
            self._paused = False
        if last is None:
            self._first = step if self._first is None else self._first
        elif gap != self._gap and not self._keeps_interval(gap):
            return False
        metrics = reading.metrics
        if TOKENS not in metrics and "step_time_s" not in metrics:  # most logs
            if last is None or paused or last[1] <= 0.0 or "val_loss" in metrics:
                return False
            source, cost = "time_s", (time_s - last[1]) / gap
        else:
            source, cost = _logged_cost(metrics)
        if not 0.0 < cost < INFINITE or (source != self._source and not self._keeps_source(source)):
            return False
        if source != TOKENS and (reading.samples or self._is_sampled):  # neither in most logs
            size = sum([taken.end - taken.start for taken in reading.samples])
            if (size > 0) is not self._is_sampled:
                self._is_sampled = size > 0
                self._forget()
            self._size = size or 1
            cost /= self._size
        part = self._part
        part.append((cost, (step, time_s, now_s)))
        return len(part) == BLOCK and self._judge_block()

    def _keeps_interval(self, gap: int) -> bool:
        """False for a row that stands for another number of steps; several of them before a block is full are a new interval."""
        if not self._gap:
            self._gap = gap
            return True
        self._odd_gaps += 1
        if self._odd_gaps >= OTHER_ROWS:
            self._gap, self._odd_gaps = gap, 0
            self._forget()
        return False

    def _keeps_source(self, source: str) -> bool:
        """False for a row without the source in use. A better one is taken at once, a worse one when the one in use stays away;
        what has stayed away is not taken up again."""
        current = self._source
        self._odd_sources += 1
        if not current or SOURCES.index(source) < SOURCES.index(current):
            if source in self._left:
                return False
        elif self._odd_sources < ABSENT_ROWS:
            return False
        else:
            self._left.add(current)
        self._source, self._odd_sources = source, 0
        self._forget()
        return True

    # What the blocks say.

    def _judge_block(self) -> bool:
        """A block is full: True when it is slow."""
        part, self._part = self._part, []
        self._odd_gaps = self._odd_sources = 0
        costs = [cost for cost, _ in part]
        middle = sorted(costs)[BLOCK // 2]
        self._levels.append(middle)
        limit = self._settings.factor * max(self._best, self._reported or 0.0) if self._best is not None else INFINITE
        is_slow = middle > limit
        slow_rows = [place for cost, place in part if cost > limit] if max(costs) > limit else []
        if is_slow:
            if not self._slow:
                self._onset = self._tail or slow_rows[0]
            self._slow = [*self._slow[-REFERENCE_BLOCKS:], middle]
        else:
            self._slow.clear()
            self._learn(middle)
        self._tail = slow_rows[0] if part[-1][0] > limit and len(slow_rows) <= BLOCK // 2 else None
        self._resolve(middle)
        return is_slow

    def _learn(self, middle: float) -> None:
        """With the newest block. One that is no better than the best cannot bring the median of the levels below it."""
        if len(self._levels) == REFERENCE_BLOCKS and (self._best is None or middle < self._best):
            level = sorted(self._levels)[REFERENCE_BLOCKS // 2]
            self._best = level if self._best is None else min(self._best, level)

    def _resolve(self, middle: float) -> None:
        """What was found is over once two blocks lie less than half way to it."""
        if self._reported is None or self._best is None:
            return
        near = middle < self._best * (1.0 + (self._settings.factor - 1.0) / 2.0)
        self._calm = self._calm + 1 if near else 0
        if self._calm >= CALM_BLOCKS:
            self._reported, self._calm = None, 0

    def _finding(self, step: int, level: float) -> Finding:
        assert self._best is not None
        onset, _, visible_s = self._onset
        metric = self._source
        value, baseline = self._shown(level), self._shown(self._best)
        reason = (
            f"steps take {level / self._best:.2f} times their best pace since step {onset}: "
            f"{metric} {value:.4g} now, {baseline:.4g} at its best"
        )
        return Finding(
            Kind.SLOWDOWN, self._severity, self._start.attempt, onset, step, visible_s, reason,
            metric=metric, value=value, baseline=baseline,
        )  # fmt: skip

    def _shown(self, cost: float) -> float:
        """In the unit that is logged: tokens a second, or seconds a step of the present size."""
        return 1.0 / cost if self._source == TOKENS else cost * self._size

    def verdict(self) -> tuple[Verdict, str]:
        if not self._source:
            return Verdict.UNKNOWN, "no row has told what a step costs (tokens_per_s, step_time_s, or its time)"
        if self._best is None:
            return Verdict.UNKNOWN, f"pace not learned yet ({len(self._levels) * BLOCK} of {REFERENCE_BLOCKS * BLOCK} rows)"
        now = self._levels[-1] if self._levels else self._best
        summary = f"{now / self._best:.2f} times its best pace by {self._source} (limit {self._settings.factor:g})"
        return (Verdict.HEALTHY if self._reported is None else Verdict.BREACHED), summary


def _logged_cost(metrics: Mapping[str, float]) -> tuple[str, float]:
    """What the row itself says of its cost: seconds a token, or a step; 0 where that is no time."""
    rate, seconds = metrics.get(TOKENS, 0.0), metrics.get("step_time_s", 0.0)
    if 0.0 < rate < INFINITE:
        return TOKENS, 1.0 / rate
    return "step_time_s", seconds
