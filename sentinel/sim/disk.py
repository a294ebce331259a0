"""The disk of the simulated run directory as it is looked at: nothing is known of it before a fault has filled it. And what is
drawn to befall it."""

from __future__ import annotations

import random

from sentinel.model.disks import CHECKPOINTS_PLACE, DiskReading, SavedCheckpoint
from sentinel.model.readings import Reading
from sentinel.sim.world import World
from sentinel.telemetry.disks import EVERY_S

BYTES, FILES = 1 << 30, 3  # of every checkpoint
DISK_BYTES = 1 << 60
FULL_DISKS = 0.1  # of the runs that are drawn


class SimDisk:
    """As `telemetry.disks.DiskSource`, of one filesystem that counts no inodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._looked_s = float("-inf")

    def poll(self, now_s: float) -> list[Reading]:
        left = self._world.room_left
        if left is None or now_s - self._looked_s < EVERY_S:
            return []
        self._looked_s = now_s
        committed = [self._world.store.committed[step] for step in sorted(self._world.store.committed)]
        saves = tuple(SavedCheckpoint(found.step, BYTES, FILES, now_s - found.committed_s) for found in committed)
        return [DiskReading(CHECKPOINTS_PLACE, "/sim", int(left * BYTES), DISK_BYTES, None, saves, len(saves))]


def draw_full_disk(dice: random.Random) -> list[str]:
    """For a while no checkpoint, or only one or a few, finds room."""
    if dice.random() > FULL_DISKS:
        return []
    return [f"disk@time={dice.randrange(5, 200)}:left={dice.choice((0, 1, 1.5, 30))},for={dice.choice((10, 60, 150))}"]


def draw_blindness(dice: random.Random) -> list[str]:
    """Nothing that tells of the ranks' life can be read for a while: a filesystem that hangs."""
    if dice.random() > 0.05:
        return []
    at_s, seconds = dice.randrange(1, 150), dice.choice((20, 50, 120))
    return [f"blind@time={at_s}:source={source},for={seconds}" for source in ("metrics", "heartbeats")]
