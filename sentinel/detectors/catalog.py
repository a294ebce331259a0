"""Senses: every detector of a run behind one object. The engine tells it what was read, and asks how things stand.

Order of a step: the series decides whether it is new, the pace learns, non-finite values are judged first, then spikes, then
what is slow.
Readings of another attempt than the current one are ignored: they come from a past that was abandoned.
Nothing here is decided by the wall: `now_s` is the supervisor's session time and never runs backwards inside.
"""

from __future__ import annotations

from collections.abc import Mapping

from sentinel.detectors.contract import DetectorSettings
from sentinel.detectors.crash import Ended, Ending, judge_exit
from sentinel.detectors.hang import Hang
from sentinel.detectors.hold import Hold
from sentinel.detectors.non_finite import NonFinite
from sentinel.detectors.own_pace import OwnPace
from sentinel.detectors.slow import Slow
from sentinel.detectors.spike import Spike
from sentinel.detectors.stream_gap import judge_stream_gap
from sentinel.model.attempts import ExitReport, SampleRange
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import CheckpointReading, Heartbeat, LogTail, Receipt, StepReading, TrainerNote
from sentinel.streams.baseline import MAD_TO_SIGMA, Level
from sentinel.streams.pace import Pace
from sentinel.streams.series import Series

SLOW_PHASES = ("init", "compile", "eval", "checkpoint")
BAND_ROWS = 5
TAILS_KEPT = 64
BAND_SIGMAS = 3.0
WARNED: tuple[Kind, ...] = (Kind.SPIKE, Kind.DRIFT, Kind.TOO_GOOD, Kind.STRAGGLER, Kind.SLOWDOWN, Kind.STALE_CHECKPOINT)
DEFAULT_SEVERITY: dict[Kind, Severity] = dict.fromkeys(WARNED, "warning")


