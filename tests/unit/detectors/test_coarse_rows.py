"""One row alone in a log that is written every 100 steps: a hard batch stands as far out as many a spike, and no second row comes
soon. So it must be further out, a fifth up, borne out by the next row, or by the gradient norm."""

from __future__ import annotations

import random

import pytest

from sentinel.detectors.spike import COARSE_ROW_Z
from tests.unit.detectors.bank_kit import alarms, feed, make_bank, row

HURT, SEEDS = 160, range(20)


def alarmed(seed: int, high: float, count: int = 1, norm: float = 0.0) -> bool:
    """Whether rows `high` times their level, noise 1 %, from row HURT on are an alarm; `norm` times the gradient norm."""
    dice, rows = random.Random(f"coarse/{seed}"), []
    for n in range(1, HURT + 10):
        is_hurt = HURT <= n < HURT + count
        metrics = {"loss": 2.2 * (1.0 + 0.01 * dice.gauss(0.0, 1.0)) * (high if is_hurt else 1.0)}
        if norm:
            metrics["grad_norm"] = 0.3 * dice.lognormvariate(0.0, 0.1) * (norm if is_hurt else 1.0)
        rows.append(row(100 * n, **metrics))
    return bool(alarms(feed(make_bank(), rows)))


def share(high: float, count: int = 1, norm: float = 0.0) -> float:
    return sum(alarmed(seed, high, count, norm) for seed in SEEDS) / len(SEEDS)


def test_a_single_hard_row_ten_deviations_up_is_no_spike() -> None:
    assert share(1.11) <= 0.1


@pytest.mark.parametrize(
    ("high", "count", "norm"), [(1.12, 2, 0.0), (1.14, 1, 6.0), (1.25, 1, 0.0)], ids=["next row", "norm", "a fifth"]
)
def test_what_bears_it_out_makes_it_one(high: float, count: int, norm: float) -> None:
    assert share(high, count, norm) >= 0.9


def test_a_row_far_enough_out_needs_nothing_else() -> None:
    assert share(1.0 + 0.01 * 8.0 * COARSE_ROW_Z * 1.5) >= 0.95
