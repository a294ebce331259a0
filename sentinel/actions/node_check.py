"""Checks of nodes through the launcher: which nodes, the command on each, and the verdicts. Holds nothing: asked again, it checks
again."""

from __future__ import annotations

from sentinel.launcher.node_reach import NodeReach
from sentinel.model.actions import CheckNodes
from sentinel.model.node_checks import NodeReply, NodeVerdicts
from sentinel.plan.node_check import judge_replies


def check_nodes(reach: NodeReach | str, action: CheckNodes) -> NodeVerdicts:
    """`reach`: the way to them, or why there is none."""
    if isinstance(reach, str):
        return _nobody(action, reach)
    nodes, trouble = dict.fromkeys(action.nodes), ""
    if action.purpose == "launch":
        found = reach.participants(action.exclude)
        if isinstance(found, str):
            trouble = f"which nodes will take part is not known: {found}"
        else:
            nodes |= dict.fromkeys(node for node in found if node not in action.known)
    asked = tuple(nodes)
    verdicts = judge_replies(asked, reach.run(asked, action.command, action.timeout_s) if asked else {})
    return NodeVerdicts(verdicts.healthy, verdicts.sick, verdicts.unknown, trouble)


def _nobody(action: CheckNodes, why: str) -> NodeVerdicts:
    found = judge_replies(action.nodes, dict.fromkeys(action.nodes, NodeReply(None, "", why)))
    return NodeVerdicts(unknown=found.unknown, trouble=why)
