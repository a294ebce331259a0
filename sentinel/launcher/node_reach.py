"""The way to nodes: which would take part in an attempt, and a command run on each. Each launcher has its own, or none.

What a reply means is judged elsewhere (`plan/node_check.py`), so that whatever else stands on every node can carry the command
one day.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from sentinel.client.machine import NODE_VARIABLE, read_host
from sentinel.launcher.asking import AskLimits, Reply, ask, without
from sentinel.model.amounts import time_words
from sentinel.model.node_checks import NodeReply

OUTPUT_BYTES_MAX = 1 << 16
ENDED_BY_SHELL = (126, 127)  # cannot be run; not found


class NodeReach(Protocol):
    """Neither call raises for a node that does not answer; each ends by its deadline."""

    def participants(self, exclude: Collection[str]) -> tuple[str, ...] | str:
        """The nodes that an attempt without `exclude` would have now, by the names that heartbeats give them; or why that is not
        known."""
        ...

    def run(self, nodes: Sequence[str], command: Sequence[str], timeout_s: float) -> Mapping[str, NodeReply]:
        """Run the command on each node, all at once. A node that is missing in the answer did not answer."""
        ...


class LocalReach:
    """This machine alone."""

    def __init__(self, withheld: frozenset[str]) -> None:
        """`withheld`: variables that the command does not inherit."""
        self._withheld = withheld

    def participants(self, exclude: Collection[str]) -> tuple[str, ...]:
        del exclude  # there is no other machine
        return (read_host(),)

    def run(self, nodes: Sequence[str], command: Sequence[str], timeout_s: float) -> Mapping[str, NodeReply]:
        here = read_host()
        if here not in nodes:
            return {node: NodeReply(None, "", f"this is {here}; the launcher 'local' reaches no other machine") for node in nodes}
        environment = without(os.environ, self._withheld) | {NODE_VARIABLE: here}
        limits = AskLimits(timeout_s, bytes_max=OUTPUT_BYTES_MAX, ends_all=True)
        reply = as_node_reply(ask(command, environment, limits), timeout_s)
        others = (node for node in nodes if node != here)
        return {here: reply} | {node: NodeReply(None, "", f"this is {here}") for node in others}


def as_node_reply(reply: Reply, timeout_s: float) -> NodeReply:
    """How a command that was run here ended."""
    if reply.status is None:
        return NodeReply(None, reply.output, f"it did not end within {time_words(timeout_s)}")
    return NodeReply(reply.status, reply.output, reply.errors)
