"""What a check of nodes is asked for, what a node answered, and what it came to. A node that did not answer is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckPurpose = Literal["launch", "suspicion", "readmit"]


@dataclass(frozen=True, slots=True)
class NodeReply:
    """How the command ended on a node. `code` None: it did not end, or was never started, and `trouble` says why. `output`: what
    it printed on its standard output, as far as it was read."""

    code: int | None
    output: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class NodeWord:
    """A node, and why it is called what it is called."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class NodeVerdicts:
    """What a check came to. `trouble`: why no node could be asked, or not known which; empty where all were asked."""

    healthy: tuple[str, ...] = ()
    sick: tuple[NodeWord, ...] = ()
    unknown: tuple[NodeWord, ...] = ()
    trouble: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        return (*self.healthy, *(word.node for word in (*self.sick, *self.unknown)))


@dataclass(frozen=True, slots=True)
class Blame:
    """How often the evidence blamed a node since it was last known to be healthy: by distinct incidents and attempts. `incident`,
    `attempt`: of the newest. `is_checked`: it was checked since, and not called healthy."""

    node: str
    times: int
    incident: int
    attempt: int
    is_checked: bool = False
