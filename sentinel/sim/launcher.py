"""The simulated launcher: `launcher.contract.Launcher` over the jobs of a `World`. It remembers nothing itself."""

from __future__ import annotations

from collections.abc import Callable

from sentinel.errors import EngineDown, GiveUp, NotYet, RetryLater
from sentinel.model.attempts import (
    Alive,
    AttemptSpec,
    AttemptView,
    Exited,
    ExitReport,
    NotStarted,
    Orphaned,
    RankElsewhere,
    Unseen,
)
from sentinel.sim.cluster import REFUSAL, SimScheduler, refused_job
from sentinel.sim.processes import Job, NoProgram
from sentinel.sim.world import World

RETRY_IN_S = 5.0

MakeJob = Callable[[AttemptSpec], Job | None]


class SimLauncher:
    """`make_job` turns a spec into the job it starts, None for a command that can never be started."""

    def __init__(self, world: World, make_job: MakeJob, scheduler: SimScheduler | None = None) -> None:
        self._world = world
        self._scheduler = scheduler or SimScheduler()
        self._make_job = make_job

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        job = self._world.jobs.get(spec.attempt)
        if job is None:
            self._see()
            how = self._scheduler.refuses()
            if how == "start":
                raise EngineDown(REFUSAL, RETRY_IN_S)
            if how == "launch":
                self._world.jobs[spec.attempt] = job = refused_job(self._world, spec.attempt)
                return self._view(job)
            made = self._make_job(spec)
            job = self._no_program(spec) if made is None else made
            self._world.jobs[spec.attempt] = job
            if job.can_start:
                job.start()
                self._world.record_change("start", f"attempt {spec.attempt}", f"start/{spec.attempt}", spec.attempt)
        if not job.can_start:
            assert job.report is not None
            raise GiveUp(job.report.reason)
        return self._view(job)

    def _no_program(self, spec: AttemptSpec) -> Job:
        job = Job(self._world, spec.attempt, NoProgram(), 1, can_start=False)
        job.report = ExitReport(None, (), None, f"{spec.argv[0]}: no such program")
        return job

    def ensure_stopped(self, attempt: int) -> AttemptView:
        self._see()
        job = self._world.jobs.get(attempt)
        if job is None:
            return NotStarted(attempt)
        if job.report is None and job.outlives_stop is not None:
            lose, job.outlives_stop = job.outlives_stop, None
            lose()
        if job.report is None and job.elsewhere:
            raise NotYet(self._unseen(job).reason, RETRY_IN_S)
        if job.report is None and job.stop_all():
            self._world.record_change("kill", f"attempt {attempt}", f"kill/{attempt}")
        return self._view(job)

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        job = self._world.jobs.get(attempt)
        if job is None:
            return 0
        return sum(job.send(job.rank_process(rank).pid, signal_number) for rank in job.living_ranks)

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        del with_processes  # they cost nothing here
        if "launcher" in self._world.blind:
            return Unseen(attempt, f"attempt {attempt} cannot be looked at: Input/output error")
        job = self._world.jobs.get(attempt)
        return NotStarted(attempt) if job is None else self._view(job)

    def _view(self, job: Job) -> AttemptView:
        if job.report is not None:
            return Exited(job.attempt, job.report)
        if job.elsewhere:
            return self._unseen(job)
        if not job.is_keeper_living:
            return Orphaned(job.attempt, job.pids, f"its keeper (pid {job.keeper_pid}) died without a report")
        return Alive(job.attempt, job.keeper_pid, job.pids)

    def _unseen(self, job: Job) -> Unseen:
        ranks = tuple(RankElsewhere(rank, host) for rank, host in sorted(job.elsewhere.items()))
        named = ", ".join(f"{one.rank} on {one.host}" for one in ranks)
        return Unseen(job.attempt, f"nothing proves that these ranks have ended: {named}", ranks, has_ended_here=True)

    def _see(self) -> None:
        if "launcher" in self._world.blind:
            raise RetryLater("the run directory cannot be looked at: Input/output error", RETRY_IN_S)
