"""What a supervisor can read of the simulated world, in the order and with the words of `telemetry.run_telemetry.RunTelemetry`.

A new instance, after a restart of the supervisor, reads the current attempt from its first line. A test writes simulated
worlds to real files and holds both to the same readings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sentinel.errors import GiveUp
from sentinel.launcher.contract import Launcher
from sentinel.model.attempts import AttemptView, Exited, Unseen
from sentinel.model.readings import CheckpointRead, Heartbeat, LauncherReading, LogTail, Reading, Receipt, StepReading
from sentinel.model.saved import ReadBack, SavedNumbers
from sentinel.sim.disk import SimDisk
from sentinel.sim.store import CHECKPOINT_BYTES, SimCheckpoint, SimStore
from sentinel.sim.stuck import RUNS, STOPPED, Observation, SimLife, SimSilentRanks
from sentinel.sim.trainer import SimTrainer
from sentinel.sim.world import World
from sentinel.telemetry.source import SourceHealth

POLL_EVERY_S = 0.5
HISTORY_LIMIT = 500
READ_BEHIND_S = 5.0

TrainerOf = Callable[[int], SimTrainer | None]


class SimTelemetry:
    """`lines_per_poll` bounds a poll as the real one's bound does. `trainer_of` gives an attempt's program, if it started.
    `reads_behind`: each new checkpoint is read whole behind training."""

    def __init__(
        self, world: World, launcher: Launcher, trainer_of: TrainerOf, lines_per_poll: int = 5000, reads_behind: bool = False
    ) -> None:
        self._world = world
        self._launcher = launcher
        self._trainer_of = trainer_of
        self._lines_per_poll = lines_per_poll
        self._reads_behind = reads_behind
        self._attempt = 0
        self._health_of = {name: SourceHealth(name) for name in ("launcher", "metrics", "heartbeats", "checkpoints")}
        self._known: dict[int, str] = {}
        self._store_version = -1
        self._delivered: set[str] = set()
        self._hardware_read = len(world.hardware)  # a look at the machine begins now
        self._disk = SimDisk(world)
        self.has_more = False

    def follow(self, attempt: int) -> None:
        if attempt == self._attempt:
            return
        self._attempt = attempt
        self._at_line = 0
        self._damaged = 0
        self._beat_version = 0
        self._beats: dict[int, tuple[int, str, float]] = {}
        self._lives: dict[int, SimLife] = {}
        self._silent = SimSilentRanks(attempt)
        self._view: AttemptView | None = None
        self._polled_s = float("-inf")
        self._job_version = self._seen_version = -1
        self._exit: LauncherReading | None = None
        self._store_version = -1
        self.has_more = False

    def poll_steps(self, now_s: float) -> list[Reading]:
        return self.poll(now_s)

    def poll(self, now_s: float) -> list[Reading]:
        out = self._read_inbox()
        out += self._world.hardware[self._hardware_read :]
        self._hardware_read = len(self._world.hardware)
        out += self._disk.poll(now_s)
        if not self._attempt:
            return out
        self._look(now_s, out)
        trainer = self._trainer_of(self._attempt)
        if self._sees("checkpoints", out) and self._world.store.version != self._store_version:
            self._store_version = self._world.store.version
            self._list_checkpoints(out)
        if self._sees("metrics", out) and trainer is not None:
            self._read_stream(trainer, out)
        if self._sees("heartbeats", out) and trainer is not None and trainer.output.beat_version != self._beat_version:
            self._beat_version = trainer.output.beat_version
            self._read_beats(trainer, out, now_s)
        if trainer is not None and self._exit is None:
            out += self._silent.poll(now_s, self._lives, partial(_observations, trainer))
        if self._exit is not None and not self.has_more:
            job = self._world.jobs[self._attempt]
            out += [LogTail(self._attempt, None, job.printed)] if job.printed else []
            out.append(self._exit)
            self._exit = None
        return out

    def _read_inbox(self) -> list[Reading]:
        """Each request once; removed at the next poll, when its answer is on disk."""
        inbox = self._world.inbox
        if not inbox and not self._delivered:
            return []
        inbox[:] = [request for request in inbox if request.id not in self._delivered]
        self._delivered = {request.id for request in inbox}
        return list(inbox)

    def _sees(self, source: str, out: list[Reading]) -> bool:
        health = self._health_of[source]
        if source in self._world.blind:
            out += health.lost("Stale file handle")
            return False
        if not health.sees:
            out += health.regained()
        return True

    def _look(self, now_s: float, out: list[Reading]) -> None:
        """The launcher's view when it is due and new; an exit is held back until everything is read."""
        job = self._world.jobs.get(self._attempt)
        version = -1 if job is None or job.report is None else job.version
        is_due = now_s - self._polled_s >= POLL_EVERY_S or version != self._job_version
        if not is_due or isinstance(self._view, Exited):
            return
        self._polled_s, self._job_version = now_s, version
        seen = -1 if job is None else job.version
        if self._view is not None and seen == self._seen_version and "launcher" not in self._world.blind:
            return  # nothing that a look could see has changed since the last
        self._seen_version = seen
        view = self._launcher.observe(self._attempt)
        if isinstance(view, Unseen) and not view.has_ended_here:
            self._view = None
            out += self._health_of["launcher"].lost(view.reason)
            return
        out += self._health_of["launcher"].regained()
        if view != self._view:
            self._view = view
            if isinstance(view, Exited):
                self._exit = LauncherReading(view)
            else:
                out.append(LauncherReading(view))

    def _read_stream(self, trainer: SimTrainer, out: list[Reading]) -> None:
        end = min(len(trainer.output.stream), self._at_line + self._lines_per_poll)
        if end == self._at_line:
            return
        for line in trainer.output.stream[self._at_line : end]:
            if line is None:
                self._damaged += 1
                if str(self._damaged).rstrip("0") == "1":
                    out += self._health_of["metrics"].remark(f"{self._damaged} damaged line(s) left out")
            elif isinstance(line, Receipt):
                history = self._history(trainer)
                ranks = trainer.shape.ranks if history else None
                out.append(replace(line, history=history, history_world_size=ranks))
            else:
                out.append(line)
        self._at_line = end
        self.has_more = end < len(trainer.output.stream)

    def _history(self, trainer: SimTrainer) -> tuple[StepReading, ...]:
        """The last steps of the surviving lineage before this attempt, oldest first."""
        found: list[StepReading] = []
        child: SimTrainer | None = trainer
        while child is not None and child.resumed is not None and len(found) < HISTORY_LIMIT:
            bound = child.resumed.step
            child = self._trainer_of(child.resumed.attempt)
            if child is None:
                break
            start = child.resumed.step if child.resumed else 0
            steps = [line for line in child.output.stream if isinstance(line, StepReading) and start < line.step <= bound]
            found = [*steps, *found]
        return tuple(found[-HISTORY_LIMIT:])

    def _read_beats(self, trainer: SimTrainer, out: list[Reading], now_s: float) -> None:
        for rank, beat in sorted(trainer.output.beats.items()):
            if self._beats.get(rank) != beat:
                self._beats[rank] = beat
                step, phase, time_s = beat
                self._lives[rank] = SimLife(step, now_s)
                out.append(Heartbeat(self._attempt, rank, step, phase, time_s, host=trainer.hosts[rank]))

    def _list_checkpoints(self, out: list[Reading]) -> None:
        committed = self._world.store.committed
        self._known = {step: digest for step, digest in self._known.items() if step in committed}
        for step in sorted(committed):
            found = committed[step]
            if self._known.get(step) != found.digest:
                self._known[step] = found.digest
                out.append(found.reading())
                if self._reads_behind:
                    out += self._read_behind(found)

    def _read_behind(self, found: SimCheckpoint) -> list[Reading]:
        try:
            return [read_whole(self._world.store, found.step, found.digest)]
        except OSError:
            return []  # it is tried again, later than a run of the simulator goes on


