"""What the agent of a node sees, and what it may be asked to do. The files are those of `run_files.agent_files`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sentinel.model.readings import Doing, HardwareReading, HardwareWhat

OrderWord = Literal["stacks", "signal", "kill", "clean", "check"]
"""`stacks`: look at the ranks, and ask them for their Python stacks. `signal`: send the ranks one. `kill`: end every process of
the attempt. `clean`: end every process of attempts before it. `check`: run the node's own check."""

Outcome = Literal["begun", "done", "failed", "sick", "unknown"]
"""`begun`: not answered yet. `done`: what was asked for holds now. `failed`: it does not. `sick`: the check says that the node
is. `unknown`: it cannot be told."""

HARDWARE_EVENTS: frozenset[HardwareWhat] = frozenset(
    ("xid", "machine_check", "machine_check_corrected", "memory_error", "pcie_error", "io_error", "oom_kill")
)
"""What happens once, and is no state that lasts."""


@dataclass(frozen=True, slots=True)
class AgentOrder:
    """One thing that agents are asked for. The same `id` is carried out once by each.

    Attributes:
        launch: of that launch of the attempt alone; None: of any.
        ranks: of these alone; none are named: of all. nodes: the same of agents. spares: not by the agent of this node.
        signal: its number, of `signal`.
        with_dumps: of `stacks`: ask for the dumps of PyTorch's flight recorder, too.
        words: of `check`: the command of the policy. An agent runs its own where it is the same, and no other.
    """

    id: str
    word: OrderWord
    attempt: int
    launch: str | None = None
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    spares: str = ""
    signal: int = 0
    with_dumps: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What came of an order on one node. `count`: ranks that were signalled or looked at, processes that were ended."""

    id: str
    outcome: Outcome
    text: str = ""
    count: int = 0


class BeatOnNode(NamedTuple):
    """A rank's heartbeat, as far as a supervisor reads it; the names are those of `Heartbeat`. `stack_signal`: by which it can be
    asked for its stack; None where it offers none."""

    step: int
    phase: str
    time_s: float
    stack_signal: int | None
    busy_step: int
    busy_s: float | None
    host: str


class RankOnNode(NamedTuple):
    """A rank whose process lives there. `beat`: its heartbeat as it stands, None where it has none of this process. `doing` and
    `where`: as in `SilentRank`."""

    attempt: int
    rank: int
    pid: int
    doing: Doing = "runs"
    where: str = ""
    beat: BeatOnNode | None = None


@dataclass(frozen=True, slots=True)
class EndedOnNode:
    """A rank whose process was seen there and is gone: the kernel of the node shows it no more. `code`: by its own record."""

    attempt: int
    rank: int
    pid: int
    code: int | None = None


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """Something that the node's hardware or kernel told. `number`: from 1, in the order in which this agent heard it.
    `age_s`: how long ago, in seconds, by the node's own clock, when the report was written."""

    number: int
    age_s: float
    reading: HardwareReading


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What one agent has last written.

    Attributes:
        node: as the heartbeats of its ranks name the machine. boot_id: which boot of it.
        life: a word that no other start of an agent has. turn: how often this one has looked; it changes with each report.
        blind: why it cannot see a source, by name.
        has_left: it was ended in order, and writes no more.
    """

    node: str
    boot_id: str
    life: str
    turn: int
    ranks: tuple[RankOnNode, ...] = ()
    ended: tuple[EndedOnNode, ...] = ()
    hardware: tuple[NodeHardware, ...] = ()
    blind: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, AgentAnswer] = field(default_factory=dict)
    has_left: bool = False

    def says_ended(self, attempt: int, rank: int, pid: int | None, boot_id: object) -> bool:
        """Whether the process that a heartbeat names by `pid` and `boot_id` was seen there and is gone, as the kernel of its node
        shows. An agent that has ended all that it sees proves nothing of a process that it never saw: it may stand in another
        process namespace."""
        if pid is None or (isinstance(boot_id, str) and boot_id and boot_id != self.boot_id):
            return False
        return any((one.attempt, one.rank, one.pid) == (attempt, rank, pid) for one in self.ended)


def kill_id(attempt: int, launch: str | None) -> str:
    """Of the order that ends an attempt."""
    return f"kill/{attempt}/{launch or ''}"
