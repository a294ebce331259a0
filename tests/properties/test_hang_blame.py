"""Drawn hangs: a rank stops anywhere in a step, the others go on to where they must wait for it, and some are seen late.

What is drawn: ranks (2 to 64, eight on a machine), which machines can be looked into, the phase it stops in, and how it stops (by
a signal, blocked in the kernel, in code of its own, in work that shows no stack). Others wait in the collective that the rank did
not join; a few may stand in the one before it, which the rank has passed while its last bytes had not left, and among those one
may still show the save of the step before.
"""

from __future__ import annotations

import random

import pytest

from sentinel.detectors.hang_blame import RankEvidence, choose_blame
from sentinel.detectors.rank_places import Beat
from sentinel.model.readings import Doing, Phase, SilentRank

STEP: tuple[Phase, ...] = ("data", "forward", "backward", "optimizer")
ON_A_MACHINE = 8


def draw_hang(seed: int) -> tuple[dict[int, Beat], RankEvidence, int, bool]:
    """The heartbeats, the evidence, the rank that stopped, and whether its machine can be looked into."""
    draw = random.Random(seed)
    ranks, step = draw.choice([2, 2, 3, 8, 16, 64]), draw.randrange(50, 5000)
    stopped, phase = draw.randrange(ranks), draw.choice(STEP)
    at_s = {rank: 100.0 + draw.uniform(0.0, 0.5) for rank in range(ranks)}
    beats = {stopped: Beat(step, phase, at_s[stopped], at_s[stopped])}
    waits: Phase = "forward" if phase == "data" else phase  # the collective of this phase, which the rank has not joined
    for rank in set(range(ranks)) - {stopped}:
        beats[rank] = Beat(step, waits, at_s[rank], at_s[rank])
    if phase == "data" and draw.random() < 0.3:
        late: Phase = draw.choice(["optimizer", "checkpoint"]) if ranks == 2 else "optimizer"
        for rank in draw.sample(sorted(set(beats) - {stopped}), max(1, (ranks - 1) // 4)):
            beats[rank] = Beat(step - 1, late, at_s[rank], at_s[rank])
    machines = range((ranks + ON_A_MACHINE - 1) // ON_A_MACHINE)
    seen_machines = set(machines) if draw.random() < 0.7 else {0}
    how: Doing = draw.choice(["stopped", "stopped", "blocked", "works", "runs"])
    has_stacks = draw.random() < 0.8
    seen = {}
    for rank in beats:
        if rank // ON_A_MACHINE in seen_machines:
            does: Doing = how if rank == stopped else "waits" if has_stacks else "runs"
            seen[rank] = SilentRank(1, rank, "runs" if does == "works" and not has_stacks else does)
    is_shown = stopped in seen and (how in ("stopped", "blocked") or (how == "works" and has_stacks and len(seen) == ranks))
    return beats, RankEvidence(seen), stopped, is_shown


@pytest.mark.parametrize("first", range(0, 2000, 200))
def test_of_drawn_hangs_the_right_rank_is_blamed_and_never_another(first: int) -> None:
    shown = right = 0
    for seed in range(first, first + 200):
        beats, evidence, stopped, is_shown = draw_hang(seed)
        blamed = choose_blame(beats, len(beats), evidence, 160.0).rank
        assert blamed in (None, stopped), f"seed {seed}: rank {blamed} is blamed for rank {stopped}"
        shown += is_shown
        right += is_shown and blamed == stopped
    assert right >= 0.99 * shown > 50
