"""Healthy streams of an awkward kind raise no alarm: each kind is drawn with many seeds, logged every step and every tenth.

HEALTHY_SEED_BASE=N draws others. What is drawn stands in each function; all are healthy by construction.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator

import pytest

from sentinel.model.findings import Kind
from tests.properties.healthy import alarms_of

BASE = int(os.environ.get("HEALTHY_SEED_BASE", "20261126"))
SEEDS = 20
ROWS = 1_500
Rows = Iterator[dict[str, float]]


def rounded(dice: random.Random, places: int) -> Rows:
    level, noise, descent = dice.choice((0.4, 1.3, 2.2, 3.7, 9.6)), dice.choice((0.003, 0.01, 0.02, 0.04)), dice.choice((0, 1))
    for row in range(ROWS):
        falling = level * (1.0 + 2.0 * descent * math.exp(-row / 150.0) + 0.1 * math.exp(-row / 1500.0))
        norm = dice.lognormvariate(-1.0, 0.15)
        yield {"loss": round(falling * (1.0 + dice.gauss(0.0, noise)), places), "grad_norm": round(norm, 1)}


def one_decimal(dice: random.Random) -> Rows:
    return rounded(dice, 1)


def whole_numbers(dice: random.Random) -> Rows:
    return rounded(dice, 0)


def log_likelihood(dice: random.Random) -> Rows:
    """Of densities: it begins above zero and ends below."""
    level, tau = dice.choice((-0.5, -1.5, -3.0, -80.0)), dice.choice((100.0, 400.0))
    scale = max(1.0, -level)
    height, noise = dice.choice((2.0, 5.0)) * scale, dice.choice((0.01, 0.03, 0.1)) * scale
    for row in range(ROWS):
        yield {"loss": level + height * math.exp(-row / tau) + dice.gauss(0.0, noise)}


def reward(dice: random.Random) -> Rows:
    """The negative of one, which goes from +1 to -1."""
    noise = dice.choice((0.05, 0.2))
    for row in range(ROWS):
        yield {"loss": -math.tanh((row - ROWS / 2) / 300.0) + dice.gauss(0.0, noise)}


def near_zero(dice: random.Random) -> Rows:
    level, noise = dice.choice((0.0, -0.01, 0.01)), dice.choice((0.02, 0.1))
    for row in range(ROWS):
        yield {"loss": level + 0.9 * math.exp(-row / 150.0) + dice.gauss(0.0, noise)}


def restarted(dice: random.Random, warm_up: int) -> Rows:
    """A cosine that starts again and again: the loss rises by up to 30 % with the rate, and comes down with it, later."""
    length, times, lowest = dice.choice((250, 400, 600)), dice.choice((1, 2)), dice.choice((0.0, 0.01, 0.1))
    higher, rise, fall = dice.uniform(0.05, 0.3), dice.choice((1, 5, 20)), dice.choice((20, 60, 150))
    noise, start, bump = dice.choice((0.003, 0.01, 0.03)), 0, 0.0
    for row in range(ROWS):
        if row - start >= length:
            start, length = row, length * times
        rate = lowest + (1.0 - lowest) * 0.5 * (1.0 + math.cos(math.pi * (row - start) / length))
        if start and row - start < warm_up:
            rate = lowest + (1.0 - lowest) * (row - start + 1) / warm_up
        bump += (higher * rate - bump) / (rise if higher * rate > bump else fall)
        level = (2.2 + 3.0 * math.exp(-row / 150.0)) * (1.0 + bump)
        yield {"loss": level * (1.0 + dice.gauss(0.0, noise)), "lr": 3e-4 * rate}


def warm_restarts(dice: random.Random) -> Rows:
    return restarted(dice, 0)


def restarts_with_a_warm_up(dice: random.Random) -> Rows:
    return restarted(dice, dice.choice((5, 20, 50, 100)))


KINDS = (one_decimal, whole_numbers, log_likelihood, reward, near_zero, warm_restarts, restarts_with_a_warm_up)


@pytest.mark.parametrize("cadence", [1, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_it_raises_no_alarm(kind: Callable[[random.Random], Rows], cadence: int) -> None:
    found = {}
    for seed in range(BASE, BASE + SEEDS):
        alarms = alarms_of(kind(random.Random(f"{kind.__name__}/{seed}")), cadence=cadence)
        if alarms:
            found[seed] = [f"{one.detected_step}: {one.reason}" for one in alarms]
    assert not found


@pytest.mark.parametrize("kind", [one_decimal, log_likelihood, reward, warm_restarts])
def test_a_fault_in_it_is_found_all_the_same(kind: Callable[[random.Random], Rows]) -> None:
    """A jump that stays: eight times the range of four fifths of the rows, and half a nat at least."""
    for seed in range(BASE, BASE + SEEDS):
        rows = list(kind(random.Random(f"{kind.__name__}/{seed}")))
        late = sorted(row["loss"] for row in rows[1000:1200])
        jump = max(0.5, 8.0 * (late[-20] - late[19]))
        for row in rows[1200:]:
            row["loss"] += jump
        assert any(1200 < one.detected_step <= 1210 for one in alarms_of(rows)), seed


@pytest.mark.parametrize("later", [3, 30])
def test_a_loss_that_leaves_the_level_it_had_at_the_rate_is_found_in_a_restart(later: int) -> None:
    """The second restart, at row 800, lifts it to one and a half of what the first one did."""
    for seed in range(SEEDS):
        dice = random.Random(seed)
        rows = []
        for row in range(1000):
            rate = 0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * (row % 400) / 400))
            fault = 1.5 if row >= 800 + later else 1.0
            rows.append({"loss": 2.2 * (1.0 + 0.1 * rate) * fault + dice.gauss(0.0, 0.02), "lr": 3e-4 * rate})
        found = alarms_of(rows)
        assert [one.kind for one in found] == [Kind.SPIKE], seed
        assert 800 + later < found[0].detected_step <= 805 + later, seed
