"""What `sentinel status` says about how often to save: what it costs now and could cost, and what of that blocks training."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from sentinel.plan.save_interval import SaveInterval
from sentinel.report.text import _saving_words


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (
            2000,
            "every 500 steps costs 6.1% of the time (1.20% blocked by saves), every 2000 would cost 2.6% (0.30% blocked); "
            "3 interruptions in 2 h of training, 12 s a save; Daly's estimate",
        ),
        (
            900,
            "every 500 steps costs 6.1% of the time (1.20% blocked by saves), near the least "
            "(3 interruptions in 2 h of training, 12 s a save)",
        ),
    ],
)
def test_both_shares_are_told_and_an_interval_that_is_near_is_left_alone(steps: int, words: str) -> None:
    found = SaveInterval(12.0, 3, 7200.0, steps, 500, 0.026, 0.061, 0.003, 0.012)
    assert _saving_words(asdict(found)) == words
