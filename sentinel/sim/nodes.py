"""The simulated way to nodes: where the ranks would be placed, and what the check of each node says."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sentinel.model.node_checks import NodeReply
from sentinel.sim.outside_faults import place_ranks
from sentinel.sim.shape import Shape
from sentinel.sim.world import World

SAYS = {
    "healthy": NodeReply(0),
    "mended": NodeReply(0),
    "sick": NodeReply(1, "GPU 3b:00 has fallen off the bus\n"),
    "unknown": NodeReply(None, "", "it did not end within its time"),
}


class SimNodeReach:
    """`launcher.node_reach.NodeReach` over the nodes of a simulated cluster."""

    def __init__(self, world: World, shape: Shape) -> None:
        self._world = world
        self._shape = shape

    def participants(self, exclude: Collection[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place_ranks(self._shape.ranks, self._shape.nodes, tuple(exclude))))

    def run(self, nodes: Sequence[str], command: Sequence[str], timeout_s: float) -> Mapping[str, NodeReply]:
        del command, timeout_s
        for node in nodes:
            self._world.record_change("check", node)
        return {node: SAYS[self._world.node_words.get(node, "healthy")] for node in nodes}
