"""trend: slow declines, over thousands of steps, that went before the great failures and that no other detector's window holds.

Sees, each over at least `lasting` steps: a loss scale that falls; a gradient norm, or the norm of the last layer's activations,
that rises; a parameter norm that rose and now falls, or the reverse; a clip fraction that stands at another level. One of them is
info. Where a second is found while the first still holds, that second finding has the severity of the rule: two agree. Gradient
norm, parameter norm and clip fraction are one witness: a norm that rises is clipped more often, and weight decay under a falling
learning rate lifts the gradient norm and turns the parameter norm in healthy runs.

Does not see: what the trainer does not log; the first `warmup` steps, and stretches in which the learning rate rises; what is
logged so rarely that `lasting` holds fewer than nine blocks; the past before
a resume, beyond the rows that the receipt brings (500); whether any harm comes of it. Norms follow the learning rate, and
healthy gradient norms creep up by as much as OPT-175B's did: where none is logged, they are not judged (`without_lr`).

How: blocks of five samples, in buckets; when one is complete, the newest 16, 32 and all of them are judged
(`slow_change.py`). The whole past is kept in at most 64 buckets, which grow with the run, and its newest parts in finer ones. A
finding is given once for each episode. An episode ends when half of the change has come back, or when it has stood for as long
as it took, and both only when the noise leaves no doubt: until then it goes on. Then all is learned anew.

Sources: BigScience's 104B, whose loss scale fell from iteration 4.7k on and whose loss broke at 7k (chronicles); OPT-175B, run
12.43, "grad norm and activation norm starting to spike/drift" while the perplexity still fell (56 % update). Defazio 2025, arXiv
2506.02285: weight decay holds the ratio of gradient norm to weight norm near sqrt(2 decay / rate), so it rises as the rate falls.
The numbers are Sentinel's own, chosen on synthetic rows and on the labelled healthy logs (LOG.md). Not numeric: it damages no
checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sentinel.client.settings import SETTINGS
from sentinel.detectors.contract import NOTHING, Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import Receipt, StepReading
from sentinel.streams.blocks import Block
from sentinel.streams.long_history import Bucket, LongHistory, RecentHistory
from sentinel.streams.slow_change import BUCKETS_MIN, Change, Judge, Shape, course_since

KIND = Kind("trend")
WINDOWS = (16, 32, 64)  # newest buckets; the last is all of them
FINER = 3  # histories of recent parts: of `lasting` in 16 buckets, and of 4 and 16 times as much
FINER_STEP = 4
NOTHING_COMPLETE: Sequence[LongHistory] = ()
RATE_RISES = 1.02  # times the learning rate of a window's beginning
NEW_BEST_RATE = 1.001
GRADIENT = "gradient"


@dataclass(frozen=True, slots=True)
class TrendSettings:
    """Slow declines over thousands of steps: one is info, two at the same time are a warning."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    z: float = setting(3.5, "positive", "How far the order of the values is beyond chance, in standard deviations.")
    loss_scale_fall: float = setting(8.0, "multiple", "The loss scale falls by this factor.")
    activation_rise: float = setting(0.25, "positive", "The norm of the activations rises by this share.")
    gradient_rise: float = setting(0.12, "positive", "The gradient norm rises by this share.")
    param_turn: float = setting(0.01, "positive", "The parameter norm moves by this share up to its turn, and behind it.")
    clip_rise: float = setting(0.25, "fraction", "So much more of the steps is clipped than before.")
    without_lr: bool = setting(False, "flag", "Judge the three norms although no learning rate is logged.")
    lasting_steps: int = setting(2000, "steps", "What is shorter is no slow decline.", alias="lasting")
    warmup_steps: int = setting(1000, "steps", "The first steps of a run, which are not looked at.", alias="warmup")


class TrendMetric(NamedTuple):
    """One metric. `sign`: its bad direction. `least`: the change worth telling; of its logarithm, where `is_log`. `needs_rate`:
    it follows the learning rate, so that without one nobody knows what its change means. `wanders`: healthy ones come and go, and
    only what lies by `least` beyond everything before the onset is told. `of`: what it measures; two of the same do not
    agree."""

    metric: str
    shape: Shape
    sign: int
    least: float
    needs_rate: bool
    is_log: bool = True
    wanders: bool = False
    of: str = ""

    def shown(self, value: float) -> float:
        return math.exp(min(value, 700.0)) if self.is_log else value


