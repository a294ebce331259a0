"""Whom an incident is blamed on that was opened before anybody could tell: a node that dies makes its ranks silent at once, and
the scheduler gives it up only later, often when the hang was found and its attempt ended. The end of the attempt has the word.

The scheduler's word alone counts here. What ranks leave behind that Sentinel has just ended tells of that, and not of the fault.
"""

from __future__ import annotations

from sentinel.detectors.crash import describe
from sentinel.engine.decision import Decision
from sentinel.engine.node_checks import note_blame
from sentinel.model import facts as f
from sentinel.model.attempts import ExitReport, RankExit


def find_blame(decision: Decision, attempt: int, report: ExitReport) -> None:
    """Of the newest open incident of this attempt, if nobody is blamed for it."""
    rank = report.first_failed_rank
    first = next((one for one in report.ranks if one.rank == rank), None)
    incident = next((one for one in reversed(decision.state.open_incidents) if one.attempt == attempt), None)
    if first is None or not report.lost_nodes or incident is None:
        return
    if incident.blamed_rank is not None or incident.blamed_node:
        return
    node = _node_of(decision, first, report.lost_nodes)
    decision.record(f.BlameFound(incident.id, rank, node, describe(first, report)))
    note_blame(decision, incident.id, attempt, node)


def _node_of(decision: Decision, first: RankExit, lost: tuple[str, ...]) -> str:
    """In the words of the heartbeats, where they know it."""
    return decision.live.hosts.get(first.rank, "") or lost[0]
