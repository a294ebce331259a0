"""On how many GPUs an attempt trained: told by its receipt, seen by NVML, or unknown with the reason."""

from __future__ import annotations

import pytest

from sentinel.model.attempts import SettingsInForce
from sentinel.model.state import Attempt, RunState
from sentinel.plan.gpus import gpus_of


def attempt(number: int, ranks: int | None = None, gpus: int | None = None) -> Attempt:
    receipt_s = None if ranks is None else 1.0
    return Attempt(number, 0.0, None, SettingsInForce(), "test", receipt_s=receipt_s, world_size=ranks, gpus=gpus)


def run(*attempts: Attempt) -> RunState:
    return RunState(attempts=attempts)


@pytest.mark.parametrize(
    ("ranks", "told", "in_use", "count", "why"),
    [
        (8, 8, None, 8, ""),
        (8, 0, 8, 0, ""),  # its own word first
        (8, None, 8, 8, ""),
        (16, None, 8, 16, ""),  # on two machines, of which one is seen
        (8, None, None, None, "no GPU was seen"),
        (1, None, 8, None, "names 1 ranks"),  # what a receipt without a world size amounts to
        (None, None, 8, None, "has not reported yet"),
    ],
)
def test_of_one_attempt(ranks: int | None, told: int | None, in_use: int | None, count: int | None, why: str) -> None:
    found = gpus_of(run(attempt(1, ranks, told)), in_use)
    assert (found.of[1], found.now) == (count, count)
    assert why in found.why
    assert bool(found.why) == (count is None)


def test_an_attempt_without_a_receipt_counts_as_those_around_it_where_they_agree() -> None:
    alike = gpus_of(run(attempt(1, 8, 8), attempt(2), attempt(3, 8, 8), attempt(4)), None)
    assert (alike.of, alike.now) == ({1: 8, 2: 8, 3: 8, 4: 8, 0: 8}, 8)
    shrunk = gpus_of(run(attempt(1, 8, 8), attempt(2), attempt(3, 4, 4)), None)
    assert shrunk.of == {1: 8, 2: None, 3: 4, 0: None}, "the archive is of nobody knows which"
    assert gpus_of(run(), None).why == "nothing was launched yet"
