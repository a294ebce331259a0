"""DetectorBank: every detector of the registry behind one object. The engine passes on what was read, and asks how things stand.

Readings of another attempt than the current one are ignored: they come from a past that was abandoned. Nothing here is decided by
the wall: `now_s` is the supervisor's session time and never runs backwards inside.

A row of the stream, in order: the series decides whether it is new, pace and learning rate are noted, then the detectors judge it
in the registry's order: those that read every row, those that read blocks of five samples (made once for all of them), those that
read seldom metrics. A detector that is switched off is not built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from sentinel.detectors.bands import back_since
from sentinel.detectors.contract import NO_HOSTS, Detector, DetectorSettings, Start, WatchedRun
from sentinel.detectors.crash import Ended, Ending, Failed, judge_exit
from sentinel.detectors.crash_class import Owner
from sentinel.detectors.disk_forecast import KeptCheckpoints
from sentinel.detectors.disk_full import KIND as DISK_FULL
from sentinel.detectors.disk_full import DiskFull
from sentinel.detectors.engine_words import find_refusal
from sentinel.detectors.expression import Expressions
from sentinel.detectors.gpu_fault import GpuFault
from sentinel.detectors.hold import Hold
from sentinel.detectors.moved import MOVED_BY_RATE, judge_moved
from sentinel.detectors.onset import SIGNALS, Dated, date_onset
from sentinel.detectors.reference import Reference
from sentinel.detectors.refused_flags import find_refused
from sentinel.detectors.registry import DETECTORS, FINDS, MAKER_OF
from sentinel.detectors.standing import DetectorView, Standing, judge_standing
from sentinel.detectors.stream_gap import judge_stream_gap
from sentinel.model.attempts import ExitReport, SampleRange
from sentinel.model.disks import DiskReading
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.metrics import is_family
from sentinel.model.readings import (
    RANKS_END,
    CheckpointReading,
    FlightRecords,
    HardwareReading,
    Heartbeat,
    LogTail,
    MirrorReading,
    RanksSeen,
    Receipt,
    SourceReading,
    StepReading,
    TrainerNote,
)
from sentinel.model.stall import StepTimes
from sentinel.streams.blocks import Block, Fives
from sentinel.streams.family import SHAPES_KEPT, holds_one_of
from sentinel.streams.level import Level
from sentinel.streams.rate_jumps import RateJumps
from sentinel.streams.rate_returns import RateReturns
from sentinel.streams.series import Series

LOSS, RATE = "loss", "lr"
SLOW_PHASES = frozenset(("init", "compile", "eval", "checkpoint"))
TAILS_KEPT = 64
LEVEL_BLOCKS = 4
GRACE_ROWS = 20  # at least, where a rate rose: a level is the median of ten or more
Judge = Callable[[StepReading, int, float], Sequence[Finding]]  # `Detector.step`
NO_LINES: tuple[int, frozenset[str]] = (-1, frozenset())
NOT_BLIND: Mapping[str, str] = MappingProxyType({})


class _Feed(NamedTuple):
    """One metric, made into blocks once for all that read them."""

    metric: str
    fives: Fives
    readers: tuple[Detector, ...]


class DetectorBank:
    """What the engine watches a run with. Pure: the same calls give the same answers."""

    def __init__(
        self,
        settings: DetectorSettings,
        holds: Mapping[Kind, Hold],
        severities: Mapping[Kind, Severity],
        reference: Reference | None = None,
        expressions: Expressions | None = None,
        kept: KeptCheckpoints | None = None,
    ) -> None:
        def severity(kind: Kind) -> Severity:
            return severities.get(kind, FINDS[kind].severity)

        tuned = {row.name: getattr(settings, row.name) for row in DETECTORS if row.settings is not None}
        watched = (name for one in tuned.values() for name in getattr(one, "metrics", ()))
        self._series = Series(dict.fromkeys((*watched, *SIGNALS, RATE)))
        self._run = WatchedRun(self._series, severity, holds, reference, expressions, kept)
        self._rate, self._returns = RateJumps(), RateReturns()
        self._grace_steps = settings.grace_steps
        self._lookback_steps = settings.onset_lookback_steps
        self._detectors, self._off = _built(tuned, self._run)
        for detector in self._detectors:
            self._series.track((*detector.needs, *filter(is_family, detector.reads)))
        self._by_kind = {detector.kind: detector for detector in self._detectors}
        self._route()
        self._attempt: int | None = None
        self._world_size: int | None = None
        self._cut_step = self._quiet_until = 0
        self._resumed_step = 0
        self._total_steps: int | None = None
        self._may_end_early = False
        self._effective: Mapping[str, Any] | None = None
        self._now_s = self._line_s = self._beat_step_s = float("-inf")
        self._tails: dict[Owner, tuple[str, ...]] = {}
        self._errors_from: dict[Owner, int] = {}
        self._tails_cut = False
        self._stream_gap: str | None = None
        self._early: dict[int, int] = {}  # furthest step by rank, until the receipt says which ranks there are

    def _route(self) -> None:
        """Who gets which call: only detectors that override it are called."""
        order = {detector.kind: at for at, detector in enumerate(self._detectors)}
        self._place: Callable[[Finding], int] = lambda finding: order[finding.kind]
        stepping = [detector for detector in _overriding(self._detectors, "step") if not detector.is_idle]
        self._each_row = tuple(detector.step for detector in stepping if not detector.reads)
        self._seldom = tuple((detector.reads, detector.step) for detector in stepping if detector.reads)
        readers = _overriding(self._detectors, "block")
        metrics = dict.fromkeys((LOSS, *(name for detector in readers for name in detector.blocks_of)))
        self._feeds = tuple(
            _Feed(name, Fives(log_space="norm" in name), tuple(d for d in readers if name in d.blocks_of)) for name in metrics
        )
        self._readers_of = lru_cache(SHAPES_KEPT)(self._find_readers)
        self._names: tuple[str, ...] = ()  # of the newest row, which most rows repeat
        self._readers = self._readers_of(())
        self._covered = 1  # steps that the newest row stands for
        self._lines = NO_LINES  # a step that had several, and all metrics of them
        self._learning = tuple((detector.reads, detector.learn) for detector in _overriding(self._detectors, "learn"))
        self._on_beats = tuple(detector.heartbeats for detector in _overriding(self._detectors, "heartbeats"))
        self._on_more = tuple(detector.complete for detector in _overriding(self._detectors, "complete"))
        self._on_away = tuple(detector.away for detector in _overriding(self._detectors, "away"))
        self._on_tick = tuple(detector.tick for detector in _overriding(self._detectors, "tick"))
        self._on_hardware_tick = tuple(detector.hardware_tick for detector in _overriding(self._detectors, "hardware_tick"))

    def _find_readers(self, names: tuple[str, ...]) -> tuple[tuple[_Feed, ...], tuple[Judge, ...]]:
        """Who reads a row of these metrics, beside those that read every row. Asked once for all rows of a shape."""
        feeds = tuple(feed for feed in self._feeds if feed.metric in names)
        return feeds, tuple(judge for reads, judge in self._seldom if holds_one_of(reads, names))

    # What was read.

    def begin_attempt(self, attempt: int, now_s: float, hosts: Mapping[int, str] = NO_HOSTS) -> None:
        """Launched (or adopted), nothing read yet. Everything learned is cut, the pace excepted. `hosts`: by rank, which the
        engine goes on to keep."""
        self._attempt = attempt
        self._tails.clear()
        self._errors_from.clear()
        self._tails_cut = False
        now_s = self._line_s = self._clock(now_s)
        run = self._run
        run.is_alive, run.has_beats, run.ranks_expected, run.furthest_step = True, False, 0, 0
        run.rank_end, run.hosts = RANKS_END, hosts
        self._early.clear()
        self._beat_step_s, self._resumed_step, self._total_steps = float("-inf"), 0, None
        self._stream_gap = self._effective = None
        self._cut(attempt, 0)
        for detector in self._detectors:
            detector.launch(attempt, now_s)

    def receipt(self, receipt: Receipt, now_s: float) -> None:
        """The trainer's proof: cut, then learn the surviving past, without findings. All of it is read from this receipt alone,
        so that a restarted supervisor, who never saw the previous one, agrees."""
        if receipt.attempt != self._attempt:
            return
        now_s = self._clock(now_s)
        self._cut(receipt.attempt, receipt.resume_step)
        history = tuple(reading for reading in receipt.history if reading.step <= receipt.resume_step)
        self._learn(receipt, history)
        self._run.ranks_expected, self._resumed_step = receipt.world_size, receipt.resume_step
        self._limit_ranks(receipt.rank_end)
        self._total_steps, self._may_end_early = receipt.total_steps, receipt.may_end_early
        self._effective = receipt.effective
        self._line_s = now_s
        for detector in self._detectors:
            detector.resume(receipt, history, now_s)

    def _limit_ranks(self, end: int) -> None:
        """Ranks that the attempt cannot have are heard no more, and what was heard of them before the receipt is forgotten."""
        run, early = self._run, self._early
        run.rank_end = end
        if any(rank >= end for rank in early):
            own = [step for rank, step in early.items() if rank < end]
            run.has_beats, run.furthest_step = bool(own), max(own, default=0)
        early.clear()

    def _learn(self, receipt: Receipt, history: tuple[StepReading, ...]) -> None:
        pace = self._run.pace
        if self._world_size not in (None, receipt.world_size):
            pace.forget()
        self._world_size = receipt.world_size
        self._series.seed(history, receipt.resume_step)
        for reading in history:
            pace.add(reading.step, reading.time_s)
            rate = reading.metrics.get(RATE, 0.0)
            self._rate.take(reading.step, rate)
            self._returns.take(rate)
        pace.begin()
        for reading in history:
            self._run.rate = reading.metrics.get(RATE, self._run.rate)
            for metric, fives, readers in self._feeds:
                value = reading.metrics.get(metric)
                block = fives.take(reading.step, value) if value is not None else None
                if block is None:
                    continue
                if metric == LOSS:
                    self._note_loss(block)
                for reader in readers:
                    reader.learn_block(metric, block)
            for reads, learn in self._learning:
                if not reads or holds_one_of(reads, reading.metrics):
                    learn(reading)

    def step(self, reading: StepReading, now_s: float) -> tuple[Finding, ...]:
        """One optimizer step. Of a step seen before nothing counts but what another line of the newest one adds."""
        if reading.attempt != self._attempt:
            return ()
        metrics = reading.metrics
        names = tuple(metrics)
        covered = self._series.add(reading, names)
        if not covered:
            return self._complete(reading, now_s)
        if now_s > self._now_s:  # as `_clock`, without a call
            self._now_s = now_s
        else:
            now_s = self._now_s
        self._line_s, self._covered, step = now_s, covered, reading.step
        self._run.pace.add(step, reading.time_s)
        rate = metrics.get(RATE)
        if rate is not None:
            self._run.rate = rate
            jump = self._rate.take(step, rate)
            has_returned, (lowest, highest) = False, self._returns.quiet
            if not lowest <= rate <= highest:
                has_returned = self._returns.take(rate)
                self._run.rate_rises = self._returns.is_up
            if jump != 1.0 or has_returned:
                self._run.level_at_rate = self._returns.level_at(rate) if has_returned else None
                self._change_settings(step, MOVED_BY_RATE, risen=jump > 1.0 or has_returned)
        found: list[Finding] = []
        for judge in self._each_row:
            some = judge(reading, covered, now_s)
            if some:
                found += some
        if names != self._names:
            self._names, self._readers = names, self._readers_of(names)
        feeds, seldom = self._readers
        for metric, fives, readers in feeds:
            block = fives.take(step, metrics[metric])
            if block is not None:
                found += self._pass_on(metric, block, readers, now_s)
        for judge_seldom in seldom:
            found += judge_seldom(reading, covered, now_s)
        if len(found) > 1:
            found.sort(key=self._place)
        return tuple(found) if found else ()

    def _complete(self, reading: StepReading, now_s: float) -> tuple[Finding, ...]:
        """A further line of the newest step, as trainers write an evaluation or what they watch beside the loss. What the lines
        before it did not hold is judged as theirs was; pace and silence were told by the first."""
        step = reading.step
        if step != self._series.newest_step or not self._series.has_row(step):
            return ()
        of_step, seen = self._lines
        seen = seen if of_step == step else frozenset(self._names)
        fresh = {name: value for name, value in reading.metrics.items() if name not in seen}
        self._lines = step, seen | fresh.keys()
        if not fresh:
            return ()
        row, now_s, found = replace(reading, metrics=fresh), self._clock(now_s), list[Finding]()
        self._series.complete(row)
        self._run.rate = fresh.get(RATE, self._run.rate)
        for complete in self._on_more:
            found += complete(row, self._covered, now_s)
        feeds, seldom = self._find_readers(tuple(fresh))
        for feed in feeds:
            block = feed.fives.take(step, fresh[feed.metric])
            if block is not None:
                found += self._pass_on(feed.metric, block, feed.readers, now_s)
        for judge_seldom in seldom:
            found += judge_seldom(row, self._covered, now_s)
        return tuple(sorted(found, key=self._place))

    def _pass_on(self, metric: str, block: Block, readers: tuple[Detector, ...], now_s: float) -> list[Finding]:
        if metric == LOSS:
            self._note_loss(block)
        return [finding for reader in readers for finding in reader.block(metric, block, now_s)]

    def _note_loss(self, block: Block) -> None:
        blocks, rate = self._run.loss_blocks, self._run.rate
        blocks.add(block)
        if rate is not None and blocks.count >= LEVEL_BLOCKS:
            self._returns.note(rate, blocks.middle(LEVEL_BLOCKS))

    def heartbeats(self, beats: Sequence[Heartbeat], now_s: float) -> None:
        attempt, run = self._attempt, self._run
        rank_end = run.rank_end
        beats = [beat for beat in beats if beat.attempt == attempt and beat.rank < rank_end]
        if not beats:
            return
        now_s = self._clock(now_s)
        if not run.ranks_expected:
            self._early |= {beat.rank: max(beat.step, self._early.get(beat.rank, 0)) for beat in beats}
        if not SLOW_PHASES.isdisjoint([beat.phase for beat in beats]):
            run.pace.interrupt()
        run.has_beats = True
        furthest = max([beat.step for beat in beats])
        if furthest > run.furthest_step:
            run.furthest_step, self._beat_step_s = furthest, now_s
        for read in self._on_beats:
            read(beats, now_s)

    def ranks_seen(self, reading: RanksSeen) -> None:
        if reading.attempt != self._attempt:
            return
        end = self._run.rank_end
        if isinstance(reading, FlightRecords):
            reading = replace(reading, dumps={rank: dump for rank, dump in reading.dumps.items() if rank < end})
        elif reading.rank >= end:
            return
        for detector in self._detectors:
            detector.ranks_seen(reading)

    def note(self, note: TrainerNote, now_s: float) -> None:
        """Overrides applied live cut the level of what they move, as a receipt with overrides does."""
        if note.attempt != self._attempt:
            return
        if note.event == "override_applied":
            answer = note.data.get("effective")
            moved = judge_moved(self._effective, answer, self._newest_of)
            self._effective = answer if isinstance(answer, Mapping) else None
            if moved:
                self._change_settings(self.newest_step + 1, moved, risen=False)
        now_s = self._clock(now_s)
        for detector in self._detectors:
            detector.note(note, now_s)

    def checkpoint(self, reading: CheckpointReading, now_s: float) -> None:
        """A committed checkpoint was seen; those of other attempts are the past that was resumed from."""
        if reading.attempt in (0, self._attempt):
            now_s = self._clock(now_s)
            for detector in self._detectors:
                detector.checkpoint(reading, now_s)

    def log_tail(self, tail: LogTail) -> None:
        """The end of a log, read just before the exit it may explain."""
        if tail.rank is not None and tail.rank >= self._run.rank_end:
            return
        if tail.attempt == self._attempt and (tail.rank in self._tails or len(self._tails) < TAILS_KEPT):
            self._tails[tail.rank] = tail.lines
            if tail.errors_from is not None:
                self._errors_from[tail.rank] = tail.errors_from
            self._tails_cut = self._tails_cut or tail.is_cut

    def hardware(self, reading: HardwareReading, now_s: float) -> None:
        """What the machine says of itself; what it means comes with `hardware_tick`."""
        now_s = self._clock(now_s)
        for detector in self._detectors:
            detector.hardware(reading, now_s)

    def disk(self, reading: DiskReading, now_s: float) -> None:
        """How much room a filesystem of the run has; what it means comes with `hardware_tick`."""
        now_s = self._clock(now_s)
        for detector in self._detectors:
            detector.disk(reading, now_s)

    def mirror(self, reading: MirrorReading) -> None:
        for detector in self._detectors:
            detector.mirror(reading)

    def source(self, reading: SourceReading) -> None:
        """A source that cannot be read makes nothing healthy."""
        for detector in self._detectors:
            detector.source(reading)

    def end_attempt(self) -> None:
        """The attempt's processes are gone: silence is natural from here on."""
        self._end()
        self._stream_gap = None

    def away(self, seconds: float) -> None:
        """For so long before the tick that follows nobody looked."""
        if seconds > 0:
            for away in self._on_away:
                away(seconds)

    def tick(self, now_s: float, *, sees_checkpoints: bool = True) -> tuple[Finding, ...]:
        """Time passed: is it hanging, does one rank lag, are checkpoints missing? At most one finding of each per episode."""
        now_s, run = self._clock(now_s), self._run
        if not run.is_alive:
            return ()
        run.sees_checkpoints = sees_checkpoints
        found = [finding for tick in self._on_tick for finding in tick(now_s)]
        self._stream_gap = judge_stream_gap(
            run.furthest_step, run.newest_step, self._series.interval_steps, now_s - self._line_s, run.longest_silence_s
        )
        return tuple(self._explained(finding, now_s) for finding in found)

    def hardware_tick(self, now_s: float) -> tuple[Finding, ...]:
        """Sick hardware that is certain by now; needs no sight of the trainer."""
        now_s = self._clock(now_s)
        return tuple(finding for tick in self._on_hardware_tick for finding in tick(now_s))

    def exit(
        self,
        report: ExitReport,
        *,
        finished: bool,
        stop_requested: bool,
        now_s: float,
        has_trained: bool = False,
        end_reason: str = "",
        is_blind: bool = False,
    ) -> Ended:
        """Why the attempt ended. `has_trained`: the run has made a step before, in whatever attempt. `end_reason`: what the end
        line of the stream says. `is_blind`: the stream could not be read to its end."""
        assert self._attempt is not None, "no attempt was begun"
        self._end()
        now_s, run = self._clock(now_s), self._run
        onset, is_cut = run.damaged_since, self._tails_cut
        left = None if is_blind or self._total_steps is None else self._total_steps - run.newest_step
        missing = 0 if left is None else max(0, left - self._series.interval_steps)
        ending = Ending(
            self._attempt, run.newest_step, now_s, finished, stop_requested, onset, has_trained, is_cut, end_reason, missing,
            left is not None and left <= 0, self._errors_from, self._may_end_early,
        )  # fmt: skip
        ended = judge_exit(report, ending, run.severity, self._tails)
        return Failed(self._explained(ended.finding, now_s)) if isinstance(ended, Failed) else ended

    def refusal(self, *, is_alone: bool) -> str:
        """The scheduler's own word that it did not start the attempt, from the end of the launcher's log; empty where there is
        none. `is_alone`: as in `find_refusal`."""
        return find_refusal(self._tails.get(None, ()), is_alone=is_alone)

    def refused_flags(self) -> tuple[tuple[str, ...], str]:
        """The flags that a rank, or the command itself, said at its end that it does not know, and the line."""
        found = (find_refused(lines) for lines in self._tails.values())
        return next((one for one in found if one[0]), ((), ""))

    # How things stand.

    @property
    def step_times(self) -> StepTimes:
        """When the attempt last made a step, by lines and heartbeats. Nothing is known before its own first step, which may take
        minutes, nor after its end."""
        run = self._run
        if not run.is_alive or max(run.newest_step, run.furthest_step) <= self._resumed_step:
            return StepTimes()
        hidden = 1 if run.has_beats else self._series.interval_steps
        return StepTimes(max(self._line_s, self._beat_step_s), run.step_time_s, hidden)

    @property
    def gpus_in_use(self) -> int | None:
        """On how many GPUs of the machines that are seen a process of this run was seen. None while none was, on any."""
        watch = self._by_kind.get(Kind.GPU_FAULT)
        return watch.gpus_in_use if isinstance(watch, GpuFault) else None

    @property
    def newest_step(self) -> int:
        """Newest step of the attempt; the resumed step before its first; 0 before its receipt."""
        return self._series.newest_step

    @property
    def furthest_step(self) -> int:
        """Of all heartbeats of the attempt; 0 before the first."""
        return self._run.furthest_step

    @property
    def interval_steps(self) -> int:
        """Usual distance between two rows of the stream, in steps."""
        return self._series.interval_steps

    @property
    def step_time_s(self) -> float | None:
        """Learned seconds per optimizer step; None while unknown."""
        return self._run.step_time_s

    @property
    def samples_per_step(self) -> int | None:
        return self._series.samples_per_step

    @property
    def stream_gap(self) -> str | None:
        """Why the stream says nothing although ranks go on; None while it speaks."""
        return self._stream_gap

    def samples_of(self, step: int) -> tuple[SampleRange, ...] | None:
        """Data the step consumed; also of history steps before the resume. None when not logged or too old."""
        return self._series.samples_of(step)

    def level(self, metric: str, after_step: int, up_to_step: int | None = None) -> Level | None:
        """Median and MAD over after_step < step <= up_to_step, clean or not; non-finite counts as infinitely high."""
        return self._series.level(metric, after_step, up_to_step)

    def pre_breach(self, metric: str) -> Level | None:
        """The band just before the newest breach of this attempt; None when there was none."""
        spike = self._by_kind.get(Kind.SPIKE)
        return spike.band_before(metric) if spike is not None else None

    def found_from(self, kind: Kind, metric: str) -> Level | None:
        """Where the metric stood before what the detector of this kind has found now, as it knew it; None where it knows none."""
        detector = self._by_kind.get(kind)
        return detector.band_before(metric) if detector is not None else None

    def count_rows(self, after_step: int) -> int:
        """Rows of the stream after the step, of those kept."""
        return self._series.count_after(after_step)

    def rows_before(self, metric: str, step: int, count: int) -> list[tuple[int, float]]:
        """The newest `count` (step, value) of the metric before the step, oldest first."""
        return self._series.before(metric, step, count)

    def date_onset(self, finding: Finding) -> Dated | None:
        """Where the finding's trouble began by the earliest co-signal; None where the finding's own onset stands."""
        found = (detector.creeping() for detector in self._detectors)
        creeping = next((one for one in found if one is not None), None)
        level = self.found_from(finding.kind, finding.metric or "")
        well_until = level.first_step if level is not None and FINDS[finding.kind].bend else -1
        return date_onset(self._series, finding, self._lookback_steps, self._cut_step, creeping, well_until)

    def still_true(self, kind: Kind, alert: str) -> str:
        """Why it cannot have healed, whatever the loss says; empty when it may have, or that is not known."""
        detector = self._by_kind.get(kind)
        return detector.still_true(alert) if detector is not None else ""

    def good_since(self, kind: Kind) -> int | None:
        """The first step without the fault of that kind, where its detector knows; None where the loss alone tells."""
        detector = self._by_kind.get(kind)
        return detector.good_since() if detector is not None else None

    def is_breached(self, kind: Kind) -> bool:
        """Whether the detector that finds this kind stands breached at the newest row."""
        row = MAKER_OF.get(kind)
        detector = self._by_kind.get(row.finds[0].kind) if row is not None else None
        return detector is not None and detector.verdict()[0] is Verdict.BREACHED

    def over(self, kind: Kind, metric: str) -> str:
        """What shows that a finding of this kind is over, by what its detector measures; empty where that is not known."""
        row = MAKER_OF.get(kind)
        detector = self._by_kind.get(row.finds[0].kind) if row is not None else None
        return detector.over(kind, metric, self._now_s) if detector is not None else ""

    def lacks_room(self, now_s: float) -> str:
        """Why an attempt launched now could not save; empty where it could, or that is not known."""
        detector = self._by_kind.get(DISK_FULL)
        return detector.lacks_room(self._clock(now_s)) if isinstance(detector, DiskFull) else ""

    def disks(self, now_s: float) -> tuple[DiskReading, ...]:
        """The filesystems of the run as they were seen just now."""
        detector = self._by_kind.get(DISK_FULL)
        return detector.seen(self._clock(now_s)) if isinstance(detector, DiskFull) else ()

    def room_of(self, steps: Sequence[int]) -> str:
        """What the checkpoints of these steps take on their disk, in words, as far as it was seen."""
        detector = self._by_kind.get(DISK_FULL)
        return detector.room_of(steps) if isinstance(detector, DiskFull) else "the room"

    def back_since(self, metric: str, top: float, from_step: int) -> int | None:
        """Since when the metric stands below `top` again; None when it does not."""
        return back_since(self._series, metric, top, from_step)

    def verdicts(self, blind: Mapping[str, str] = NOT_BLIND) -> Standing:
        """Every detector's verdict and reason, for status. `blind`: reason by source that cannot be seen; a stream that is
        quiet while ranks go on is not seen either."""
        gap = self._stream_gap
        blind = {"metrics": f"the stream is quiet: {gap}", **blind} if gap is not None else blind
        view = DetectorView(self._series, blind, self._run.is_alive, self._run.has_beats, self._quiet_until)
        return judge_standing(self._by_kind, self._off, view)

    def _explained(self, finding: Finding, now_s: float) -> Finding:
        """A crash or a hang with what the hardware said just before, which is then where its cause lies, and the rank that points
        at where nobody is blamed."""
        if not FINDS[finding.kind].is_explained:
            return finding
        words, rank = next((one for one in (d.explain(now_s) for d in self._detectors) if one[0]), ("", None))
        if not words:
            return finding
        blamed = finding.blamed_rank if finding.blamed_rank is not None else rank
        return replace(finding, reason=f"{finding.reason}; just before: {words}", blamed_rank=blamed, outside=True)

    def _cut(self, attempt: int, resume_step: int) -> None:
        """Everything learned is forgotten, the pace excepted."""
        run = self._run
        self._quiet_until = resume_step + self._grace_steps if resume_step else 0
        self._cut_step = resume_step
        self._series.begin(resume_step)
        run.pace.begin()
        run.loss_blocks.clear()
        run.rate = None
        self._lines = NO_LINES
        self._rate.begin()
        for feed in self._feeds:
            feed.fives.clear()
        start = Start(attempt, resume_step, self._quiet_until)
        for detector in self._detectors:
            detector.begin(start)

    def _newest_of(self, metric: str) -> float | None:
        newest = self._series.newest(metric, 1)
        return newest[-1][1] if newest else None

    def _change_settings(self, step: int, moved: frozenset[str], *, risen: bool) -> None:
        """Other settings from this step on: the level may jump. A rate that rose excuses a bump and a new, higher best, as a
        resume does; after one that fell the loss can only be expected to fall, and the past stays a fair measure."""
        self._cut_step = max(self._cut_step, step - 1)
        if risen:
            self._quiet_until = step + max(self._grace_steps, GRACE_ROWS * self._series.interval_steps)
        for detector in self._detectors:
            detector.change_settings(self._quiet_until if risen else None, moved)

    def _end(self) -> None:
        self._run.is_alive = False
        for detector in self._detectors:
            detector.end()

    def _clock(self, now_s: float) -> float:
        """Session time that never runs backwards, whatever the caller's clock does."""
        if now_s > self._now_s:
            self._now_s = now_s
        return self._now_s


def _built(tuned: Mapping[str, Any], run: WatchedRun) -> tuple[tuple[Detector, ...], frozenset[Kind]]:
    """The detectors that are on, in the registry's order, and the first kind of each that is off."""
    rows = [row for row in DETECTORS if row.build is not None]
    off = [row for row in rows if row.settings is not None and not tuned[row.name].enabled]
    built = [row.build(tuned.get(row.name), run) for row in rows if row.build is not None and row not in off]
    return tuple(one for one in built if one is not None), frozenset(row.finds[0].kind for row in off)


def _overriding(detectors: Iterable[Detector], call: str) -> Sequence[Detector]:
    return [detector for detector in detectors if getattr(type(detector), call) is not getattr(Detector, call)]
