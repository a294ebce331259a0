"""Slurm's own commands, each with a deadline, in a session of its own. What they say is judged elsewhere (`answers`, `nodes`)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sentinel.client.closed_files import closed
from sentinel.launcher.asking import AskLimits, Reply, ask
from sentinel.launcher.contract import Hold, unheld
from sentinel.launcher.slurm.answers import JOB_COLUMNS, STEP_COLUMNS, format_of
from sentinel.launcher.slurm.nodes import MARK, PROBE
from sentinel.launcher.slurm.variables import for_client, for_question

PROBE_NAME = "sentinel-probe"
CHECK_NAME = "sentinel-check"


@dataclass(frozen=True, slots=True)
class ClientPlace:
    """Where the client of a step runs. `lock`: a descriptor that it holds open for as long as it lives."""

    cwd: str
    environment: Mapping[str, str]
    logs: Path
    lock: int


class SlurmClient(Protocol):
    """srun, which started a step or is about to."""

    def kill(self) -> None:
        """By SIGKILL, with all of its processes here."""
        ...

    def poll(self) -> int | None:
        """Its exit status; None while it lives."""
        ...


class SlurmCalls(Protocol):
    """What is asked of Slurm. No call raises, each ends by its deadline; `start` raises OSError where there is no srun."""

    def steps(self, job: str) -> Reply: ...

    def job(self, job: str) -> Reply: ...

    def controller(self) -> Reply:
        """Its configuration, with since when it runs."""
        ...

    def cancel(self, step: str, signal_number: int | None = None) -> Reply:
        """End the step, or send its tasks a signal."""
        ...

    def hosts(self, nodes: str) -> Reply: ...

    def node_states(self, nodes: str) -> Reply: ...

    def probe(self, job: str, nodes: Sequence[str], steps: Sequence[str]) -> Reply:
        """Ask every node by one step of one task on each. What was printed until the deadline counts, whatever the status."""
        ...

    def check(self, job: str, nodes: Sequence[str], words: Sequence[str], timeout_s: float) -> Reply:
        """Run a command on every node by one step of one task on each. As for `probe`, what was printed until the deadline
        counts. `words`: further options of srun, and the command."""
        ...

    def start(self, words: Sequence[str], place: ClientPlace) -> SlurmClient: ...


@dataclass(frozen=True, slots=True)
class _RealClient:
    process: subprocess.Popen[bytes]

    def poll(self) -> int | None:
        return self.process.poll()

    def kill(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class RealCalls:
    """`timeout_s`: of a question. `probe_s`: within which a node must answer. `withheld`: variables that nobody inherits.
    `hold`: asked before a step is started or ended; what it raises is the one thing that comes out of a call."""

    timeout_s: float
    probe_s: float
    withheld: frozenset[str] = frozenset()
    hold: Hold = unheld

    def steps(self, job: str) -> Reply:
        return self._ask(["squeue", "--steps", "--noheader", "--jobs", job, "--Format", format_of(STEP_COLUMNS)])

    def job(self, job: str) -> Reply:
        return self._ask(["squeue", "--noheader", "--states", "all", "--jobs", job, "--Format", format_of(JOB_COLUMNS)])

    def controller(self) -> Reply:
        return self._ask(["scontrol", "show", "config"])

    def cancel(self, step: str, signal_number: int | None = None) -> Reply:
        self.hold()
        return self._ask(["scancel", *([] if signal_number is None else [f"--signal={signal_number}"]), step])

    def hosts(self, nodes: str) -> Reply:
        return self._ask(["scontrol", "show", "hostnames", nodes])

    def node_states(self, nodes: str) -> Reply:
        return self._ask(["scontrol", "show", "node", nodes, "--oneliner"])

    def probe(self, job: str, nodes: Sequence[str], steps: Sequence[str]) -> Reply:
        words = _one_task_on_each(job, nodes, PROBE_NAME)
        lines = len(nodes) * (1 + len(steps))
        return self._ask([*words, "sh", "-c", PROBE, MARK, *steps], self.probe_s, lambda text: text.count(f"{MARK}|") >= lines)

    def check(self, job: str, nodes: Sequence[str], words: Sequence[str], timeout_s: float) -> Reply:
        return self._ask([*_one_task_on_each(job, nodes, CHECK_NAME), *words], timeout_s)

    def start(self, words: Sequence[str], place: ClientPlace) -> SlurmClient:
        out, err = place.logs / "launcher.out", place.logs / "launcher.err"
        self.hold()
        with open(out, "ab", opener=closed) as output, open(err, "ab", opener=closed) as errors:
            process = subprocess.Popen(
                words,
                cwd=place.cwd,
                env=for_client(place.environment, self.withheld),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                pass_fds=(place.lock,),
                start_new_session=True,
            )
        return _RealClient(process)

    def _ask(self, words: Sequence[str], timeout_s: float | None = None, is_whole: Callable[[str], bool] | None = None) -> Reply:
        """`is_whole`: ends the wait before the command does, by what it has printed."""
        limits = AskLimits(self.timeout_s if timeout_s is None else timeout_s, is_whole)
        return ask(words, for_question(os.environ, self.withheld), limits)


def _one_task_on_each(job: str, nodes: Sequence[str], name: str) -> list[str]:
    """The first words of a step beside the training: one task on each of these nodes. A node that is lost ends no other task."""
    count = str(len(nodes))
    words = ["srun", "--jobid", job, "--overlap", "--job-name", name, "--nodes", count, "--ntasks", count]
    return [*words, "--ntasks-per-node", "1", "--nodelist", ",".join(nodes), "--no-kill", "--unbuffered", "--export=ALL"]
