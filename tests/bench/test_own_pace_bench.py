"""How soon a slow run and a slow rank are found, and how often where there is none: `pytest -m bench -s` on this file."""

from __future__ import annotations

import random
import statistics

import pytest

from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import Heartbeat
from tests.unit.detectors.bank_kit import make_bank, receipt, row

SEEDS, ONSET = 20, 1001


def slowdowns(factor: float, noise: float, seed: int, steps: int) -> list[Finding]:
    dice, bank, time_s, found = random.Random(seed), make_bank(), 1e6, []
    for step in range(1, steps + 1):
        time_s += (factor if step >= ONSET else 1.0) * dice.lognormvariate(0.0, noise)
        found += bank.step(row(step, time_s=time_s, loss=2.0), time_s)
    return [finding for finding in found if finding.kind is Kind.SLOWDOWN]


def stragglers(excess: float, noise: float, seed: int, steps: int, ranks: int = 16) -> list[Finding]:
    dice, bank, found = random.Random(seed), make_bank(), []
    bank.receipt(receipt(world_size=ranks), 0.0)
    for step in range(1, steps + 1):
        for rank in range(ranks):
            busy_s = 0.3 * (excess if rank == 5 and step >= ONSET else 1.0) * dice.lognormvariate(0.0, noise)
            bank.heartbeats([Heartbeat(1, rank, step, "forward", 0.0, busy_s, step)], float(step))
        found += bank.step(row(step, loss=2.0), float(step))
        found += bank.tick(float(step))
    return [finding for finding in found if finding.kind is Kind.STRAGGLER]


def tell(what: str, factor: float, noise: float, runs: list[list[Finding]]) -> None:
    delays = [found[0].detected_step - ONSET for found in runs if found and found[0].detected_step >= ONSET]
    early = sum(1 for found in runs for finding in found if finding.detected_step < ONSET)
    delay = f"{statistics.median_low(delays):4d}" if delays else "   -"
    share = f"found {len(delays):2d}/{len(runs)}"
    print(f"{what:10s} x {factor:3.1f}  noise {noise:3.1f}  {share}  median delay {delay} steps  early {early}")


@pytest.mark.bench
def test_a_run_that_became_slow() -> None:
    print()
    for noise in (0.1, 0.3, 0.6):
        for factor in (1.3, 1.6, 2.0, 3.0):
            tell("slowdown", factor, noise, [slowdowns(factor, noise, seed, 1500) for seed in range(SEEDS)])
        clean = sum(len(slowdowns(1.0, noise, 1000 + seed, 5000)) for seed in range(SEEDS))
        print(f"slowdown   none   noise {noise:3.1f}  {clean} false in {SEEDS * 5000} steps")


@pytest.mark.bench
def test_a_rank_that_became_slow() -> None:
    print()
    for noise in (0.1, 0.3, 0.6):
        for factor in (1.3, 1.6, 2.0, 3.0):
            tell("straggler", factor, noise, [stragglers(factor, noise, seed, 1200) for seed in range(SEEDS // 4)])
        clean = sum(len(stragglers(1.0, noise, 1000 + seed, 2000)) for seed in range(SEEDS // 4))
        print(f"straggler  none   noise {noise:3.1f}  {clean} false in {SEEDS // 4 * 2000} steps of 16 ranks")
