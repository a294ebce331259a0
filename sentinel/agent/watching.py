"""`sentinel agent RUN_DIR`: once a second it looks at the run's ranks on its node and at the hardware, does what it is asked,
and writes one file. It goes on until it is stopped, over any number of attempts; it starts nothing and decides nothing.

    agent = NodeAgent(run_dir, "n2", HardwareNews(hardware))
    agent.turn(now_s)         # and again after EVERY_S
    agent.close(now_s)
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from sentinel.agent.hardware_news import HardwareNews
from sentinel.agent.node_ranks import NodeRanks
from sentinel.agent.orders import CheckCommand, NodeOrders
from sentinel.client.atomic_file import ensure_directory
from sentinel.client.run_layout import AGENTS
from sentinel.clock import Clock
from sentinel.errors import UsageError
from sentinel.launcher.asking import Beside, in_a_thread
from sentinel.launcher.file_locks import try_lock
from sentinel.launcher.process_tree import read_boot_id
from sentinel.model.agents import AgentReport, RankOnNode
from sentinel.run_files.agent_files import ReportFile, find_report
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, HOST, RUN_DIR_VARIABLE
from sentinel.signals import stop_event

EVERY_S = 1.0
SOON_S = 0.2  # while something is done that somebody waits for


class NodeAgent:
    """Of one node and one run, which must be there."""

    def __init__(
        self,
        run_dir: Path,
        node: str,
        news: HardwareNews,
        check: CheckCommand = CheckCommand(),  # noqa: B008 - a value
        beside: Beside = in_a_thread,
    ) -> None:
        run_dir = Path(os.path.realpath(run_dir))
        self._node, self._news = node, news
        self._ranks = NodeRanks(run_dir, node)
        self._orders = NodeOrders(run_dir, node, self._ranks, check, beside)
        self._file = ReportFile(run_dir, node)
        self._boot_id, self._life, self._turn = read_boot_id(), uuid.uuid4().hex[:12], 0
        before = find_report(run_dir, node)
        if before is not None:
            self._orders.remember(before.answers)
            if before.boot_id == self._boot_id:  # pids of an earlier boot say nothing; what ended in this one stays ended
                self._ranks.ended.extend(before.ended)

    @property
    def is_busy(self) -> bool:
        """Something that it was asked for is under way."""
        return any(one.outcome == "begun" for one in self._orders.answers.values())

    def turn(self, now_s: float) -> None:
        """Look, write, do what is asked, and write what came of it. Raises OSError where nothing can be written."""
        self._news.turn(now_s)
        ranks = self._ranks.look(now_s)
        begun = self._orders.turn()
        if begun:
            ranks = self._ranks.look(now_s, at_once=True)
            try:
                self._write(now_s, ranks)  # before anything is done: an agent that dies in it must not do it twice
            except OSError:
                self._orders.put_off(begun)
                raise
            for order in begun:
                self._orders.carry_out(order, ranks)
        self._write(now_s, ranks)

    def close(self, now_s: float) -> None:
        """Say that it leaves. Raises OSError as above."""
        self._orders.close()
        self._news.close()
        self._write(now_s, self._ranks.look(now_s), has_left=True)

    def _write(self, now_s: float, ranks: Sequence[RankOnNode], *, has_left: bool = False) -> None:
        self._turn += 1
        blind = dict(self._news.blind) | ({"orders": self._orders.trouble} if self._orders.trouble else {})
        report = AgentReport(
            node=self._node,
            boot_id=self._boot_id,
            life=self._life,
            turn=self._turn,
            ranks=self._orders.look_closer(ranks, now_s),
            ended=tuple(self._ranks.ended),
            hardware=self._news.report(now_s),
            blind=blind,
            answers=dict(self._orders.answers),
            has_left=has_left,
        )
        self._file.write(report)


def check_node(node: str) -> None:
    """Raises UsageError."""
    if not HOST.fullmatch(node):
        raise UsageError(f"--node {node!r}: is no name of a machine; write it as the heartbeats of its ranks do (n2)")
    if ATTEMPT_VARIABLE in os.environ and RUN_DIR_VARIABLE in os.environ:
        raise UsageError(
            f"{ATTEMPT_VARIABLE} and {RUN_DIR_VARIABLE} are set: an agent that is a process of the attempt would end with it; "
            "start it beside the training, without them"
        )


def watch_node(run_dir: Path, node: str, news: HardwareNews, check: CheckCommand, clock: Clock) -> None:
    """Until SIGTERM or SIGINT. A run directory that is not there yet is waited for; a disk that fails is tried again.

    Raises:
        UsageError: another agent writes for this node.
    """
    with stop_event() as stop, ExitStack() as stack:
        if not _wait_for(run_dir, stop, clock):
            return
        lock = try_lock(_lock_path(run_dir, node))
        if lock is None:
            raise UsageError(f"{run_dir}: another agent writes for the node {node}; stop it, or name this one (--node NAME)")
        stack.callback(os.close, lock)
        agent, trouble = NodeAgent(run_dir, node, news, check), ""
        while not stop.is_set():
            began_s = clock.now_s()
            trouble = _tried(agent, began_s, trouble)
            pause_s = SOON_S if agent.is_busy else EVERY_S
            clock.wait(stop, max(0.0, began_s + pause_s - clock.now_s()))
        try:
            agent.close(clock.now_s())
        except OSError as error:
            _complain(run_dir, error)


def _wait_for(run_dir: Path, stop: threading.Event, clock: Clock) -> bool:
    """False where it was stopped before."""
    if not run_dir.is_dir():
        print(f"sentinel agent: {run_dir} is not there yet; waiting for it", file=sys.stderr)
    while not run_dir.is_dir():
        if clock.wait(stop, EVERY_S):
            return False
    return True


def _lock_path(run_dir: Path, node: str) -> Path:
    ensure_directory(run_dir / AGENTS)
    return run_dir / AGENTS / f"{node}.lock"


def _tried(agent: NodeAgent, now_s: float, trouble: str) -> str:
    """One turn; what is wrong with the disk, said once."""
    try:
        agent.turn(now_s)
    except OSError as error:
        if str(error) != trouble:
            _complain(Path(str(error.filename or "")), error)
        return str(error)
    return ""


def _complain(where: Path, error: OSError) -> None:
    print(f"sentinel agent: {where}: nothing can be written ({error.strerror or error}); it is tried again", file=sys.stderr)
