"""Questions to nodes: who answers, and what is left of a step on each. They are answered by the nodes, all at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sentinel.launcher.slurm.answers import STEP_COLUMNS, JobLine, SlurmStep, Unclear, read_job_line
from sentinel.launcher.slurm.calls import SlurmCalls
from sentinel.launcher.slurm.nodes import (
    NodeWords,
    choose_nodes,
    judge_emptiness,
    read_hosts,
    read_node_states,
    read_probe,
)
from sentinel.launcher.slurm.settings import Wanted

TREE_WIDTH = 50  # Slurm's default: srun reaches more nodes through others, and one that is silent hides those behind it
AT_ONCE = 16
ASK_AGAIN_S = 15.0


@dataclass(slots=True)
class SilentNodes:
    """Nodes that did not answer. Until `until_s` they are not asked again: whether the controller has given them up is known
    sooner, and costs no step."""

    nodes: frozenset[str] = frozenset()
    until_s: float = -float("inf")


def find_nodes(calls: SlurmCalls, job: str, allocated: int, excluded: Collection[str], wanted: Wanted) -> tuple[str, ...] | str:
    """The nodes of the next attempt; or why there are none."""
    hosts = _nodes_of_job(calls, job)
    if isinstance(hosts, Unclear):
        return hosts.reason
    states = read_node_states(calls.node_states(",".join(hosts)))
    if isinstance(states, Unclear):
        return states.reason
    drained = {node for node in hosts if "DRAIN" in states.get(node, ())}
    asked = [node for node in hosts if "DOWN" not in states.get(node, ())]
    answering = _ask_nodes(calls, job, asked, ()).keys()
    return choose_nodes(hosts, max(allocated, len(hosts)), excluded, answering, drained, wanted)


def why_not_empty(calls: SlurmCalls, job: str, steps: Sequence[SlurmStep], silence: SilentNodes, now: Callable[[], float]) -> str:
    """Empty where nothing is left of steps that squeue still lists; else why that is not known. `silence`: of walks before."""
    job_nodes = _nodes_of_job(calls, job)
    if isinstance(job_nodes, Unclear):
        return job_nodes.reason
    places: dict[str, tuple[str, ...]] = {}
    for step in steps:
        if len(step.nodes) >= STEP_COLUMNS["nodes"]:
            return f"step {step.id} has more nodes than squeue shows"
        hosts = read_hosts(calls.hosts(step.nodes))
        if isinstance(hosts, Unclear):
            return hosts.reason
        places[step.id] = hosts
    held = sorted({node for hosts in places.values() for node in hosts} & set(job_nodes))
    down = find_down(calls, held)
    asked = [node for node in held if node not in down]
    awaited = next((node for node in asked if node in silence.nodes), "")
    if awaited and now() < silence.until_s:
        return f"{awaited} does not answer, and the controller has not given it up"
    answers = _ask_nodes(calls, job, asked, list(places)) if asked else {}
    silence.nodes, silence.until_s = frozenset(asked) - answers.keys(), now() + ASK_AGAIN_S
    reasons = (judge_emptiness(step, hosts, job_nodes, down, answers) for step, hosts in places.items())
    return next((reason for reason in reasons if reason), "")


def find_lost(calls: SlurmCalls, job: str, nodes: Sequence[str]) -> tuple[str, ...]:
    """Which of an attempt's nodes the scheduler has given up; none where it does not say."""
    job_nodes = _nodes_of_job(calls, job)
    if isinstance(job_nodes, Unclear) or not nodes:
        return ()
    down = find_down(calls, [node for node in nodes if node in job_nodes])
    return tuple(node for node in nodes if node not in job_nodes or node in down)


def find_down(calls: SlurmCalls, nodes: Sequence[str]) -> frozenset[str]:
    """Those that the controller calls DOWN; of those of which it says nothing none is."""
    states = read_node_states(calls.node_states(",".join(nodes))) if nodes else {}
    if isinstance(states, Unclear):
        return frozenset()
    return frozenset(node for node, words in states.items() if "DOWN" in words)


def _nodes_of_job(calls: SlurmCalls, job: str) -> tuple[str, ...] | Unclear:
    line = read_job_line(calls.job(job), job)
    if not isinstance(line, JobLine):
        return line
    return read_hosts(calls.hosts(line.nodes)) if line.nodes else Unclear(f"squeue names no nodes of job {job} ({line.state})")


def _ask_nodes(calls: SlurmCalls, job: str, nodes: Sequence[str], steps: Sequence[str]) -> dict[str, NodeWords]:
    """By node, of those that answered. By one step; where a silent node may hide others, those are asked one by one."""
    if not nodes:
        return {}
    answers = read_probe(calls.probe(job, nodes, steps).output)
    silent = [node for node in nodes if node not in answers]
    if not silent or len(nodes) <= TREE_WIDTH:
        return answers
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for reply in pool.map(lambda node: calls.probe(job, [node], steps), silent):
            answers |= read_probe(reply.output)
    return answers