def watched(settings: TrendSettings) -> tuple[TrendMetric, ...]:
    needs_rate = not settings.without_lr
    return (
        TrendMetric("loss_scale", "trend", -1, math.log(settings.loss_scale_fall), needs_rate=False, wanders=True),
        TrendMetric("activation_norm", "trend", 1, math.log1p(settings.activation_rise), needs_rate),
        TrendMetric("grad_norm", "trend", 1, math.log1p(settings.gradient_rise), needs_rate, of=GRADIENT),
        TrendMetric("param_norm", "turn", 0, math.log1p(settings.param_turn), needs_rate, of=GRADIENT),
        TrendMetric("clip_fraction", "level", 1, settings.clip_rise, needs_rate=False, is_log=False, of=GRADIENT),
    )


class TrendWatch:
    """One metric's past, and the episode that it is in."""

    def __init__(self, one: TrendMetric, settings: TrendSettings) -> None:
        self.one = one
        self._judge = Judge(settings.z)
        self._lasting_steps = settings.lasting_steps
        self.history = LongHistory()
        self._recent: tuple[RecentHistory, ...] = ()
        self.begin()

    def begin(self) -> None:
        self.history.clear()
        for recent in self._recent:
            recent.clear()
        self.held: Change | None = None
        self._held_in: LongHistory = self.history
        self._took_steps = 0

    @property
    def is_judged(self) -> bool:
        return self.held is not None or any(True for _ in self._windows(self.history))

    def take(self, block: Block, rate: float | None, now_s: float) -> Change | None:
        """What this block makes certain, once for each episode."""
        middle = block.middle
        if self.one.metric == "loss_scale":  # the bank takes logarithms of norms alone
            if middle <= 0.0:
                return None
            middle = math.log(middle)
        complete = self._add(block, middle, rate, now_s)
        if not complete:
            return None
        if self.held is not None:
            self._follow(self.held, complete)
            return None
        for history in complete:
            change = self._judged(history)
            if change is not None:
                self.held, self._held_in = change, history
                self._took_steps = block.last_step - change.start.last_step
                return change
        return None

    def _add(self, block: Block, middle: float, rate: float | None, now_s: float) -> Sequence[LongHistory]:
        """The histories in which it completed a bucket, the finest first. Each recent one is made of the buckets before it."""
        first_step, last_step = block.first_step, block.last_step
        if not self._recent:
            finest = max(1, self._lasting_steps // WINDOWS[0] // max(1, last_step - first_step + 1))
            self._recent = tuple(RecentHistory(FINER_STEP if level else finest) for level in range(FINER))
        is_whole = self.history.add(first_step, last_step, middle, rate, now_s)
        if not self._recent[0].add(first_step, last_step, middle, rate, now_s):
            return (self.history,) if is_whole else NOTHING_COMPLETE
        complete: list[LongHistory] = [self._recent[0]]
        for recent in self._recent[1:]:
            if not recent.add(*complete[-1].buckets[-1]):
                break
            complete.append(recent)
        return (*complete, self.history) if is_whole else complete

    def _judged(self, history: LongHistory) -> Change | None:
        """While the whole past lies in buckets as fine, a recent part of it says nothing more."""
        if history is not self.history and history.buckets[-1].steps >= self.history.buckets[-1].steps:
            return None
        for buckets in self._windows(history):
            change = self._judge.change(self.one.shape, buckets, self.one.sign, self.one.least)
            if change is not None and not (self.one.wanders and self._was_there(change)):
                return change
        return None

    def _was_there(self, change: Change) -> bool:
        """It stood nearly where it stands now before it began to move."""
        before = (bucket.middle for bucket in self.history.buckets if bucket.last_step <= change.start.last_step)
        return any(change.sign * (change.level - middle) < self.one.least for middle in before)

    def _windows(self, history: LongHistory) -> Iterator[Sequence[Bucket]]:
        """The stretches that are long enough, and within which the learning rate did not rise."""
        buckets, before = history.buckets, 0
        for size in WINDOWS:
            newest = buckets[-size:]
            if len(newest) < BUCKETS_MIN or len(newest) == before:
                return
            before, oldest = len(newest), newest[0]
            then, now = oldest.rate, newest[-1].rate
            is_fit = not self.one.needs_rate if then is None or now is None else now <= RATE_RISES * then
            if is_fit and newest[-1].last_step - oldest.first_step >= self._lasting_steps:
                yield newest

    def _follow(self, held: Change, complete: Sequence[LongHistory]) -> None:
        """End the episode when half has come back, or when it is sure to stand for as long as it took."""
        began = held.start.last_step
        history = next(one for one in self._finest_first() if one is self.history or one.buckets[0].first_step <= began)
        if history not in complete:
            return
        course, so_long = course_since(history.buckets, held), history.buckets[-1].last_step - began
        if course == "goes on":
            self._took_steps = so_long
        elif course == "came back" or (course == "stands" and so_long > 2 * self._took_steps):
            self.begin()

    def _finest_first(self) -> Iterator[LongHistory]:
        """Those that have buckets."""
        newest = (one for one in (*self._recent, self.history) if one.buckets)
        yield from sorted(newest, key=lambda one: one.buckets[-1].steps)

    def holds_at(self, step: int) -> bool:
        """Its episode goes on. Of a metric that is no longer logged nobody knows."""
        return self.held is not None and step - self._held_in.buckets[-1].last_step <= self.held.level_steps

    def standing(self) -> str:
        """For people: how it moves, since when, from where to where."""
        held, one = self.held, self.one
        assert held is not None
        way = "rises" if held.sign > 0 else "falls"
        if one.shape == "turn":
            way = f"turned and {way}"
        elif one.shape == "level":
            way = "stands higher"
        return f"{one.metric} {way} since step {held.start.last_step}: {one.shown(held.base):.4g} to {one.shown(held.level):.4g}"


class Trend(Detector):
    kind = KIND

    def __init__(self, settings: TrendSettings, run: WatchedRun) -> None:
        self._warmup_steps = settings.warmup_steps
        self._run = run
        self._severity = run.severity(KIND)
        self._watches = {one.metric: TrendWatch(one, settings) for one in watched(settings)}
        self.blocks_of = tuple(self._watches)
        self.needs = frozenset(self.blocks_of)
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._start = start
        self._best_rate = 0.0
        for watch in self._watches.values():
            watch.begin()

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        """Under settings that shift the levels the past says nothing of what comes."""
        if any(row.shifts(receipt.overrides.get(key)) for key, row in SETTINGS.items()):
            self.begin(self._start)

    def change_settings(self, quiet_until: int | None, moved: Collection[str]) -> None:
        """The levels of what the settings move are those of the old ones."""
        if quiet_until is not None:
            self._start = replace(self._start, quiet_until=quiet_until)
        for metric in moved:
            if metric in self._watches:
                self._watches[metric].begin()

    def block(self, metric: str, block: Block, now_s: float) -> Sequence[Finding]:
        if block.first_step <= self._start.quiet_until:
            return NOTHING
        change = self._take(metric, block, now_s)
        return NOTHING if change is None else (self._finding(self._watches[metric], change, block.last_step),)

    def learn_block(self, metric: str, block: Block) -> None:
        """What was found in the past was told in the past. The grace is of the rows that come."""
        self._take(metric, block, 0.0)

    def _take(self, metric: str, block: Block, now_s: float) -> Change | None:
        if block.first_step <= self._warmup_steps:
            return None
        rate = self._run.rate
        if rate is not None and NEW_BEST_RATE * self._best_rate < rate < math.inf:
            self._warm_up(rate)
        return self._watches[metric].take(block, rate, now_s)

    def _warm_up(self, rate: float) -> None:
        """A learning rate higher than ever before: what was seen until now was warm-up."""
        self._best_rate = rate
        for watch in self._watches.values():
            watch.begin()

    def _finding(self, watch: TrendWatch, change: Change, step: int) -> Finding:
        others = [other for other in self._watches.values() if other is not watch and other.holds_at(step)]
        reason = f"{watch.standing()}, z {change.z:.1f}"
        if others:
            reason += f"; at the same time {'; '.join(other.standing() for other in others)}"
        one, start = watch.one, change.start
        severity: Severity = self._severity if any(not one.of or other.one.of != one.of for other in others) else "info"
        return Finding(
            KIND, severity, self._start.attempt, start.last_step, step, start.seen_s, reason,
            metric=one.metric, value=one.shown(change.level), baseline=one.shown(change.base),
        )  # fmt: skip

    def verdict(self) -> tuple[Verdict, str]:
        judged = [watch for watch in self._watches.values() if watch.is_judged]
        if not judged:
            if self._run.rate is None and any(watch.history.buckets for watch in self._watches.values()):
                return Verdict.UNKNOWN, "too little history for slow changes; norms are not judged, as no learning rate is logged"
            return Verdict.UNKNOWN, "too little history for slow changes, or the learning rate still rises"
        held = [watch.standing() for watch in judged if watch.held is not None]
        if held:
            return Verdict.BREACHED, "; ".join(held)
        return Verdict.HEALTHY, f"no slow change for the worse of {', '.join(watch.one.metric for watch in judged)}"