class Senses:
    """What the engine senses a run with. Pure: the same calls give the same answers."""

    def __init__(self, settings: DetectorSettings, holds: Mapping[Kind, Hold], severities: Mapping[Kind, Severity]) -> None:
        def severity(kind: Kind) -> Severity:
            return severities.get(kind, DEFAULT_SEVERITY.get(kind, "critical"))

        self._severity = severity
        self._series = Series(dict.fromkeys((*settings.spike.metrics, "loss", "grad_norm", "val_loss")))
        self._pace = Pace()
        self._non_finite = NonFinite(settings.non_finite, severity(Kind.NON_FINITE))
        self._spike = Spike(settings.spike, holds.get(Kind.SPIKE, Hold()), severity(Kind.SPIKE))
        self._slow = Slow(settings, severity)
        self._grace_steps = settings.grace_steps
        self._hang = Hang(settings.hang, holds.get(Kind.HANG, Hold()), severity(Kind.HANG))
        self._own_pace = OwnPace(settings, severity)
        self._line_s = float("-inf")
        self._stream_gap: str | None = None
        self._attempt: int | None = None
        self._world_size: int | None = None
        self._now_s = float("-inf")
        self._tails: dict[int | None, tuple[str, ...]] = {}

    # What was read.

    def begin_attempt(self, attempt: int, now_s: float) -> None:
        """Launched (or adopted), nothing heard yet. Everything learned is cut, the pace excepted."""
        self._attempt = attempt
        self._tails.clear()
        self._cut(0)
        self._line_s = self._clock(now_s)
        self._stream_gap = None
        self._hang.begin(attempt, self._clock(now_s))

    def receipt(self, receipt: Receipt, now_s: float) -> None:
        """The trainer's proof: cut, then learn the surviving past, without findings.

        Where `lr_scale` or `clip_norm` is overridden, the past's level counts less and only its newest samples are kept.
        That is read from this receipt alone, so that a restarted supervisor, who never saw the previous one, agrees.
        """
        if receipt.attempt != self._attempt:
            return
        quiet_until = receipt.resume_step + self._grace_steps if receipt.resume_step else 0
        self._cut(receipt.resume_step, quiet_until)
        if self._world_size not in (None, receipt.world_size):
            self._pace.forget()
        self._world_size = self._hang.ranks_expected = receipt.world_size
        history = tuple(reading for reading in receipt.history if reading.step <= receipt.resume_step)
        self._series.seed(history, receipt.resume_step)
        for reading in history:
            self._pace.add(reading.step, reading.time_s)
        self._pace.begin()
        overrides = receipt.overrides
        changed = overrides.get("lr_scale") not in (None, 1, 1.0) or overrides.get("clip_norm") is not None
        self._spike.seed(history, settings_changed=changed)
        self._slow.seed(history, receipt.resume_step)
        self._own_pace.receipt(receipt, history)
        self._line_s = self._clock(now_s)
        self._hang.progress(self._clock(now_s))

    def step(self, reading: StepReading, now_s: float) -> tuple[Finding, ...]:
        """One optimizer step. A step seen before changes nothing."""
        if reading.attempt != self._attempt:
            return ()
        covered = self._series.add(reading)
        if not covered:
            return ()
        now_s = self._clock(now_s)
        self._pace.add(reading.step, reading.time_s)
        self._hang.progress(now_s, step_done=True)
        self._line_s = now_s
        found = self._non_finite.step(reading, now_s)
        spikes = self._spike.step(reading, covered, now_s)
        slow = self._slow.step(reading, now_s, spiking=self._spike.is_firing)
        paced = self._own_pace.step(reading, now_s)
        if paced is not None:
            slow.append(paced)
        return (*found, *spikes, *slow) if found or spikes or slow else ()

    def heartbeat(self, beat: Heartbeat, now_s: float) -> None:
        if beat.attempt != self._attempt:
            return
        if beat.phase in SLOW_PHASES:
            self._pace.interrupt()
        now_s = self._clock(now_s)
        self._hang.beat(beat.rank, beat.step, beat.phase, now_s)
        self._own_pace.heartbeat(beat, now_s)

    def note(self, note: TrainerNote, now_s: float) -> None:
        """An event line is progress; overrides applied live cut the level, as a receipt with overrides does."""
        if note.attempt != self._attempt:
            return
        if note.event == "override_applied":
            self._spike.cut_level()
        self._own_pace.note(note, self._clock(now_s))
        self._hang.progress(self._clock(now_s))

    def checkpoint(self, reading: CheckpointReading, now_s: float) -> None:
        """A committed checkpoint was seen; those of other attempts are the past that was resumed from."""
        if reading.attempt in (0, self._attempt):
            self._own_pace.checkpoint(reading, self._clock(now_s))

    def log_tail(self, tail: LogTail) -> None:
        """The end of a log, told just before the exit it may explain."""
        if tail.attempt == self._attempt and (tail.rank in self._tails or len(self._tails) < TAILS_KEPT):
            self._tails[tail.rank] = tail.lines

    def end_attempt(self) -> None:
        """The attempt's processes are gone: silence is natural from here on."""
        self._hang.end()
        self._stream_gap = None

    def tick(self, now_s: float, *, sees_checkpoints: bool = True) -> tuple[Finding, ...]:
        """Time passed: is it hanging, does one rank lag, are checkpoints missing? At most one finding of each per episode."""
        now_s, newest, step_time_s = self._clock(now_s), self.newest_step, self.step_time_s
        hanging = self._hang.tick(now_s, newest, step_time_s, self._series.interval_steps)
        if not self._hang.is_alive:
            return ()
        quiet_s, limit_s = now_s - self._line_s, self._hang.longest_silence_s
        steps_per_line = self._series.interval_steps
        self._stream_gap = judge_stream_gap(self._hang.furthest_step, newest, steps_per_line, quiet_s, limit_s)
        ranks = self._hang.ranks_expected
        paced = self._own_pace.tick(now_s, newest, ranks, step_time_s, sees_checkpoints=sees_checkpoints)
        return (hanging, *paced) if hanging is not None else (*paced,)

    def exit(
        self, report: ExitReport, *, finished: bool, stop_requested: bool, now_s: float, has_trained: bool = False
    ) -> Ended:
        """Why the attempt ended. `has_trained`: the run has made a step before, in whatever attempt."""
        assert self._attempt is not None, "no attempt was begun"
        self._hang.end()
        newest, now_s, onset = self.newest_step, self._clock(now_s), self._non_finite.onset_step
        ending = Ending(self._attempt, newest, now_s, finished, stop_requested, onset, has_trained)
        return judge_exit(report, ending, self._severity(Kind.CRASH), self._severity(Kind.NON_FINITE), self._tails)

    # How things stand.

    @property
    def newest_step(self) -> int:
        """Newest step of the attempt; the resumed step before its first; 0 before its receipt."""
        return self._series.newest_step

    @property
    def step_time_s(self) -> float | None:
        """Learned seconds per optimizer step; None while unknown."""
        return self._pace.step_time_s

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
        watch = self._spike.watches.get(metric)
        return None if watch is None else watch.pre_breach

    def is_above_band(self, metric: str, pre: Level, ratio: float) -> Verdict:
        """Do the newest `BAND_ROWS` readings stand, by their median, above `pre` by more than ratio and its noise?"""
        rows = self._series.newest(metric, BAND_ROWS)
        if not rows:
            return Verdict.UNKNOWN
        if rows[-1][1] - rows[-1][1] != 0.0:
            return Verdict.BREACHED
        values = sorted(value if value - value == 0.0 else float("inf") for _, value in rows)
        top = pre.median + max(ratio * abs(pre.median), BAND_SIGMAS * MAD_TO_SIGMA * pre.mad)
        return Verdict.BREACHED if values[len(values) // 2] > top else Verdict.HEALTHY

    @property
    def stream_gap(self) -> str | None:
        """Why the stream says nothing although ranks go on; None while it speaks."""
        return self._stream_gap

    def verdicts(self) -> Mapping[Kind, tuple[Verdict, str]]:
        """Every detector's verdict and reason, for status. What lives by the stream is unknown while that is quiet."""
        by_stream = (self._non_finite, self._spike, *self._slow.all)
        if self._stream_gap is not None:
            unseen = {d.kind: (Verdict.UNKNOWN, f"the stream is quiet: {self._stream_gap}") for d in by_stream}
        else:
            unseen = {d.kind: d.verdict() for d in by_stream}
        return unseen | {d.kind: d.verdict() for d in (self._hang, *self._own_pace.all)}

    def _cut(self, resume_step: int, quiet_until: int = 0) -> None:
        attempt = self._attempt or 0
        self._series.begin(resume_step)
        self._pace.begin()
        self._non_finite.begin(attempt)
        self._spike.begin(attempt, quiet_until=quiet_until)
        self._slow.begin(attempt, quiet_until)
        self._own_pace.begin(attempt, resume_step, quiet_until)

    def _clock(self, now_s: float) -> float:
        """Session time that never runs backwards, whatever the caller's clock does."""
        self._now_s = max(self._now_s, now_s)
        return self._now_s
