"""A launcher whose reach goes on to other nodes through the agents there (`sentinel.agent`), where there are any.

What it asks of them is beside what the launcher does itself, and never in its place. Nothing is concluded from an agent that does
not answer. What one proves (that nothing of an attempt is left on its node) is read by whoever judges the end (`elsewhere`).
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from pathlib import Path

from sentinel.client.machine import read_host
from sentinel.launcher.contract import Hold, Launcher, unheld
from sentinel.launcher.spec_file import read_launch
from sentinel.model.agents import AgentOrder, AgentReport, kill_id
from sentinel.model.attempts import AttemptSpec, AttemptView
from sentinel.run_files.agent_files import find_report, list_reports
from sentinel.run_files.agent_orders import OrderBook
from sentinel.run_files.attempt_files import AttemptFiles, is_same_host

SIGNAL_WAIT_S = 4.0  # an agent reads its orders once a second
LOOK_EVERY_S = 0.1


class LauncherWithAgents:
    """`contract.Launcher`. `signals_all`: the launcher itself reaches every rank with a signal. `hold`: asked before each act."""

    def __init__(
        self, launcher: Launcher, run_dir: Path, orders: OrderBook, *, signals_all: bool, hold: Hold = unheld
    ) -> None:
        self._launcher, self._run_dir, self._orders, self._signals_all = launcher, run_dir, orders, signals_all
        self._hold = hold

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        """As the contract says. Agents end what attempts before it have left on their nodes."""
        self._hold()
        self._give(AgentOrder(f"clean/{spec.attempt}/{spec.launch or ''}", "clean", spec.attempt, spares=read_host()))
        return self._launcher.ensure_started(spec)

    def ensure_stopped(self, attempt: int) -> AttemptView:
        """As the contract says. Agents end what of it lives on their nodes, and what comes up there later."""
        self._hold()
        launch = None
        with suppress(OSError):
            launch = read_launch(AttemptFiles.of(self._run_dir, attempt))
        self._give(AgentOrder(kill_id(attempt, launch), "kill", attempt, launch=launch, spares=read_host()))
        return self._launcher.ensure_stopped(attempt)

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        """As the contract says. Of ranks on other nodes those are counted whose agent answers in SIGNAL_WAIT_S."""
        self._hold()
        sent = self._launcher.signal_ranks(attempt, signal_number)
        nodes = [] if self._signals_all else self._nodes_of(attempt)
        if not nodes:
            return sent
        name = f"signal/{attempt}/{signal_number}/{uuid.uuid4().hex[:8]}"
        order = AgentOrder(name, "signal", attempt, spares=read_host(), signal=signal_number)
        self._give(order)
        return sent + self._await_count(order, nodes)

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        return self._launcher.observe(attempt, with_processes)

    def _give(self, order: AgentOrder) -> None:
        """Where there are agents. A disk that does not take the order holds up nothing that the launcher does itself."""
        with suppress(OSError):
            if list_reports(self._run_dir):
                self._orders.give(order)

    def _nodes_of(self, attempt: int) -> list[str]:
        """The other nodes whose agent last saw ranks of the attempt."""
        found = []
        with suppress(OSError):
            for node in list_reports(self._run_dir):
                report = None if is_same_host(node, read_host()) else find_report(self._run_dir, node)
                if report is not None and not report.has_left and any(one.attempt == attempt for one in report.ranks):
                    found.append(node)
        return found

    def _await_count(self, order: AgentOrder, nodes: list[str]) -> int:
        deadline_s, sent = time.monotonic() + SIGNAL_WAIT_S, 0
        while nodes and time.monotonic() < deadline_s:
            time.sleep(LOOK_EVERY_S)
            for node in [*nodes]:
                count = _count(find_report(self._run_dir, node), order)
                if count is not None:
                    sent += count
                    nodes.remove(node)
        return sent


def _count(report: AgentReport | None, order: AgentOrder) -> int | None:
    """To how many ranks it was sent; None before the answer."""
    answer = None if report is None else report.answers.get(order.id)
    return None if answer is None or answer.outcome == "begun" else answer.count
