"""Which ranks a kernel shows to have ended: that of this machine, for ranks in containers of it, and those of other nodes, by the
agents there (`sentinel.agent`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel.client.run_layout import rank_file
from sentinel.launcher.containers import has_ended_here
from sentinel.launcher.exit_report import read_object
from sentinel.model.attempts import RankElsewhere
from sentinel.run_files.attempt_files import AttemptFiles

if TYPE_CHECKING:
    from sentinel.model.agents import AgentReport


def not_seen_to_end(files: AttemptFiles, ranks: tuple[RankElsewhere, ...]) -> tuple[RankElsewhere, ...]:
    """Those of the ranks of which no kernel shows that they have ended. Raises OSError."""
    return _not_ended_there(files, _not_ended_here(files, ranks))


def _not_ended_here(files: AttemptFiles, ranks: tuple[RankElsewhere, ...]) -> tuple[RankElsewhere, ...]:
    """Without those that beat from a container of this machine, and have no process on it any more."""
    keeper = read_object(files.keeper) if ranks else None
    started_s = keeper.get("create_time") if keeper is not None else None
    if not isinstance(started_s, float):
        return ranks
    return tuple(one for one in ranks if not has_ended_here(_boot_id_of(files, one.rank), one.pid, started_s))


def _not_ended_there(files: AttemptFiles, ranks: tuple[RankElsewhere, ...]) -> tuple[RankElsewhere, ...]:
    """Without those whose process the agent of their node has seen end: the kernel there shows it no more."""
    if not ranks:
        return ()
    from sentinel.run_files.agent_files import find_report  # a keeper that has no such rank starts without it

    reports = {host: find_report(files.run_dir, host) for host in {one.host for one in ranks}}
    return tuple(one for one in ranks if not _says_ended(files, reports[one.host], one))


def _says_ended(files: AttemptFiles, report: AgentReport | None, one: RankElsewhere) -> bool:
    return report is not None and report.says_ended(files.attempt, one.rank, one.pid, _boot_id_of(files, one.rank))


def _boot_id_of(files: AttemptFiles, rank: int) -> object:
    return (read_object(rank_file(files.heartbeats, rank)) or {}).get("boot_id")
