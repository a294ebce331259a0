"""Which nodes take part in the next attempt, and whether anything of a step is left on one. Pure: replies in, verdicts out.

A step may be listed for as long as its job lasts though no process of it lives: one of whose nodes died as the others ended
(Slurm 22.05 then never completes it), and one whose client was killed between its creation and its tasks. So each of its nodes is
asked, by a step of its own (`PROBE`). The same question tells which nodes answer at all before a launch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sentinel.launcher.slurm.answers import Reply, Unclear, why_no_answer
from sentinel.launcher.slurm.settings import Wanted
from sentinel.run_files.attempt_files import is_same_host

# One task on each node. It says who it is, and what its slurmd knows of each step that it is asked about. slurmd answers for
# this node alone, so a controller that has lost its state cannot make a process disappear. A line is short enough that
# srun hands it on whole (1,024 bytes).
MARK = "sentinel-probe"
PROBE = (
    f'echo "{MARK}|$SLURMD_NODENAME||"; '
    'for step in "$@"; do words=$(scontrol listpids "$step" "$SLURMD_NODENAME" 2>&1); code=$?; '
    f'echo "{MARK}|$SLURMD_NODENAME|$step|$code|$(echo "$words" | tr "\\n" " " | cut -c -600)"; done'
)
NAMED_MAX = 8
_NODE = re.compile(r"NodeName=(\S+) ")
_STATE = re.compile(r" State=(\S+)")
_PID = re.compile(r"^PID\s+JOBID\s+STEPID\s+LOCALID\s+GLOBALID\s+\d+\s")


@dataclass(frozen=True, slots=True)
class NodeWords:
    """What a node answered. `steps`: by step, what `judge_left` makes of it; one that is missing was not answered."""

    steps: Mapping[str, str]


def read_probe(output: str) -> dict[str, NodeWords]:
    """By node, of those that answered. A line that is no answer is passed over."""
    found: dict[str, dict[str, str]] = {}
    for line in output.splitlines():
        mark, _, rest = line.partition("|")
        cells = rest.split("|", 3)
        if mark != MARK or len(cells) < 3 or not cells[0]:
            continue
        node, step = cells[0], cells[1]
        steps = found.setdefault(node, {})
        if step and len(cells) == 4:
            steps[step] = judge_left(node, step, cells[2], cells[3])
    return {node: NodeWords(steps) for node, steps in found.items()}


NOTHING = "nothing"


def judge_left(node: str, step: str, code: str, words: str) -> str:
    """NOTHING where the node's slurmd says that it has no such step; else what it says."""
    if code == "1" and f"StepId={step} does not exist on node {node}." in words:
        return NOTHING
    if code == "0" and _PID.match(words.strip()) is not None:
        return f"processes of step {step} live on {node}"
    return f"{node} does not say whether it has step {step}: {' '.join(words.split())[:200]!r}"


def judge_emptiness(
    step: str, nodes: Iterable[str], job_nodes: Collection[str], down: Collection[str], answers: Mapping[str, NodeWords]
) -> str:
    """Empty where nothing of the step is left on any of its nodes; else why that is not known.

    `nodes`: the step's. A node that its job has lost (`job_nodes`), or that the controller calls DOWN, has been given up: no rank
    is placed there any more."""
    for node in nodes:
        if node not in job_nodes or node in down:
            continue
        answer = answers.get(node)
        if answer is None:
            return f"{node} does not answer, and the controller has not given it up"
        left = answer.steps.get(step, f"{node} does not say whether it has step {step}")
        if left != NOTHING:
            return left
    return ""


def read_hosts(reply: Reply) -> tuple[str, ...] | Unclear:
    """From `scontrol show hostnames`."""
    if trouble := why_no_answer(reply):
        return Unclear(f"scontrol show hostnames: {trouble}")
    hosts = tuple(reply.output.split())
    return hosts or Unclear("scontrol show hostnames named none")


def read_node_states(reply: Reply) -> dict[str, frozenset[str]] | Unclear:
    """By node, the words of its state, as DOWN, DRAIN, NOT_RESPONDING; from `scontrol show node --oneliner`."""
    if trouble := why_no_answer(reply):
        return Unclear(f"scontrol show node: {trouble}")
    states: dict[str, frozenset[str]] = {}
    for line in reply.output.splitlines():
        name, state = _NODE.match(line), _STATE.search(line)
        if name is None or state is None:
            return Unclear(f"scontrol show node printed a line that cannot be read: {line[:200]!r}")
        states[name[1]] = frozenset(re.sub(r"[^A-Z_+]", "", state[1]).split("+"))
    return states


def choose_nodes(
    job_nodes: tuple[str, ...],
    allocated: int,
    excluded: Collection[str],
    answering: Collection[str],
    drained: Collection[str],
    wanted: Wanted,
) -> tuple[str, ...] | str:
    """Those that take part, in the job's order; or why there are too few.

    `allocated`: how many nodes the job began with. `excluded`: blamed ones, as heartbeats name them. `drained`: cordoned by the
    cluster's own people, and taken last."""
    count = wanted.nodes if wanted.nodes is not None else max(1, allocated - wanted.spares)
    blamed = [node for node in job_nodes if any(is_same_host(node, host) for host in excluded)]
    silent = [node for node in job_nodes if node not in answering and node not in blamed]
    usable = [node for node in job_nodes if node not in blamed and node not in silent]
    taken = [node for node in usable if node not in drained] + [node for node in usable if node in drained]
    least = count if wanted.least is None else min(wanted.least, count)
    if len(taken) < least:
        why = [f"{_names(silent)} silent"] if silent else []
        why += [f"{_names(blamed)} left out until uncordoned"] if blamed else []
        why += [f"{allocated - len(job_nodes)} lost by the job"] if allocated > len(job_nodes) else []
        reason = f" ({'; '.join(why)})" if why else ""
        return f"{len(taken)} of the {allocated} nodes of the job can take part{reason}, and {least} are needed"
    chosen = set(taken[:count])
    return tuple(node for node in job_nodes if node in chosen)


def _names(nodes: list[str]) -> str:
    more = f" and {len(nodes) - NAMED_MAX} more" if len(nodes) > NAMED_MAX else ""
    return f"{', '.join(nodes[:NAMED_MAX])}{more} {'is' if len(nodes) == 1 else 'are'}"
