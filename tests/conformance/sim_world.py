"""The simulated launcher's world: the same jobs as processes of a `sentinel.sim` world, where waiting is advancing its clock."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from sentinel.model.attempts import AttemptSpec, AttemptView, SettingsInForce
from sentinel.sim.launcher import SimLauncher
from sentinel.sim.processes import Job as SimJob
from sentinel.sim.world import World as Universe
from tests.conformance.launcher_world import DEADLINE_S, Job

BEAT_S = 0.05
PROGRAM = "rank_double.py"


class Double:
    """The trainer double of rank_double.py: beats, waits, leaves as told."""

    def __init__(self, job: Job, universe: Universe) -> None:
        self._told = job
        self._universe = universe
        self.signalled: set[int] = set()

    def begin(self, job: SimJob) -> None:
        self._job = job
        if self._told.beats:
            self._universe.after(BEAT_S, lambda: job.beating.update(job.living_ranks))

    def on_signal(self, rank: int, number: int) -> bool:
        if number == signal.SIGUSR1:
            self.signalled.add(rank)
            return True
        return number == signal.SIGTERM and self._told.ignores_sigterm

    def on_death(self, rank: int) -> None:
        """Its exit value says it all."""

    def on_peer_lost(self, rank: int) -> None:
        """It is in no collective and notices nothing."""

    def leave(self) -> None:
        for rank in self._job.living_ranks:
            code = self._told.leave_with.get(str(rank), self._told.leave_with.get("all", 0))
            error = None if code in (0, 6) else f"left with {code}"
            self._job.leave(rank, code, error, records=self._told.records)


class SimWorld:
    """Implements `tests.conformance.launcher_world.World`."""

    def __init__(self, run_dir: Path) -> None:
        self.universe = Universe(seed=1)
        self._told: dict[int, Job] = {}

    def launcher(self) -> SimLauncher:
        return SimLauncher(self.universe, self._make)

    def observe(self, attempt: int) -> AttemptView:
        return self.launcher().observe(attempt)

    def _make(self, spec: AttemptSpec) -> SimJob | None:
        if spec.argv[0] != PROGRAM:
            return None
        told = self._told[spec.attempt]
        double = Double(told, self.universe)
        return SimJob(self.universe, spec.attempt, double, told.ranks, told.helpers)

    def spec(self, attempt: int, job: Job) -> AttemptSpec:
        self._told.setdefault(attempt, job)
        return AttemptSpec(attempt, (PROGRAM,), "/", None, SettingsInForce())

    def bad_spec(self, attempt: int) -> AttemptSpec:
        return AttemptSpec(attempt, ("/no/such/program",), "/", None, SettingsInForce())

    def start_and_die(self, spec: AttemptSpec) -> None:
        self.launcher().ensure_started(spec)

    def until_running(self, attempt: int, job: Job) -> None:
        self.universe.advance(2 * BEAT_S, wakes=False)
        assert not job.beats or len(self.universe.jobs[attempt].beating) == job.ranks

    def until_view(self, attempt: int, kind: type[Any], deadline_s: float = DEADLINE_S) -> Any:
        end_s = self.universe.now_s + deadline_s
        while not isinstance(view := self.launcher().observe(attempt), kind):
            assert self.universe.now_s < end_s, f"waited {deadline_s:g} s for {kind.__name__}, not {view}"
            self.universe.advance(0.1, wakes=False)
        return view

    def let_leave(self, attempt: int) -> None:
        self._double(attempt).leave()

    def _double(self, attempt: int) -> Double:
        program = self.universe.jobs[attempt].program
        assert isinstance(program, Double)
        return program

    def signal_rank(self, attempt: int, rank: int, signal_number: int) -> None:
        job = self.universe.jobs[attempt]
        job.send(job.rank_process(rank).pid, signal_number)

    def signal_keeper(self, attempt: int, signal_number: int) -> None:
        self.universe.jobs[attempt].signal_keeper(signal_number)

    def signalled(self, attempt: int, ranks: int) -> None:
        assert len(self._double(attempt).signalled) == ranks

    def starts(self, attempt: int) -> int:
        return sum(change.what == "start" and change.attempt == attempt for change in self.universe.world_changes)

    def living(self, attempt: int) -> list[int]:
        job = self.universe.jobs.get(attempt)
        return [] if job is None else [pid for pid in job.pids if job.processes[pid].role != "helper"]

    def close(self) -> None:
        for attempt in list(self.universe.jobs):
            self.launcher().ensure_stopped(attempt)
            self.universe.advance(1.0, wakes=False)
            assert not self.universe.jobs[attempt].is_living
        assert os.getpid() not in {pid for job in self.universe.jobs.values() for pid in job.pids}
