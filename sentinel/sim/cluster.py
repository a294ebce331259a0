"""What a cluster does to a simulated run: its scheduler starts nothing for a while, and ranks on other machines outlive the
launcher's part of their attempt, unseen."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from sentinel.sim.faults import Fault
from sentinel.sim.processes import Job, NoProgram
from sentinel.sim.world import World

REFUSAL = "srun: error: Unable to confirm allocation for job 71: Unable to contact slurm controller (connect failure)"
REFUSED_AFTER_S = 0.3  # srun leaves by itself


@dataclass
class SimScheduler:
    """`left`: so many launches are refused from now on. `how`: `start`, the launcher itself is told; `launch`, the attempt is
    launched, and its log says it."""

    left: float = 0.0
    how: str = ""

    def fail(self, fault: Fault) -> None:
        times = fault.number("times")
        self.left, self.how = times if times > 0 else inf, fault.options["how"]

    def refuses(self) -> str:
        """How this launch is refused; empty where it is not."""
        if self.left <= 0:
            return ""
        self.left -= 1
        return self.how


def refused_job(world: World, attempt: int) -> Job:
    """A command that ends at once: no rank of it ever runs."""
    job = Job(world, attempt, NoProgram(), 1, printed=(REFUSAL, "srun: Job step aborted"))
    job.start()
    world.after(REFUSED_AFTER_S, lambda: job.leave(0, 1, records=False))
    return job


def make_unseen(world: World, job: Job, hosts: tuple[str, ...], fault: Fault) -> None:
    """The launcher's client dies, now or when the attempt is stopped, and so does every rank on its machine. The others hang, and
    leave after a while; for 0 s: never."""
    if len(set(hosts)) < 2:
        return

    def lose() -> None:
        job.lose_client({rank: host for rank, host in enumerate(hosts) if host != hosts[0]})
        if (seconds := fault.number("for")) > 0:
            world.after(seconds, job.release)

    if fault.options["how"] == "stop":
        job.outlives_stop = lose
    else:
        lose()
