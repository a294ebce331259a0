"""`exclude: {node: blamed}`: the node that the evidence blames is left out of every later attempt, until a person readmits it.

What the command makes of that is its own affair, so the capability must be declared.
"""

from __future__ import annotations

from collections.abc import Sequence

from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.findings import Finding
from sentinel.model.incidents import Incident
from sentinel.plan.exclusion import judge_exclusion, short
from sentinel.policy.schema import Rung


def blamed_node(decision: Decision, finding: Finding) -> str:
    """The host of the blamed rank, by its heartbeats; else the machine that the finding itself names. Empty: nobody is blamed."""
    hosts = decision.live.hosts
    if finding.blamed_node:  # in the words of the heartbeats, where they know it
        return next((host for host in hosts.values() if short(host) == short(finding.blamed_node)), finding.blamed_node)
    return hosts.get(finding.blamed_rank, "") if finding.blamed_rank is not None else ""


def other_node(decision: Decision, blamed: str) -> str:
    """One machine beside the blamed one that ranks of this attempt were heard from; empty where there is none."""
    return min((host for host in decision.live.nodes if short(host) != short(blamed)), default="") if blamed else ""


def reason_against(decision: Decision, incident: Incident, rung: Rung) -> str:
    """Why the rung's exclusion cannot be carried out; empty when it can, or it has none, or this incident's own is in force and
    the rung is taken again. An attempt that died before it was heard from says nothing of where the run can be."""
    if rung.exclude is None or _is_out(decision, incident):
        return ""
    out = [one.node for one in decision.state.excluded]
    nodes = {*decision.live.nodes, incident.other_node} - {"", *out}
    can, may_be_more = decision.state.capabilities, _is_a_place_unknown(decision)
    return judge_exclusion(incident.blamed_node, nodes, out, rung.exclude.at_most, can, may_be_more)


def _is_a_place_unknown(decision: Decision) -> bool:
    """Some ranks of the living attempt have told where they are, and others not yet: it is a second or two old."""
    attempt, placed = decision.attempt, len(decision.live.hosts)
    return decision.is_alive and attempt is not None and attempt.world_size is not None and 0 < placed < attempt.world_size


def _is_out(decision: Decision, incident: Incident) -> bool:
    """Left out for this very incident, and not heard from since."""
    node, nodes = incident.blamed_node, {short(host) for host in decision.live.nodes}
    return any(one.incident == incident.id and one.node == node for one in decision.state.excluded) and short(node) not in nodes


def is_left_out(decision: Decision, finding: Finding) -> bool:
    """It is about a machine that this attempt must not use, and from which no rank reports."""
    out = {short(one.node) for one in decision.state.excluded}
    return short(finding.blamed_node) in out and short(finding.blamed_node) not in {short(node) for node in decision.live.nodes}


def cures(decision: Decision, incident: Incident, rungs: Sequence[Rung], index: int) -> bool:
    """A relaunch where the fault is cannot help, one without that node can."""
    return index < len(rungs) and rungs[index].exclude is not None and not reason_against(decision, incident, rungs[index])


def exclude(decision: Decision, incident: Incident, rung: Rung) -> None:
    """On record before the launch that is to do without it."""
    if rung.exclude is not None and not _is_out(decision, incident):
        reason = f"blamed by incident {incident.id} ({incident.kind}): {incident.reason}"
        decision.record(f.NodeExcluded(incident.blamed_node, incident.id, reason))
