"""`node_check`: a command of the policy's author says whether nodes are healthy: before a launch, when the evidence has blamed a
node more than once, and before one that is left out may be used again.

Sick: the node is left out of every later attempt, and a person is called. Where it cannot be left out, nothing is launched on it:
the run is held. Healthy: what it was blamed for is forgotten, and whoever asked gets it back. Unknown changes nothing, and lets
nobody back. `plan/node_check.py` judges; an action carries the question out.
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.opening import open_incident
from sentinel.engine.paging import page, resolve
from sentinel.model import facts as f
from sentinel.model.actions import CheckNodes
from sentinel.model.changed import replace
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.node_checks import CheckPurpose, NodeVerdicts, NodeWord
from sentinel.model.operator_requests import Readmit
from sentinel.model.readings import RequestReading
from sentinel.plan.exclusion import short
from sentinel.plan.node_check import choose_suspects, describe_words, judge_leaving_out

ALERT = "NodeSick"
HOLDS = (
    "nothing is launched. When the node is mended, or another has taken its place: `sentinel resume RUN_DIR`, which checks "
    "again. Where the check itself is wrong: `sentinel policy apply FILE RUN_DIR` with another node_check, then resume"
)


def note_blame(decision: Decision, incident_id: int, attempt: int, node: str) -> None:
    """Once for each attempt that an incident strikes; `node` empty: nobody is blamed."""
    if decision.policy.spec.node_check is None or not node:
        return
    known = next((one for one in decision.state.blames if short(one.node) == short(node)), None)
    if known is None:
        decision.record(f.NodeBlamed(node, incident_id, attempt, 1))
    elif (known.incident, known.attempt) != (incident_id, attempt):
        decision.record(f.NodeBlamed(node, incident_id, attempt, known.times + 1))


def check_before_launch(decision: Decision, attempt: int) -> CheckNodes | None:
    """What the plan of this launch checks: those that will take part, and whoever is suspected. None where nothing is."""
    wanted = decision.policy.spec.node_check
    if wanted is None:
        return None
    excluded = tuple(one.node for one in decision.state.excluded)
    suspects = choose_suspects(decision.state.blames, excluded, wanted.after_blames) if "suspicion" in wanted.when else ()
    if "launch" not in wanted.when and not suspects:
        return None
    purpose: CheckPurpose = "launch" if "launch" in wanted.when else "suspicion"
    key = f"check/{purpose}/{attempt}/1"
    return CheckNodes(key, purpose, wanted.command, wanted.timeout_s, suspects, excluded if purpose == "launch" else ())


def on_tick(decision: Decision) -> None:
    """On every tick: a suspected node of an attempt that trains, where the policy lets the check run beside it."""
    wanted, state = decision.policy.spec.node_check, decision.state
    if wanted is None or not wanted.while_training or "suspicion" not in wanted.when or not state.blames:
        return
    if state.plan is not None or state.stop_by or state.hold_by or state.ended or not decision.is_alive:
        return
    for node in choose_suspects(state.blames, [one.node for one in state.excluded], wanted.after_blames):
        blame = next(one for one in state.blames if one.node == node)
        key = f"check/suspicion/{blame.attempt}/incident-{blame.incident}"
        decision.decide(CheckNodes(key, "suspicion", wanted.command, wanted.timeout_s, (node,)))


def conclude(decision: Decision, action: CheckNodes, found: NodeVerdicts) -> bool:
    """What the check led to. The action is confirmed or abandoned already. True where a plan was dropped for it."""
    plan = decision.state.plan
    is_planned = plan is not None and any(one.key == action.key for one in plan.actions)
    decision.record(f.NodesChecked(action.key, action.purpose, found.healthy, found.sick, found.unknown, found.trouble))
    if action.purpose == "readmit":
        _answer(decision, action, found)
        return False
    out = {short(one.node) for one in decision.state.excluded}
    sick = tuple(word for word in found.sick if short(word.node) not in out)
    if not sick:
        return False
    others = {*found.healthy, *(word.node for word in found.unknown), *action.known, *decision.live.nodes}
    why_not = _why_kept(decision, sick, others)
    incident = _open(decision, sick, why_not)
    if not why_not:
        for word in sick:
            decision.record(f.NodeExcluded(word.node, incident.id, f"its check calls it sick: {word.reason}"))
    is_held = bool(why_not) and is_planned and not decision.is_observed_run
    _call(decision, incident, is_planned=is_planned, is_held=is_held, is_out=not why_not)
    if is_held:
        decision.record(f.PlanDropped(incident.reason))
        decision.record(f.Held(incident.reason))
    elif is_planned and not why_not and action.purpose == "launch":
        _check_the_rest(decision, action, found)
    return is_held


def _why_kept(decision: Decision, sick: tuple[NodeWord, ...], others: set[str]) -> str:
    if decision.is_observed_run:
        return "sentinel only observes"
    wanted = decision.policy.spec.node_check
    excluded = [one.node for one in decision.state.excluded]
    at_most = len(excluded) if wanted is None else wanted.at_most  # a policy without a check has been applied since
    return judge_leaving_out(sick, others, excluded, at_most, decision.state.capabilities)


def _open(decision: Decision, sick: tuple[NodeWord, ...], why_not: str) -> Incident:
    reason = f"checked sick: {describe_words(sick)}"
    reason = f"{reason}; it cannot be left out: {why_not}" if why_not else reason
    attempt = decision.attempt.attempt if decision.attempt is not None else decision.state.next_attempt
    finding = Finding(
        Kind.NODE_SICK, "critical", attempt, None, decision.newest_step, decision.now_s, reason, outside=True,
        blamed_node=sick[0].node,
    )  # fmt: skip
    incident = open_incident(decision, finding, ALERT, None)
    decision.record(f.IncidentMoved(incident.id, IncidentState.EXHAUSTED, "a person is told"))
    return incident


def _call(decision: Decision, incident: Incident, *, is_planned: bool, is_held: bool, is_out: bool) -> None:
    back = f"it is used again after `sentinel uncordon {incident.blamed_node} RUN_DIR`, which checks it"
    if is_held:
        follows = HOLDS
    elif not is_out:
        follows = "sentinel changes nothing in this run" if decision.is_observed_run else "training goes on with it"
    elif is_planned:
        follows = f"the launch goes on without it; {back}"
    else:
        follows = f"this attempt trains on with it, the next launch does without; {back}"
    page(decision, incident.id, "critical", incident.reason, follows)


def _check_the_rest(decision: Decision, action: CheckNodes, found: NodeVerdicts) -> None:
    """Others take part now: those that were not asked yet are. It ends, for each round leaves at least one more out."""
    plan = decision.state.plan
    assert plan is not None
    head, _, number = action.key.rpartition("/")
    again = replace(
        action,
        key=f"{head}/{int(number) + 1}",
        nodes=(),
        exclude=tuple(one.node for one in decision.state.excluded),
        known=tuple(sorted({*action.known, *found.nodes})),
    )
    decision.record(f.PlanAdopted(plan.incident, (again, *plan.actions[plan.next :]), plan.reason))


# Nodes that come back.


def begin_readmission(decision: Decision, asked: RequestReading) -> bool:
    """Whether the request is one whose answer waits for a check; it is under way then."""
    wanted, request = decision.policy.spec.node_check, asked.request
    if not isinstance(request, Readmit) or request.force or wanted is None or "readmit" not in wanted.when:
        return False
    key = f"check/readmit/{asked.id}"
    decision.decide(
        CheckNodes(key, "readmit", wanted.command, wanted.timeout_s, (request.node,), request=asked.id, by=asked.by)
    )
    return True


def why_checked_already(decision: Decision, asked_id: str, node: str) -> str:
    """Somebody else has asked for the same node, and it is being checked."""
    for action in decision.state.pending.values():
        if isinstance(action, CheckNodes) and action.purpose == "readmit" and action.nodes == (node,):
            return f"{node} is being checked already, for {action.by}" if action.request != asked_id else ""
    return ""


def on_readmitted(decision: Decision, node: str, by: str) -> None:
    """Nobody is needed for it any more."""
    for incident in decision.state.open_pages:
        if incident.kind is Kind.NODE_SICK and incident.blamed_node == node:
            resolve(decision, incident.id, f"{node} is used again", by)


def _answer(decision: Decision, action: CheckNodes, found: NodeVerdicts) -> None:
    (node,), state = action.nodes, decision.state
    if action.request in state.answered_requests:
        return
    granted, words = _judge_readmission(decision, node, found)
    decision.record(f.RequestAnswered(action.request, action.by, Readmit(node), granted, words))
    if granted:
        on_readmitted(decision, node, action.by)


def _judge_readmission(decision: Decision, node: str, found: NodeVerdicts) -> tuple[bool, str]:
    if decision.state.ended:
        return False, f"the run has {decision.state.ended}: {decision.state.end_reason}"
    if node not in [one.node for one in decision.state.excluded]:
        return False, f"{node} is not left out any more"
    if node in found.healthy:
        return True, f"{node} was checked and is healthy: it may be used again, from the next launch on"
    if word := next((word for word in found.sick if word.node == node), None):
        return False, f"{node} was checked and is sick: {word.reason}; it stays out"
    word = next((word for word in found.unknown if word.node == node), NodeWord(node, found.trouble or "it was not asked"))
    return False, f"{node} is not known to be healthy: {word.reason}; it stays out (--force lets it back without a check)"
