"""Whom drawn flight recorders blame: ranks in tensor and data groups, processors that run ahead of their devices, lost dumps.

A rank is hurt at a drawn collective: its program puts no further one in line, or its device stands still. With
processors ahead, 160 of 200 such draws named the hurt rank alone before, and the others healthy ones beside it; of a device that
stands still 8 to 74.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sentinel.detectors.collectives import WaitedFor, judge_collectives
from sentinel.model.collectives import Collective

SEEDS = range(25)
STEPS, LAYERS = 3, 3
Call = tuple[tuple[str, tuple[int, ...]], int]
"""A group, and a number in it."""


@dataclass(frozen=True)
class World:
    """`programs`: each rank's calls in order. `hurt` stops at call `at`."""

    programs: dict[int, list[Call]]
    hurt: int
    at: int
    ahead: dict[int, int]
    is_device: bool

    def stands(self, rank: int, place: int) -> bool:
        return rank == self.hurt and place >= self.at


def draw(dice: random.Random, ahead_max: int, *, is_device: bool) -> World:
    ranks, tensor = dice.choice((8, 16, 32)), dice.choice((2, 4))
    programs: dict[int, list[Call]] = {}
    for rank in range(ranks):
        base = rank // tensor * tensor
        tp, dp = ("tp", tuple(range(base, base + tensor))), ("dp", tuple(range(rank % tensor, ranks, tensor)))
        numbers: dict[str, int] = defaultdict(int)
        calls: list[Call] = []
        for group in [*[tp] * LAYERS, dp, ("world", tuple(range(ranks)))] * STEPS:
            numbers[group[0]] += 1
            calls.append((group, numbers[group[0]]))
        programs[rank] = calls
    ahead = {rank: dice.randint(0, ahead_max) for rank in programs}
    return World(programs, dice.randrange(ranks), dice.randint(1, len(programs[0]) - 2), ahead, is_device)


def run(world: World) -> tuple[dict[int, int], dict[int, int]]:
    """How many calls each rank has put in line, and how many its device has done, when nothing moves any more."""
    issued, done = dict.fromkeys(world.programs, 0), dict.fromkeys(world.programs, 0)
    places = {rank: {call: at for at, call in enumerate(calls)} for rank, calls in world.programs.items()}

    def ends(call: Call) -> bool:
        return all(
            issued[member] > (at := places[member][call])
            and done[member] >= at
            and not (world.is_device and world.stands(member, at))
            for member in call[0][1]
        )

    moved = True
    while moved:
        moved = False
        for rank, calls in world.programs.items():
            limit = min(len(calls), done[rank] + 1 + world.ahead[rank])
            limit = min(limit, world.at) if rank == world.hurt and not world.is_device else limit
            moved, issued[rank] = moved or limit > issued[rank], max(limit, issued[rank])
            while done[rank] < issued[rank] and ends(calls[done[rank]]):
                done[rank], moved = done[rank] + 1, True
    return issued, done


def entries(world: World, rank: int, issued: int, done: int, *, is_timed: bool) -> Iterator[Collective]:
    for at, (group, number) in enumerate(world.programs[rank][:issued]):
        starts = is_timed and at == done and not (world.is_device and world.stands(rank, at))
        yield Collective(group, number, "nccl:all_reduce", "completed" if at < done else "started" if starts else "scheduled")


def judged(
    seed: int, ahead_max: int, *, is_device: bool = False, is_timed: bool = True, lost: float = 0.0
) -> tuple[int, WaitedFor | None]:
    dice = random.Random(seed)
    world = draw(dice, ahead_max, is_device=is_device)
    issued, done = run(world)
    kept = [rank for rank in world.programs if rank == world.hurt or dice.random() >= lost]
    dumps = {rank: tuple(entries(world, rank, issued[rank], done[rank], is_timed=is_timed)) for rank in kept}
    return world.hurt, judge_collectives(dumps)


@pytest.mark.parametrize("ahead_max", [0, 3, 8])
@pytest.mark.parametrize(
    ("is_device", "is_timed", "lost"),
    [(False, False, 0.0), (False, True, 0.1), (True, True, 0.0)],
    ids=["program", "lost dumps", "device"],
)
def test_the_hurt_rank_alone_is_blamed(ahead_max: int, is_device: bool, is_timed: bool, lost: float) -> None:
    for seed in SEEDS:
        hurt, found = judged(seed, ahead_max, is_device=is_device, is_timed=is_timed, lost=lost)
        assert found is not None, seed
        assert found.ranks == (hurt,), (seed, found.reason)


def test_nobody_is_blamed_where_a_device_stands_still_and_no_start_is_recorded() -> None:
    for seed in SEEDS:
        assert judged(seed, 3, is_device=True, is_timed=False)[1] is None


def test_a_device_that_reports_nothing_as_done_is_found_by_what_the_others_completed() -> None:
    group = ("tp", (0, 1, 2))
    done = tuple(Collective(group, number, "x", "completed") for number in range(5))
    failed = (*done[:3], *(Collective(group, number, "x", "scheduled") for number in (3, 4, 5)))
    waits = (*done, Collective(group, 5, "x", "scheduled"))
    found = judge_collectives({0: waits, 1: failed, 2: waits})
    assert found is not None
    assert found.ranks == (1,)
    stale = (*done[:3], Collective(group, 3, "x", "scheduled"), done[4], Collective(group, 5, "x", "scheduled"))
    other = judge_collectives({0: waits, 1: stale, 2: done})
    assert other is not None
    assert other.ranks == (2,), "an entry that was never marked as done is no device that stands still"


def test_of_lost_dumps_only_a_whole_node_or_the_one_that_all_wait_for_is_blamed() -> None:
    world = ("world", tuple(range(32)))
    open_ = (Collective(world, 4, "x", "scheduled"),)
    for absent, blamed in ((range(8, 16), tuple(range(8, 16))), ((5, 17), (5, 17)), ((5,), (5,))):
        found = judge_collectives({rank: open_ for rank in range(32) if rank not in absent})
        assert found is not None
        assert found.ranks == blamed
    fours = [(f"tp{at}", tuple(range(at, at + 4))) for at in range(0, 32, 4)]
    waits = {rank: (Collective(fours[rank // 4], 1, "x", "scheduled"),) for rank in range(32) if rank not in (5, 17)}
    assert judge_collectives(waits) is None, "one is hurt, or both, or a dump was lost"
