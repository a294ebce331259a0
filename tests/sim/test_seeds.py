"""Drawn disasters, every invariant checked after every event: 130 in `make test`, 1,200 with `make drills`. SIM_SEED_BASE=N draws
others."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from sentinel.sim.run import SimulationResult, run_seed
from tests.sim.kit import policy_named

BASE = int(os.environ.get("SIM_SEED_BASE", "20261120"))
CHUNK = 20
EVERY_DAY, DEMO_CHUNKS, LIVE_CHUNKS, PAGING_CHUNKS, DEFAULT_CHUNKS = 4, 50, 6, 4, 3
VARIED_CHUNKS = 3  # of the first; told apart by how they end as well, so that no seed is simulated twice
DEFAULT_CHUNK = 10  # these runs are three times as long


def run_chunk(policy: str, first: int, count: int) -> list[SimulationResult]:
    print(f"base seed {BASE}: seeds {first} to {first + count - 1} under policy {policy}")
    shown = f"tests/sim/{policy}.yaml" if policy in ("live", "paging") else policy
    results = [run_seed(seed, policy_named(policy)) for seed in range(first, first + count)]
    broken = [result.reproduce.replace(f"--policy {policy}", f"--policy {shown}") for result in results if not result.ok]
    assert not broken, "\n".join(broken)
    return results


@pytest.mark.parametrize("chunk", range(VARIED_CHUNKS, EVERY_DAY))
def test_every_invariant_holds_in_drawn_disasters(chunk: int) -> None:
    run_chunk("demo", BASE + chunk * CHUNK, CHUNK)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(EVERY_DAY, DEMO_CHUNKS))
def test_and_in_a_thousand(chunk: int) -> None:
    run_chunk("demo", BASE + chunk * CHUNK, CHUNK)


def first_of(chunks: int) -> list[Any]:
    """The first chunk every day, the others with `make drills`."""
    return [0, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in range(1, chunks))]


@pytest.mark.parametrize("chunk", first_of(LIVE_CHUNKS))
def test_and_under_a_policy_that_changes_living_attempts_and_holds(chunk: int) -> None:
    run_chunk("live", BASE + chunk * CHUNK, CHUNK)


@pytest.mark.parametrize("chunk", first_of(PAGING_CHUNKS))
def test_and_under_a_policy_that_pages_on_several_routes(chunk: int) -> None:
    run_chunk("paging", BASE + chunk * CHUNK, CHUNK)


@pytest.mark.parametrize("chunk", first_of(DEFAULT_CHUNKS))
def test_and_under_the_default_policy_at_full_length(chunk: int) -> None:
    run_chunk("default", BASE + chunk * DEFAULT_CHUNK, DEFAULT_CHUNK)


def test_the_same_seed_gives_the_same_journal_whatever_the_hash_seed() -> None:
    program = (
        "from sentinel.sim.run import run_seed\n"
        "from tests.sim.kit import policy_named\n"
        f"for seed in range({BASE}, {BASE + 12}): print(run_seed(seed, policy_named('demo')).digest)\n"
    )
    outputs = set()
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        outputs.add(ended.stdout)
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 12


def test_every_invariant_holds_and_most_disasters_are_repaired_without_a_person() -> None:
    """The first chunks. The seeds must stay varied: neither only harmless nor only hopeless."""
    results = [result for chunk in range(VARIED_CHUNKS) for result in run_chunk("demo", BASE + chunk * CHUNK, CHUNK)]
    with_incidents = [result for result in results if result.state.incidents]
    repaired = [result for result in with_incidents if result.outcome == "finished" and not result.pages]
    assert len(with_incidents) >= 30
    assert len(with_incidents) > len(repaired) >= 20


def test_at_the_end_the_newest_rows_are_judged_and_not_the_descent_that_was_trained_again() -> None:
    """The run ends a few rows past the break; those from the checkpoint on stood above the level before the onset all along."""
    result = run_seed(20261848, policy_named("demo"))
    assert result.ok, result.broken
    assert (result.outcome, len(result.state.attempts)) == ("finished", 2)
