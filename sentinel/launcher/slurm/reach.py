"""The way to the nodes of the Slurm job that Sentinel stands in: one overlapping step of one task on each node.

The task prints one line with how the command ended. What a node printed until the deadline counts, whatever becomes of the
others.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from sentinel.launcher.asking import Reply
from sentinel.launcher.slurm.calls import RealCalls, SlurmCalls
from sentinel.launcher.slurm.settings import SlurmSettings
from sentinel.launcher.slurm.walk import AT_ONCE, TREE_WIDTH, find_nodes
from sentinel.launcher.store_port import PORTS
from sentinel.model.amounts import time_words
from sentinel.model.node_checks import NodeReply
from sentinel.run_files.attempt_files import is_same_host

MARK = "sentinel-check"
# A line is short enough that srun hands it on whole (1,024 bytes). Standard error goes to srun's, as far as it is read.
# Of what the check prints the first 64 KiB are held: the shell would have all of it in its memory, beside the ranks. `head` takes
# them, `tail` drops the rest but for its end, which is the status. One that falls between the two is none.
# The variables of torch.distributed are for checks that need the other nodes.
FRONT = (
    "export SENTINEL_NODE=$SLURMD_NODENAME RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_STEP_NUM_TASKS LOCAL_RANK=0 "
    "MASTER_ADDR=$1 MASTER_PORT=$2; "
    'shift 2; words=$({ "$@"; printf "\\nstatus=%s\\n" "$?"; } | { head -c 65536; echo; tail -c 16; }); '
    'last=$(printf "%s\\n" "$words" | tail -n 1); words=$(printf "%s" "${words%"$last"}"); '
    'case $last in status=*) code=${last#status=};; *) code=unknown;; esac; '
    f'printf "%s\\n" "{MARK}|$SLURMD_NODENAME|$code|$(printf "%s" "$words" | tr "\\n|" "  " | cut -c -600)"'
)


class SlurmReach:
    """`node_reach.NodeReach` over one job."""

    def __init__(
        self,
        settings: SlurmSettings,
        withheld: frozenset[str] = frozenset(),
        calls: SlurmCalls | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._calls = calls if calls is not None else RealCalls(settings.timeout_s, settings.probe_s, withheld)
        self._environ = os.environ if environ is None else environ

    def participants(self, exclude: Collection[str]) -> tuple[str, ...] | str:
        """As the launcher chooses them: nodes that do not answer are no part of it."""
        allocated = self._environ.get("SLURM_JOB_NUM_NODES", "")
        held = int(allocated) if allocated.isdecimal() else 0
        return find_nodes(self._calls, self._job, held, exclude, self._settings.wanted)

    def run(self, nodes: Sequence[str], command: Sequence[str], timeout_s: float) -> Mapping[str, NodeReply]:
        groups = [nodes[at : at + TREE_WIDTH] for at in range(0, len(nodes), TREE_WIDTH)]  # a silent node hides those behind it
        with ThreadPoolExecutor(min(AT_ONCE, len(groups) or 1)) as pool:
            asked = [check_words(group[0], command, timeout_s) for group in groups]
            replies = list(pool.map(lambda group, words: self._calls.check(self._job, group, words, timeout_s), groups, asked))
        found: dict[str, NodeReply] = {}
        for group, reply in zip(groups, replies, strict=True):
            found |= judge_group(group, reply, timeout_s)
        return found

    @property
    def _job(self) -> str:
        return self._environ.get("SLURM_JOB_ID", "")


def check_words(first: str, command: Sequence[str], timeout_s: float) -> list[str]:
    """What the step runs, whose first node this is. Its own limit ends it also where whoever asked was killed; Slurm counts in
    minutes."""
    minutes, port = math.ceil(timeout_s / 60.0) + 1, random.SystemRandom().choice(PORTS)
    return ["--time", str(minutes), "sh", "-c", FRONT, MARK, first, str(port), *command]


def read_check(output: str) -> dict[str, NodeReply]:
    """By node, of those that answered. A line that is no answer is passed over."""
    found: dict[str, NodeReply] = {}
    for line in output.splitlines():
        cells = line.split("|", 3)
        if len(cells) == 4 and cells[0] == MARK and cells[1] and cells[2].isdecimal():
            found[cells[1]] = NodeReply(int(cells[2]), cells[3])
    return found


def judge_group(nodes: Sequence[str], reply: Reply, timeout_s: float) -> dict[str, NodeReply]:
    """The reply of each node of one step. One that is not among those of the job is found by no name."""
    answers, found = read_check(reply.output), {}
    late = reply.status is None
    no_answer = f"it did not answer: {reply.trouble or 'no line of it'}"
    why = f"it did not answer within {time_words(timeout_s)}" if late else no_answer
    for node in nodes:
        answer = next((answer for name, answer in answers.items() if is_same_host(name, node)), None)
        found[node] = NodeReply(None, "", why) if answer is None else answer
    return found
