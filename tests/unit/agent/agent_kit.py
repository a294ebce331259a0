"""An agent of a node called n2 over real processes of this machine, by a clock that is an argument."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sentinel.agent.hardware_news import HardwareNews
from sentinel.agent.orders import CheckCommand
from sentinel.agent.watching import NodeAgent
from sentinel.launcher.process_tree import is_marked
from sentinel.model.agents import AgentReport
from sentinel.model.readings import Reading
from sentinel.run_files.agent_files import find_report
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.hardware import Hardware


class Told:
    """A hardware source that says what a test puts into it."""

    has_more = False

    def __init__(self) -> None:
        self.next: list[Reading] = []

    def poll(self, now_s: float) -> list[Reading]:
        out, self.next = self.next, []
        return out

    def close(self) -> None: ...


class Node:
    """`turn` is one turn of its agent, a second after the one before."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.hardware = Told()
        self.now_s = 100.0
        self.check = CheckCommand()
        self._pids: list[int] = []
        self.agent = self.begin()

    def begin(self) -> NodeAgent:
        """An agent is started (anew)."""
        hardware = Hardware(None, self.hardware)  # type: ignore[arg-type]
        self.agent = NodeAgent(self.run_dir, "n2", HardwareNews(hardware), self.check, beside=lambda work: work())
        return self.agent

    def turn(self, times: int = 1) -> AgentReport:
        for _ in range(times):
            self.now_s += 1.0
            self.agent.turn(self.now_s)
        report = find_report(self.run_dir, "n2")
        assert report is not None
        return report

    def rank(
        self, rank: int | None, attempt: int = 1, launch: str = "w", words: Sequence[str] = ("sleep", "600"), node: str = ""
    ) -> int:
        """The pid of a process that carries the marks of a rank. `node`: on which its launcher says that it is."""
        marks = AttemptFiles.of(self.run_dir, attempt).environment
        named = ({} if rank is None else {"RANK": str(rank)}) | ({"SENTINEL_NODE": node} if node else {})
        environment = {"PATH": os.environ["PATH"]} | marks | named | {"SENTINEL_LAUNCH": launch}
        self._pids.append(os.posix_spawnp(words[0], list(words), environment))
        while not is_marked(self._pids[-1], marks):  # in the middle of exec it shows none
            os.sched_yield()
        return self._pids[-1]

    def beat(self, rank: int, step: int, attempt: int = 1, **more: object) -> None:
        folder = AttemptFiles.of(self.run_dir, attempt).heartbeats
        folder.mkdir(parents=True, exist_ok=True)
        beat = {"step": step, "phase": "forward", "time_s": float(step)} | more
        (folder / f"rank-{rank:05d}.json").write_text(json.dumps(beat))

    def end(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._pids.remove(pid)

    def reap(self, pid: int) -> int:
        """Of one that the agent has ended."""
        self._pids.remove(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self) -> None:
        for pid in [*self._pids]:
            self.end(pid)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.close()
