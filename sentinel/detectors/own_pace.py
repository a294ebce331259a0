"""What is judged against the run's own pace and only told: slowdown, straggler, stale_checkpoint, as one."""

from __future__ import annotations

from collections.abc import Callable

from sentinel.detectors.contract import DetectorSettings
from sentinel.detectors.slowdown import Slowdown
from sentinel.detectors.stale_checkpoint import StaleCheckpoint
from sentinel.detectors.straggler import Straggler
from sentinel.model.findings import Finding, Kind, Severity
from sentinel.model.readings import CheckpointReading, Heartbeat, Receipt, StepReading, TrainerNote


class OwnPace:
    def __init__(self, settings: DetectorSettings, severity: Callable[[Kind], Severity]) -> None:
        self._slowdown = Slowdown(settings.slowdown, severity(Kind.SLOWDOWN))
        self._straggler = Straggler(settings.straggler, severity(Kind.STRAGGLER))
        self._stale = StaleCheckpoint(settings.stale_checkpoint, severity(Kind.STALE_CHECKPOINT))
        self.all = (self._slowdown, self._straggler, self._stale)

    def begin(self, attempt: int, resume_step: int, quiet_until: int) -> None:
        self._slowdown.begin(attempt, quiet_until=quiet_until)
        self._straggler.begin(attempt)
        self._stale.begin(attempt, resume_step)

    def receipt(self, receipt: Receipt, history: tuple[StepReading, ...]) -> None:
        """After `begin`. Rows of another world size tell nothing about the pace of this one."""
        self._stale.in_effect(receipt.effective)
        if receipt.history_world_size == receipt.world_size:
            self._slowdown.seed(history)

    def step(self, reading: StepReading, now_s: float) -> Finding | None:
        self._stale.step(reading, now_s)
        return self._slowdown.step(reading, now_s)

    def heartbeat(self, beat: Heartbeat, now_s: float) -> None:
        if beat.busy_s is not None:
            self._straggler.beat(beat.rank, beat.busy_step, beat.busy_s, now_s)
        self._stale.beat(beat.rank, beat.step, beat.phase)

    def note(self, note: TrainerNote, now_s: float) -> None:
        self._slowdown.pause()
        self._stale.note(note, now_s)

    def checkpoint(self, reading: CheckpointReading, now_s: float) -> None:
        self._stale.committed(reading.step, now_s)

    def tick(
        self, now_s: float, newest_step: int, ranks: int, step_time_s: float | None, *, sees_checkpoints: bool
    ) -> list[Finding]:
        found = (
            self._straggler.tick(now_s, newest_step, ranks, step_time_s),
            self._stale.tick(can_see=sees_checkpoints),
        )
        return [finding for finding in found if finding is not None]
