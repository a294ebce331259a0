"""What is judged by the clock and the heartbeats: hanging, the run's own pace, and a stream that fell silent, as one.

The senses tell it every reading; it keeps when the stream last said anything, and answers `tick`.
"""

from __future__ import annotations

from collections.abc import Callable

from sentinel.detectors.contract import DetectorSettings
from sentinel.detectors.hang import Hang
from sentinel.detectors.hold import Hold
from sentinel.detectors.own_pace import OwnPace
from sentinel.detectors.stream_gap import judge_stream_gap
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.readings import CheckpointReading, Heartbeat, Receipt, StepReading, TrainerNote


class Liveness:
    """`stream_gap`: why the stream says nothing although ranks go on; None while it speaks."""

    def __init__(self, settings: DetectorSettings, hold: Hold, severity: Callable[[Kind], Severity]) -> None:
        self.hang = Hang(settings.hang, hold, severity(Kind.HANG))
        self.own_pace = OwnPace(settings, severity)
        self.stream_gap: str | None = None
        self._line_s = float("-inf")

    def begin(self, attempt: int, now_s: float) -> None:
        self._line_s = now_s
        self.stream_gap = None
        self.hang.begin(attempt, now_s)

    def end(self) -> None:
        """The attempt's processes are gone: silence is natural from here on."""
        self.hang.end()
        self.stream_gap = None

    def receipt(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        self.hang.ranks_expected = receipt.world_size
        self.own_pace.receipt(receipt, history)
        self._line_s = now_s
        self.hang.progress(now_s)

    def step(self, reading: StepReading, now_s: float) -> Finding | None:
        self.hang.progress(now_s, step_done=True)
        self._line_s = now_s
        return self.own_pace.step(reading, now_s)

    def heartbeat(self, beat: Heartbeat, now_s: float) -> None:
        self.hang.beat(beat.rank, beat.step, beat.phase, now_s)
        self.own_pace.heartbeat(beat, now_s)

    def note(self, note: TrainerNote, now_s: float) -> None:
        """An event line is progress."""
        self.own_pace.note(note, now_s)
        self.hang.progress(now_s)

    def checkpoint(self, reading: CheckpointReading, now_s: float) -> None:
        self.own_pace.checkpoint(reading, now_s)

    def tick(
        self, now_s: float, newest_step: int, step_time_s: float | None, steps_per_line: int, *, sees_checkpoints: bool
    ) -> tuple[Finding | None, list[Finding]]:
        """A hang, and what is only told: one rank that lags, checkpoints that are missing. Each once per episode."""
        hanging = self.hang.tick(now_s, newest_step, step_time_s, steps_per_line)
        if not self.hang.is_alive:
            return None, []
        quiet_s, limit_s = now_s - self._line_s, self.hang.longest_silence_s
        self.stream_gap = judge_stream_gap(self.hang.furthest_step, newest_step, steps_per_line, quiet_s, limit_s)
        ranks = self.hang.ranks_expected
        return hanging, self.own_pace.tick(now_s, newest_step, ranks, step_time_s, sees_checkpoints=sees_checkpoints)
