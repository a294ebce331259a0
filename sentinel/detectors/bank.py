"""DetectorBank: every detector of a run behind one object. The engine tells it what was read, and asks how things stand.

Three parts: `numbers` (row by row), `liveness` (by the clock and the heartbeats), `gpu_fault` (the machine).
Readings of another attempt than the current one are ignored: they come from a past that was abandoned.
Nothing here is decided by the wall: `now_s` is the supervisor's session time and never runs backwards inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from sentinel.detectors.bands import back_since, judge_newest, top_of_band
from sentinel.detectors.behind_reference import Reference
from sentinel.detectors.contract import DetectorSettings
from sentinel.detectors.crash import Ended, Ending, Failed, judge_exit
from sentinel.detectors.expression import Expressions
from sentinel.detectors.gpu_fault import GpuFault
from sentinel.detectors.hold import Hold
from sentinel.detectors.liveness import Liveness
from sentinel.detectors.numbers import Numbers
from sentinel.detectors.onset import Dated
from sentinel.detectors.standing import Standing, View, judge_standing, needs_of
from sentinel.model.attempts import ExitReport, SampleRange
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import (
    CheckpointReading,
    HardwareReading,
    Heartbeat,
    LogTail,
    Receipt,
    SourceReading,
    StepReading,
    TrainerNote,
)
from sentinel.streams.baseline import Level

SLOW_PHASES = ("init", "compile", "eval", "checkpoint")
TAILS_KEPT = 64
HARDWARE_SOURCES = ("nvml", "kernel_log")
WARNED: tuple[Kind, ...] = (
    Kind.SPIKE, Kind.DRIFT, Kind.TOO_GOOD, Kind.BEHIND_REFERENCE, Kind.STRAGGLER, Kind.SLOWDOWN, Kind.STALE_CHECKPOINT,
    Kind.HARDWARE_WARNING,
)  # fmt: skip
DEFAULT_SEVERITY: dict[Kind, Severity] = dict.fromkeys(WARNED, "warning")
NOT_BLIND: Mapping[str, str] = MappingProxyType({})


class DetectorBank:
    """What the engine senses a run with. Pure: the same calls give the same answers."""

    def __init__(
        self,
        settings: DetectorSettings,
        holds: Mapping[Kind, Hold],
        severities: Mapping[Kind, Severity],
        reference: Reference | None = None,
        expressions: Expressions | None = None,
    ) -> None:
        def severity(kind: Kind) -> Severity:
            return severities.get(kind, DEFAULT_SEVERITY.get(kind, "critical"))

        self._severity = severity
        self._numbers = Numbers(settings, holds.get(Kind.SPIKE, Hold()), severity, reference, expressions)
        self._series = self._numbers.series
        self._liveness = Liveness(settings, holds.get(Kind.HANG, Hold()), severity)
        self._gpu_fault = GpuFault(settings.gpu_fault, severity)
        self._needs = needs_of(settings)
        self._attempt: int | None = None
        self._now_s = float("-inf")
        self._tails: dict[int | None, tuple[str, ...]] = {}

    # What was read.

    def begin_attempt(self, attempt: int, now_s: float) -> None:
        """Launched (or adopted), nothing heard yet. Everything learned is cut, the pace excepted."""
        self._attempt = attempt
        self._tails.clear()
        self._cut(attempt, 0)
        self._liveness.begin(attempt, self._clock(now_s))
        self._gpu_fault.begin(attempt, self._clock(now_s))

    def receipt(self, receipt: Receipt, now_s: float) -> None:
        """The trainer's proof: cut, then learn the surviving past, without findings. All of it is read from this receipt alone,
        so that a restarted supervisor, who never saw the previous one, agrees."""
        if receipt.attempt != self._attempt:
            return
        self._cut(receipt.attempt, receipt.resume_step)
        history = tuple(reading for reading in receipt.history if reading.step <= receipt.resume_step)
        self._numbers.seed(receipt, history)
        self._gpu_fault.ranks(receipt.world_size)
        self._liveness.receipt(receipt, history, self._clock(now_s))

    def step(self, reading: StepReading, now_s: float) -> tuple[Finding, ...]:
        """One optimizer step. A step seen before changes nothing."""
        if reading.attempt != self._attempt:
            return ()
        covered = self._series.add(reading)
        if not covered:
            return ()
        now_s = self._now_s = now_s if now_s > self._now_s else self._now_s  # as `_clock`, without a call
        found = self._numbers.step(reading, covered, now_s)
        paced = self._liveness.step(reading, now_s)
        if paced is not None:
            found.append(paced)
        return tuple(found) if found else ()

    def heartbeat(self, beat: Heartbeat, now_s: float) -> None:
        if beat.attempt != self._attempt:
            return
        if beat.phase in SLOW_PHASES:
            self._numbers.pace.interrupt()
        self._liveness.heartbeat(beat, self._clock(now_s))

    def note(self, note: TrainerNote, now_s: float) -> None:
        """Overrides applied live cut the level, as a receipt with overrides does."""
        if note.attempt != self._attempt:
            return
        if note.event == "override_applied":
            self._numbers.cut_level(self.newest_step + 1, risen=False)
        self._liveness.note(note, self._clock(now_s))

    def checkpoint(self, reading: CheckpointReading, now_s: float) -> None:
        """A committed checkpoint was seen; those of other attempts are the past that was resumed from."""
        if reading.attempt in (0, self._attempt):
            self._liveness.checkpoint(reading, self._clock(now_s))

    def log_tail(self, tail: LogTail) -> None:
        """The end of a log, told just before the exit it may explain."""
        if tail.attempt == self._attempt and (tail.rank in self._tails or len(self._tails) < TAILS_KEPT):
            self._tails[tail.rank] = tail.lines

    def hardware(self, reading: HardwareReading, now_s: float) -> None:
        """What the machine says of itself; what it means comes with `hardware_tick`."""
        self._gpu_fault.hear(reading, self._clock(now_s))

    def source(self, reading: SourceReading) -> None:
        """Who cannot look cannot call anything healthy."""
        if reading.source in HARDWARE_SOURCES:
            self._gpu_fault.source(reading.source, reading.ok, reading.reason)

    def end_attempt(self) -> None:
        """The attempt's processes are gone: silence is natural from here on."""
        self._liveness.end()

    def tick(self, now_s: float, *, sees_checkpoints: bool = True) -> tuple[Finding, ...]:
        """Time passed: is it hanging, does one rank lag, are checkpoints missing? At most one finding of each per episode."""
        now_s = self._clock(now_s)
        pace = (self.newest_step, self.step_time_s, self._series.interval_steps)
        hanging, paced = self._liveness.tick(now_s, *pace, sees_checkpoints=sees_checkpoints)
        return (self._explained(hanging, now_s), *paced) if hanging is not None else (*paced,)

    def hardware_tick(self, now_s: float) -> tuple[Finding, ...]:
        """Sick hardware that is certain by now; needs no sight of the trainer."""
        return self._gpu_fault.tick(self._clock(now_s), self.newest_step)

    def exit(self, report: ExitReport, *, finished: bool, stop_requested: bool, now_s: float, has_trained: bool = False) -> Ended:
        """Why the attempt ended. `has_trained`: the run has made a step before, in whatever attempt."""
        assert self._attempt is not None, "no attempt was begun"
        self._liveness.hang.end()
        newest, at_s, onset = self.newest_step, self._clock(now_s), self._numbers.non_finite.onset_step
        ending = Ending(self._attempt, newest, at_s, finished, stop_requested, onset, has_trained)
        ended = judge_exit(report, ending, self._severity(Kind.CRASH), self._severity(Kind.NON_FINITE), self._tails)
        return Failed(self._explained(ended.finding, now_s)) if isinstance(ended, Failed) else ended

    # How things stand.

    @property
    def newest_step(self) -> int:
        """Newest step of the attempt; the resumed step before its first; 0 before its receipt."""
        return self._series.newest_step

    @property
    def step_time_s(self) -> float | None:
        """Learned seconds per optimizer step; None while unknown."""
        return self._numbers.pace.step_time_s

    @property
    def ignored_readings(self) -> int:
        """Step readings of this run that changed nothing: steps seen before, or older than the newest."""
        return self._series.repeated + self._series.late

    @property
    def samples_per_step(self) -> int | None:
        return self._series.samples_per_step

    def samples_of(self, step: int) -> tuple[SampleRange, ...] | None:
        """Data the step consumed; also of history steps before the resume. None when not logged or too old."""
        return self._series.samples_of(step)

    def level(self, metric: str, after_step: int, up_to_step: int | None = None) -> Level | None:
        """Median and MAD over after_step < step <= up_to_step, clean or not; non-finite counts as infinitely high."""
        return self._series.level(metric, after_step, up_to_step)

    def pre_breach(self, metric: str) -> Level | None:
        """The band just before the newest breach of this attempt; None when there was none."""
        watch = self._numbers.spike.watches.get(metric)
        return None if watch is None else watch.pre_breach

    def date_onset(self, finding: Finding) -> Dated | None:
        """Where the finding's trouble began by the earliest co-signal; None where the finding's own onset stands."""
        return self._numbers.date_onset(finding)

    def still_true(self, kind: Kind, alert: str) -> str:
        """Why it cannot have healed, whatever the loss says; empty when it may have, or that is not known."""
        return self._numbers.still_true(kind, alert)

    def is_above_band(self, metric: str, pre: Level, ratio: float) -> Verdict:
        """Do the newest rows stand, by their median, above `pre` by more than ratio and its noise?"""
        return judge_newest(self._series, metric, top_of_band(pre.median, pre.mad, ratio))

    def back_since(self, metric: str, top: float, from_step: int) -> int | None:
        """Since when the metric stands below `top` again; None when it does not."""
        return back_since(self._series, metric, top, from_step)

    def verdicts(self, blind: Mapping[str, str] = NOT_BLIND) -> Standing:
        """Every detector's verdict and reason, for status. `blind`: reason by source that cannot be seen; a stream that is
        quiet while ranks go on is not seen either."""
        hang, gap = self._liveness.hang, self._liveness.stream_gap
        blind = {"metrics": f"the stream is quiet: {gap}", **blind} if gap is not None else blind
        view = View(self._series, blind, hang.is_alive, hang.has_beats, self._numbers.quiet_until, self._needs)
        return judge_standing((*self._numbers.all, hang, *self._liveness.own_pace.all, self._gpu_fault), view)

    @property
    def stream_gap(self) -> str | None:
        """Why the stream says nothing although ranks go on; None while it speaks."""
        return self._liveness.stream_gap

    def _explained(self, finding: Finding, now_s: float) -> Finding:
        """A crash or a hang with what the hardware said just before, which is then where its cause lies, and the rank that points
        at where nobody is blamed."""
        said, rank = self._gpu_fault.explain(self._clock(now_s))
        if not said or finding.kind is Kind.NON_FINITE:
            return finding
        blamed = finding.blamed_rank if finding.blamed_rank is not None else rank
        return replace(finding, reason=f"{finding.reason}; just before: {said}", blamed_rank=blamed, outside=True)

    def _cut(self, attempt: int, resume_step: int) -> None:
        quiet_until = self._numbers.begin(attempt, resume_step)
        self._liveness.own_pace.begin(attempt, resume_step, quiet_until)

    def _clock(self, now_s: float) -> float:
        """Session time that never runs backwards, whatever the caller's clock does."""
        if now_s > self._now_s:
            self._now_s = now_s
        return self._now_s
