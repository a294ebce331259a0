"""Reads the files of all agents, and hands on the newest report of each. The files are judged in `agents`."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.model.agents import AgentReport
from sentinel.run_files.agent_files import list_reports, parse_report_of_node, read_report_bytes

LIST_EVERY_S = 5.0
OLD_S, OLD_EVERY_S = 60.0, 15.0  # an agent that has written nothing for so long is looked at so often


@dataclass(slots=True)
class _Node:
    """One agent's file: its first bytes as last read, which hold a checksum, and when they were seen to change."""

    path: Path
    head: bytes = b""
    changed_s: float = float("-inf")
    was_there: bool = False
    looked_s: float = float("-inf")


class AgentSweep:
    """For two threads: `due` and `read` are the reader's, `take` is the loop's. `take` gives what is new since it was last asked,
    of each node the newest."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._nodes: dict[str, _Node] = {}
        self._listed_s = float("-inf")
        self._lock = threading.Lock()
        self._fresh: dict[str, AgentReport] = {}

    def due(self, now_s: float) -> list[str]:
        """The nodes whose file is to be read now. Raises OSError where the folder cannot be listed."""
        if now_s - self._listed_s >= LIST_EVERY_S:
            for node, path in sorted(list_reports(self._run_dir).items()):
                self._nodes.setdefault(node, _Node(path, was_there=self._listed_s == float("-inf")))
            self._listed_s = now_s
        old_s = now_s - OLD_S
        return [
            name for name, node in self._nodes.items()
            if node.changed_s > old_s or now_s - node.looked_s >= OLD_EVERY_S
        ]  # fmt: skip

    def read(self, name: str, now_s: float) -> None:
        """One that cannot be read now, or is half written, is read again with the next sweep."""
        node = self._nodes[name]
        node.looked_s = now_s
        with suppress(OSError, ValueError):
            data = read_report_bytes(node.path)
            if data[:32] == node.head:
                return
            report = parse_report_of_node(data)
            if report.node == name:
                node.head, node.changed_s = data[:32], now_s
                with self._lock:
                    self._fresh[name] = report

    def was_there(self, name: str) -> bool:
        """Whether its file was there before anybody looked: how old its first report is nobody knows."""
        node = self._nodes.get(name)
        return node is not None and node.was_there

    def take(self) -> dict[str, AgentReport]:
        with self._lock:
            fresh, self._fresh = self._fresh, {}
        return fresh
