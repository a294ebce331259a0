"""Nine synthetic faults (one in two lengths) × two kinds of noise × 20 seeds, our detectors beside the published rules, and the
labelled real logs.

    make bench-detect                      prints both tables of sentinel/detectors/README.md
    SENTINEL_LOGS=DIR make bench-detect    where the labelled logs do not lie in ../shared/data/logs

Position, length and magnitude are drawn from the seed. A fault is found when an alarm is raised between its first step and its
deadline. False alarms are counted on clean t4 noise, alarms within 50 steps being one. Loss 3.3 falling slowly, noise 0.05 nats
(healthy global losses have 1 to 3 %), gradient norm log-normal 15 %.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.bench.published_rules import RULES, Rule
from tests.labelled_logs import ABSENT, labelled_logs
from tests.unit.detectors.bank_kit import SpikeConfig
from tests.unit.detectors.score_logs import print_score, score

SEEDS = range(20261120, 20261140)
STEPS = 1_400
CLEAN_STEPS = 100_000
NOISES = ("gaussian", "t4")

Hurt = Callable[[int, float, float], tuple[float, float]]  # steps since the onset, loss, gradient norm


class Fault(NamedTuple):
    name: str
    deadline: int
    make: Callable[[random.Random], Hurt]


def passing(length: int, loss: float, norm: float) -> Hurt:
    return lambda age, x, g: (x + loss, g * norm) if age < length else (x, g)


FAULTS = (
    Fault("NaN, one step", 0, lambda dice: lambda age, x, g: (math.nan, math.nan) if age == 0 else (x, g)),
    Fault("NaN, gradient only", 0, lambda dice: lambda age, x, g: (x, math.nan) if age == 0 else (x, g)),
    Fault("+1 nat, gradient × 10", 10, lambda dice: passing(dice.randint(3, 10), dice.uniform(0.9, 1.2), dice.uniform(8, 12))),
    Fault("the same, one step", 1, lambda dice: passing(1, dice.uniform(0.9, 1.2), dice.uniform(8, 12))),
    Fault("gradient × 4 alone", 20, lambda dice: passing(dice.randint(10, 30), 0.0, dice.uniform(3.7, 4.5))),
    Fault("+0.5 nat, 300 steps", 100, lambda dice: passing(dice.randint(280, 320), dice.uniform(0.45, 0.55), 1.0)),
    Fault("+0.3 nat, for good", 100, lambda dice: passing(STEPS, dice.uniform(0.28, 0.32), 1.0)),
    Fault("drift +0.002 a step", 100, lambda dice: lambda age, x, g: (x + 0.002 * age, g)),
    Fault("drift +0.02 a step", 100, lambda dice: lambda age, x, g: (x + 0.02 * age, g)),
    Fault("exponential blow-up", 100, lambda dice: growing(dice.uniform(8.0, 15.0))),
)


def growing(pace: float) -> Hurt:
    return lambda age, x, g: (x + 0.01 * math.exp(min(age / pace, 9.0)), g * (1.0 + 0.01 * math.exp(min(age / pace, 9.0))))


def draw(dice: random.Random, noise: str) -> float:
    value = dice.gauss(0.0, 1.0)
    return value if noise == "gaussian" else value / math.sqrt(dice.gammavariate(2.0, 1.0) / 2.0)


def first_alarm(rule: Rule, fault: Fault, noise: str, seed: int) -> int | None:
    """Steps from the onset to the first alarm at or after it; None when there was none in time."""
    dice = random.Random(f"{seed}/{noise}/{fault.name}")
    onset, hurt = dice.randint(900, 1100), fault.make(dice)
    for step in range(1, onset + fault.deadline + 1):
        loss = 3.3 + 0.8 * math.exp(-step / 400) + 0.05 * draw(dice, noise)
        norm = 0.3 * math.exp(0.15 * draw(dice, noise))
        if step >= onset:
            loss, norm = hurt(step - onset, loss, norm)
        if rule(step, loss, norm) and step >= onset:
            return step - onset
    return None


def false_alarms(rule: Rule, noise: str, seed: int) -> int:
    dice = random.Random(f"{seed}/{noise}/clean")
    episodes, last = 0, -1000
    for step in range(1, CLEAN_STEPS + 1):
        loss = 3.3 + 0.8 * math.exp(-step / 400) + 0.05 * draw(dice, noise)
        if rule(step, loss, 0.3 * math.exp(0.15 * draw(dice, noise))):
            episodes += step - last > 50
            last = step
    return episodes


def cell(delays: list[int | None]) -> str:
    found = sorted(delay for delay in delays if delay is not None)
    share = 100 * len(found) // len(delays)
    return f"{share} % ({found[len(found) // 2]})" if found else "0 %"


@pytest.mark.bench
def test_nine_faults_beside_the_published_rules() -> None:
    print(f"\nseeds {SEEDS.start} to {SEEDS.stop - 1}; found in time (median delay, steps)\n")
    print("| fault | noise | " + " | ".join(RULES) + " |\n|---|---|" + "---|" * len(RULES))
    ours: dict[tuple[str, str], list[int | None]] = {}
    for fault in FAULTS:
        for noise in NOISES:
            delays = {name: [first_alarm(make(), fault, noise, seed) for seed in SEEDS] for name, make in RULES.items()}
            ours[fault.name, noise] = delays["sentinel"]
            print(f"| {fault.name} | {noise} | " + " | ".join(cell(found) for found in delays.values()) + " |")
    counts = {noise: [false_alarms(make(), noise, SEEDS.start) for make in RULES.values()] for noise in NOISES}
    for noise, falses in counts.items():
        print(f"| false alarms in 100k clean steps | {noise} | " + " | ".join(map(str, falses)) + " |")
    missed = {key: cell(found) for key, found in ours.items() if sum(delay is not None for delay in found) < 0.95 * len(SEEDS)}
    assert not missed, missed
    assert max(counts["t4"][0], counts["gaussian"][0]) <= 10


@pytest.mark.bench
def test_labelled_real_logs() -> None:
    logs = labelled_logs()
    if logs is None:
        print(f"\n{ABSENT}")
        pytest.skip(ABSENT)
    print(f"\nlabelled logs: {logs}")
    result = score(logs, SpikeConfig())
    print_score(result)
    found, events = result.recall("strong")
    assert found >= 0.95 * events
    assert result.false_per_10k <= 0.1