def read_whole(store: SimStore, step: int, digest: str) -> CheckpointRead:
    """What reading it beside the training finds. Raises OSError; GiveUp where it is not there any more."""
    found = store.committed.get(step)
    if found is None or found.digest != digest:
        raise GiveUp("it is not there as it was committed")
    is_whole, detail = store.verify(step)
    if not is_whole:
        return CheckpointRead(found.step, found.digest, None, detail)
    read = ReadBack("remembered", 1, CHECKPOINT_BYTES, 1, CHECKPOINT_BYTES, seconds=READ_BEHIND_S)
    return CheckpointRead(found.step, found.digest, SavedNumbers(detail, numbers=found.numbers, read=read))


def _observations(trainer: SimTrainer) -> dict[int, Observation]:
    """Of the ranks that live: a stopped process is one however it came to be."""
    known = trainer.stuck.observations if trainer.stuck is not None else {}
    found: dict[int, Observation] = {}
    for rank in trainer.job.living_ranks:
        found[rank] = STOPPED if trainer.job.is_stuck(rank) else known.get(rank, RUNS)
        if trainer.hosts[rank] != trainer.hosts[0]:
            found[rank] = found[rank]._replace(is_here=False)
    return found


def read_record(trainer_of: TrainerOf, attempt: int, first: int, last: int) -> dict[int, StepReading]:
    """What an attempt recorded of steps first..last, with the attempts it came from below it: what `telemetry.records` reads from
    files. Attempts that lie wholly below `first` are not looked at."""
    rows: dict[int, StepReading] = {}
    trainer = trainer_of(attempt)
    while trainer is not None:
        own = (line for line in trainer.output.stream if isinstance(line, StepReading))
        rows = {line.step: line for line in own if first <= line.step <= last} | rows
        if trainer.resumed is None or trainer.resumed.step < first:
            break
        last, trainer = min(last, trainer.resumed.step), trainer_of(trainer.resumed.attempt)
    return rows
