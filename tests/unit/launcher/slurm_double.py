"""A Slurm that does what the tests say: steps, nodes and clients in memory, time that passes only when somebody waits.

What it does not leave out: a step is created by a client, which lives on its own; a client holds its lock; a step whose processes
have ended may stay listed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.launcher.slurm.answers import JOB_COLUMNS, STEP_COLUMNS, Reply
from sentinel.launcher.slurm.calls import ClientPlace, SlurmClient
from sentinel.launcher.slurm.nodes import MARK
from sentinel.launcher.slurm.settings import SlurmSettings
from sentinel.launcher.slurm.steps import Passing, SlurmLauncher
from sentinel.model.attempts import AttemptSpec, SettingsInForce

JOB = "71"
DEAF = Reply(1, "", "slurm_get_job_steps error: Socket timed out on send/recv operation")
REFUSED = "srun: error: Unable to create step for job 71: Requested nodes are busy"


@dataclass
class StepDouble:
    """`living`: nodes on which it has processes. `stays`: it is listed though it has ended. `is_slow`: scancel has no effect."""

    id: str
    name: str
    nodes: list[str]
    state: str = "RUNNING"
    living: set[str] = field(default_factory=set)
    stays: bool = False
    is_slow: bool = False
    job: str = JOB


class ClientDouble:
    def __init__(self, lock: int) -> None:
        self._lock: int | None = os.dup(lock)
        self._status: int | None = None

    def poll(self) -> int | None:
        return self._status

    def kill(self) -> None:
        self.end(-9)

    def end(self, status: int = 0) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock, self._status = None, status


class SlurmDouble:
    """`on_start`: what a client does; by default it creates its step at once and lives for as long as that does."""

    def __init__(self, nodes: Sequence[str] = ("n1", "n2", "n3")) -> None:
        self.now_s = 0.0
        self.job_nodes, self.down, self.silent, self.drained = list(nodes), set[str](), set[str](), set[str]()
        self.job_state, self.booted = "RUNNING", "2026-01-01T00:00:00"
        self.forgotten = set[str]()  # jobs that the controller does not know any more
        self.listed: list[StepDouble] = [StepDouble(f"{JOB}.batch", "batch", [nodes[0]])]
        self.created: list[str] = []
        self.cancelled: list[tuple[str, int | None]] = []
        self.clients: dict[str, ClientDouble] = {}
        self.started_words: list[Sequence[str]] = []
        self.replies: list[Reply] = []  # given by `steps` before it looks
        self.is_deaf = False
        self.on_start: Callable[[SlurmDouble, str, ClientDouble, ClientPlace], None] = SlurmDouble.runs
        self.probes = 0
        self.later: list[Callable[[], None]] = []  # done when somebody waits

    # --- what clients do

    def runs(self, name: str, client: ClientDouble, place: ClientPlace) -> None:
        del client, place
        words = self.started_words[-1]
        nodes = words[words.index("--nodelist") + 1].split(",")
        self.created.append(name)
        self.listed.append(StepDouble(f"{JOB}.{len(self.created)}", name, nodes, living=set(nodes)))

    def runs_later(self, name: str, client: ClientDouble, place: ClientPlace) -> None:
        self.later.append(lambda: self.runs(name, client, place))

    def is_refused(self, name: str, client: ClientDouble, place: ClientPlace) -> None:
        del name
        with open(place.logs / "launcher.err", "a") as file:
            file.write(REFUSED + "\n")
        client.end(1)

    def waits(self, name: str, client: ClientDouble, place: ClientPlace) -> None:
        """For resources, as srun does without a limit."""

    # --- what becomes of steps

    def step(self, name: str) -> StepDouble:
        return next(step for step in self.listed if step.name == name)

    def end(self, name: str) -> None:
        step = self.step(name)
        step.living.clear()
        if not step.stays:
            self.listed.remove(step)
        self.clients[name].end()

    # --- SlurmCalls

    def steps(self, job: str) -> Reply:
        if self.replies:
            return self.replies.pop(0)
        return DEAF if self.is_deaf else Reply(0, "".join(map(step_line, self.listed)) if job == JOB else "")

    def job(self, job: str) -> Reply:
        if job in self.forgotten:
            return Reply(1, "", "slurm_load_jobs error: Invalid job id specified")
        widths = list(JOB_COLUMNS.values())
        cells = (job, self.job_state, ",".join(self.job_nodes))
        line = "".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)) + "\n"
        return DEAF if self.is_deaf else Reply(0, line)

    def controller(self) -> Reply:
        return Reply(0, f"AuthType = auth/munge\nBOOT_TIME               = {self.booted}\n")

    def cancel(self, step: str, signal_number: int | None = None) -> Reply:
        self.cancelled.append((step, signal_number))
        found = next((one for one in self.listed if one.id == step), None)
        if self.is_deaf:
            return DEAF
        if found is not None and signal_number in (None, 9) and not found.is_slow:
            found.living &= self.silent | self.down
            if not found.living and not found.stays:
                self.listed.remove(found)
            if found.name in self.clients:
                self.clients[found.name].end(143)
        return Reply(0)

    def hosts(self, nodes: str) -> Reply:
        return Reply(0, "".join(f"{node}\n" for node in nodes.split(",")))

    def node_states(self, nodes: str) -> Reply:
        words = {
            node: "DOWN*" if node in self.down else "MIXED+DRAIN" if node in self.drained else "MIXED"
            for node in nodes.split(",")
        }
        return (
            DEAF
            if self.is_deaf
            else Reply(0, "".join(f"NodeName={node} Arch=x State={word} Weight=1\n" for node, word in words.items()))
        )

    def check(self, job: str, nodes: Sequence[str], words: Sequence[str], timeout_s: float) -> Reply:
        raise AssertionError(f"no check is asked for here: {job} {nodes} {words} {timeout_s}")

    def probe(self, job: str, nodes: Sequence[str], steps: Sequence[str]) -> Reply:
        self.probes += 1
        lines = []
        for node in nodes:
            if node in self.silent or node in self.down or node not in self.job_nodes:
                continue
            lines.append(f"{MARK}|{node}||")
            for number in steps:
                lives = any(step.id == number and node in step.living for step in self.listed)
                words = "0|PID      JOBID    STEPID   LOCALID GLOBALID 5 71 1 0 0" if lives else (
                    f"1|PID      JOBID    STEPID   LOCALID GLOBALID StepId={number} does not exist on node {node}."
                )  # fmt: skip
                lines.append(f"{MARK}|{node}|{number}|{words}")
        if len(self.silent):
            self.now_s += 8.0
        return Reply(None if self.silent else 0, "\n".join(lines))

    def start(self, words: Sequence[str], place: ClientPlace) -> SlurmClient:
        self.started_words.append(words)
        name = words[words.index("--job-name") + 1]
        client = self.clients[name] = ClientDouble(place.lock)
        Path(words[4]).touch()  # that it began
        self.on_start(self, name, client, place)
        return client

    # --- time

    def let_pass(self, pause_s: float) -> None:
        self.now_s += pause_s
        waiting, self.later = self.later, []
        for work in waiting:
            work()

    @property
    def passing(self) -> Passing:
        return Passing(lambda: self.now_s, self.let_pass, lambda work: work())


def step_line(step: StepDouble) -> str:
    cells = (step.job, step.id, step.name, step.state, ",".join(step.nodes))
    return "".join(f"{cell:{width}}" for cell, width in zip(cells, STEP_COLUMNS.values(), strict=True)) + "\n"


@dataclass
class Bench:
    """A run directory, its Slurm, and supervisors that remember nothing."""

    run_dir: Path
    slurm: SlurmDouble = field(default_factory=SlurmDouble)
    options: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=lambda: {"SLURM_JOB_ID": JOB, "SLURM_JOB_NUM_NODES": "3"})

    def launcher(self) -> SlurmLauncher:
        settings = SlurmSettings(**self.options)
        return SlurmLauncher(
            self.run_dir, settings, supervises=True, calls=self.slurm, environ=self.environ, passing=self.slurm.passing
        )

    def spec(self, attempt: int = 1, *exclude: str) -> AttemptSpec:
        return AttemptSpec(attempt, ("sh", "train"), str(self.run_dir), None, SettingsInForce(), exclude_nodes=exclude)

    def name(self, attempt: int = 1) -> str:
        return f"{self.launcher()._prefix}{attempt}"

    def folder(self, attempt: int = 1) -> Path:
        return self.run_dir / "attempts" / f"{attempt:04d}"

    def beat(self, rank: int, step: int, host: str, attempt: int = 1) -> None:
        folder = self.folder(attempt) / "heartbeats"
        (folder / f"rank-{rank:05d}.json").write_text(f'{{"step": {step}, "phase": "forward", "pid": 9, "host": "{host}"}}')
