"""Who waits for whom, by drawn and by recorded flight-recorder dumps."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sentinel.detectors.collectives import judge_collectives
from sentinel.model.collectives import Collective
from sentinel.telemetry.flight_recorder import read_dumps

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "flight_recorder"  # beside the checkout
WORLD = ("default_pg", (0, 1, 2, 3))


def line(*numbers: int, group: tuple[str, tuple[int, ...]] = WORLD, name: str = "nccl:all_reduce", state="scheduled"):
    return [Collective(group, number, name, state) for number in numbers]


def named(dumps: dict[int, list[Collective]]) -> tuple[int, ...]:
    found = judge_collectives(dumps)
    return found.ranks if found is not None else ()


def test_who_has_not_joined_is_named_and_a_group_that_is_complete_names_nobody() -> None:
    assert named({0: line(7), 1: line(7), 2: line(6, state="completed"), 3: line(7)}) == (2,)
    assert named({rank: line(7) for rank in range(4)}) == ()
    assert named({rank: line(7, state="completed") for rank in range(4)}) == ()
    assert named({}) == ()


def test_a_rank_that_is_late_because_it_waits_elsewhere_is_not_named() -> None:
    pair, other = ("tp", (2, 3)), ("tp", (0, 1))
    dumps = {
        0: [*line(7), *line(3, group=other, state="completed")],
        1: line(7),
        2: line(9, group=pair),  # it is not in 7 of the world, since it waits for rank 3
        3: line(8, group=pair, state="completed"),
    }
    assert named(dumps) == (3,)


def test_a_rank_with_an_empty_dump_is_behind_and_one_without_a_dump_is_named_only_where_nothing_else_is_known() -> None:
    assert named({0: line(7), 1: line(7), 2: [], 3: line(7)}) == (2,)
    assert named({0: line(7), 1: line(7), 3: line(7)}) == (2,)
    assert named({0: line(7), 1: [], 3: line(7)}) == (1,)
    assert named({0: line(7)}) == ()  # one dump of four says nothing of the three


def test_another_collective_under_the_same_number_names_the_few() -> None:
    dumps = {0: line(7), 1: line(7), 2: line(7, name="nccl:all_gather"), 3: line(7)}
    assert named(dumps) == (2,)
    found = judge_collectives(dumps)
    assert found is not None
    assert found.reason == "flight recorder of 4 ranks: rank 2 in nccl:all_gather where 3 others are in nccl:all_reduce"


def test_what_runs_on_most_devices_and_not_on_one_names_that_one() -> None:
    assert named({rank: line(7, state="scheduled" if rank == 1 else "started") for rank in range(4)}) == (1,)
    assert named({rank: line(7, state="started" if rank == 1 else "scheduled") for rank in range(4)}) == ()


def test_in_a_pipeline_the_stage_that_others_receive_from_is_named() -> None:
    pipe = ("pp", (0, 1, 2, 3))

    def receives(peer: int) -> list[Collective]:
        return [Collective(pipe, 5, f"nccl:recv {peer}", "scheduled", peer=peer, receives=True)]

    sends = [Collective(pipe, 4, "nccl:send", "completed", peer=1)]
    assert named({0: receives(1), 1: receives(2), 2: sends, 3: receives(2)}) == (2,)
    assert named({0: receives(1), 1: receives(0), 2: sends, 3: sends}) == ()  # a circle


def test_drawn_meshes_of_tensor_and_data_parallel_groups_name_the_ranks_that_stopped() -> None:
    """Each rank goes through a program of collectives in its two groups; those that stopped join no more, the others go on until
    they wait. Ranks are told the right answer or nothing, and mostly the right answer."""
    right = 0
    for seed in range(200):
        draw = random.Random(seed)
        tensor, data = draw.choice([2, 4]), draw.choice([2, 4, 8])
        ranks = list(range(tensor * data))
        groups = {
            rank: (
                ("tp", tuple(other for other in ranks if other // tensor == rank // tensor)),
                ("dp", tuple(other for other in ranks if other % tensor == rank % tensor)),
            )
            for rank in ranks
        }
        stopped = set(draw.sample(ranks, draw.choice([1, 1, 2])))
        at = {rank: draw.randrange(3, 12) for rank in ranks}
        dumps = _played(ranks, groups, stopped, at)
        found = named(dumps)
        assert set(found) <= stopped, f"seed {seed}: {found} for {stopped}"
        right += bool(found)
    assert right >= 190


def _played(ranks, groups, stopped, at):
    """Programs of 40 collectives, three of the tensor group to one of the data group."""
    program = [(number % 4 == 3) for number in range(40)]
    place = dict.fromkeys(ranks, 0)  # the next call of each
    for _ in range(40 * len(ranks)):
        moved = False
        for rank in ranks:
            if place[rank] >= len(program) or (rank in stopped and place[rank] >= at[rank]):
                continue
            _, members = groups[rank][program[place[rank]]]
            if all(place[other] >= place[rank] for other in members):
                place[rank] += 1
                moved = True
        if not moved:
            break
    dumps: dict[int, list[Collective]] = {}
    for rank in ranks:
        counts = {"tp": 0, "dp": 0}
        dumps[rank] = []
        waits = rank not in stopped and place[rank] < len(program)
        for number in range(place[rank] + waits):
            group = groups[rank][program[number]]
            counts[group[0]] += 1
            members_passed = all(place[other] + (other not in stopped) > number for other in group[1])
            state = "completed" if number < place[rank] and members_passed else "scheduled"
            dumps[rank].append(Collective(group, counts[group[0]], "nccl:all_reduce", state))
    return dumps


def test_a_sender_that_waits_itself_is_not_named_where_a_dump_is_missing_that_could_explain_it() -> None:
    """Stages 0 and 1 of two ranks each; rank 3 hangs and leaves no dump, and rank 2 waits for it in its tensor group."""
    pipe, tensor = ("pp", (0, 2)), ("tp", (2, 3))
    receives = [Collective(pipe, 5, "nccl:recv 0<-1", "scheduled", peer=2, receives=True)]
    rank_2 = [Collective(pipe, 4, "nccl:send 1->0", "completed", peer=0), *line(9, group=tensor)]
    assert named({0: receives, 2: rank_2}) == ()
    assert named({0: receives, 2: rank_2, 3: line(8, group=tensor, state="completed")}) == (3,)
    assert named({0: receives, 2: rank_2[:1]}) == (2,)  # it has nothing open


def test_a_rank_that_is_late_because_it_receives_from_one_without_a_dump_is_not_named() -> None:
    receives = [Collective(("pp", (2, 5)), 5, "nccl:recv", "scheduled", peer=5, receives=True)]
    assert named({0: line(7), 1: line(7), 2: [*line(6, state="completed"), *receives], 3: line(7)}) == ()


@pytest.mark.parametrize(("name", "lost", "allowed"), [("lock_gil_a", (9, 14), (9, 14)), ("gpu_error_a", (12, 14), (12, 14))])
def test_recorded_dumps_without_those_of_the_hurt_ranks_name_no_healthy_one(name: str, lost: tuple[int, ...], allowed) -> None:
    folder = RECORDED / name
    if not folder.is_dir():
        pytest.skip("the recorded dumps are not here")
    dumps = read_dumps(folder.glob("_dump_*"))
    found = named({rank: list(entries) for rank, entries in dumps.items() if rank not in lost})
    assert set(found) <= set(allowed)


@pytest.mark.parametrize(("name", "ranks"), [("gpu_error_a", (12, 14)), ("lock_gil_a", (9, 14))])
def test_recorded_dumps_of_sixteen_ranks(name: str, ranks: tuple[int, ...]) -> None:
    folder = RECORDED / name
    if not folder.is_dir():
        pytest.skip("the recorded dumps are not here")
    dumps = read_dumps(folder.glob("_dump_*"))
    assert len(dumps) == 16
    assert named({rank: list(entries) for rank, entries in dumps.items()}) == ranks


def test_the_recorded_dumps_can_be_read_from_any_place(tmp_path: Path) -> None:
    assert read_dumps([tmp_path / "rank_0", tmp_path / "none"]) == {}


class Counted(str):
    """A group's description that counts how often the group is hashed, members and all."""

    hashed = 0

    def __hash__(self) -> int:
        Counted.hashed += 1
        return super().__hash__()


def test_the_members_of_a_group_are_not_hashed_for_every_entry() -> None:
    """A thousand ranks with five hundred entries each took 19 s, for the members of their group were hashed twice an entry."""
    group = (Counted("world"), tuple(range(64)))
    dumps = {rank: line(*range(200), group=group, state="completed") for rank in range(64)}
    dumps |= {rank: [*dumps[rank], *line(200, group=group)] for rank in range(64) if rank != 7}
    assert named(dumps) == (7,)
    assert Counted.hashed <= 64
