"""On which machines the ranks of an attempt are, for people: by the reports of agents, and by heartbeats where no agent tells.

For showing only. What cannot be read is left out; of a large run without agents no more than the ranks that `heartbeats` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.clock import SystemClock
from sentinel.model.amounts import time_words
from sentinel.run_files.agent_files import list_reports, read_report_of_node
from sentinel.run_files.heartbeats import read_ranks

NODES_NAMED = 8
AGENT_SILENT_S = 15.0  # the age at which the supervisor misses an agent (`telemetry.agents`), by the clock of the filesystem


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """`agent_s`: how long ago its agent wrote, by the clock of this machine; None where none tells of these ranks."""

    node: str
    ranks: tuple[int, ...]
    agent_s: float | None = None

    @property
    def words(self) -> str:
        is_silent = self.agent_s is not None and self.agent_s >= AGENT_SILENT_S
        silence = f"; its agent wrote {time_words(self.agent_s or 0.0)} ago" if is_silent else ""
        return f"{self.node} ({_ranks_words(self.ranks)}{silence})"


def read_nodes(run_dir: Path, attempt: int) -> tuple[NodeSeen, ...]:
    """By their lowest rank."""
    found = {one.node: one for one in _by_agents(run_dir, attempt)}
    by_agents = {rank for one in found.values() for rank in one.ranks}
    hosts: dict[str, list[int]] = {}
    for seen in read_ranks(run_dir, attempt):
        if seen.host and seen.rank not in by_agents:
            hosts.setdefault(seen.host, []).append(seen.rank)
    for host, ranks in hosts.items():
        known = found.get(host)
        found[host] = NodeSeen(host, tuple(sorted({*(known.ranks if known else ()), *ranks})), known.agent_s if known else None)
    return tuple(sorted(found.values(), key=lambda one: one.ranks))


def nodes_words(nodes: Sequence[NodeSeen]) -> str:
    named = ", ".join(one.words for one in nodes[:NODES_NAMED])
    more = f", and {len(nodes) - NODES_NAMED} more" if len(nodes) > NODES_NAMED else ""
    return f"{named}{more}"


def _by_agents(run_dir: Path, attempt: int) -> list[NodeSeen]:
    out: list[NodeSeen] = []
    now_s = SystemClock().wall_s()
    with suppress(OSError):
        for node, path in list_reports(run_dir).items():
            with suppress(OSError, ValueError):
                ranks = {one.rank for one in read_report_of_node(path).ranks if one.attempt == attempt}
                if ranks:
                    out.append(NodeSeen(node, tuple(sorted(ranks)), max(0.0, now_s - path.stat().st_mtime)))
    return out


def _ranks_words(ranks: tuple[int, ...]) -> str:
    """`rank 3`, `ranks 0 to 7`, `ranks 0, 2, 9 and 5 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    more = f" and {len(ranks) - NODES_NAMED} more" if len(ranks) > NODES_NAMED else ""
    return f"ranks {', '.join(map(str, ranks[:NODES_NAMED]))}{more}"
