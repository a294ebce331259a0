"""What befalls an attempt from outside its program: its keeper is killed, its command is sent a signal, or a node is sick: what
runs on that loses its GPU, and dies of it a little later. Nodes beyond those in use are spare."""

from __future__ import annotations

from collections.abc import Iterable
from signal import SIGKILL, SIGTERM

from sentinel.model.readings import HardwareReading
from sentinel.sim.cluster import make_unseen
from sentinel.sim.faults import Fault
from sentinel.sim.processes import Job
from sentinel.sim.world import World

ONE = "sim"  # the only machine of most runs
SPARE_NODES = 2
XID = 79.0  # the GPU has fallen off the bus: nothing but a reset of the node helps
DIES_AFTER_S = 10.0


def place_ranks(ranks: int, nodes: int, excluded: tuple[str, ...]) -> tuple[str, ...]:
    """The node of each rank, in blocks, on the first nodes that are not excluded."""
    if nodes < 2:
        return (ONE,) * ranks
    left = [name for name in (f"node{number}" for number in range(nodes + SPARE_NODES)) if name not in excluded]
    return tuple(left[min(rank * nodes // ranks, len(left) - 1)] for rank in range(ranks))


def inject_from_outside(world: World, job: Job, hosts: tuple[str, ...], due: Iterable[Fault]) -> None:
    """Those of the faults that are none of the trainer's own."""
    for fault in due:
        if fault.kind == "keeper_kill":
            job.signal_keeper(SIGKILL)
        elif fault.kind == "term":
            job.send(min(job.processes), SIGTERM)
        elif fault.kind == "sick_node":
            _sicken(world, job, hosts, fault)
        elif fault.kind == "unseen":
            make_unseen(world, job, hosts, fault)


def _sicken(world: World, job: Job, hosts: tuple[str, ...], fault: Fault) -> None:
    """Once an attempt, where a rank of it runs on the node: an Xid now, a death in DIES_AFTER_S."""
    node = f"node{int(fault.number('node'))}"
    if node not in hosts or (job.attempt, fault.text) in world.sick or world.node_words.get(node) == "mended":
        return
    world.node_words.setdefault(node, "sick")
    world.sick.add((job.attempt, fault.text))
    rank = hosts.index(node)
    text = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    if fault.number("xid"):
        world.hardware.append(HardwareReading("kernel_log", "xid", text, node, "0000:3b:00", XID, rank))
        world.wake()

    def die() -> None:
        job.send(job.rank_process(rank).pid, SIGKILL)

    world.after(DIES_AFTER_S, die)
