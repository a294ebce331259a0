"""A level is measured from rows of one kind: those since the logging interval last changed."""

from __future__ import annotations

import math
import random

import pytest

from sentinel.model.incidents import IncidentState
from sentinel.model.readings import StepReading
from sentinel.streams.level import measure_noise, since_newest_interval
from tests.closings import watch
from tests.sim.kit import policy_named


def rows(*spans: range) -> list[tuple[int, float]]:
    return [(step, 0.0) for span in spans for step in span]


@pytest.mark.parametrize(
    ("spans", "first"),
    [
        ((range(100), range(100, 10_000, 500)), 100),
        ((range(0, 10_000, 500), range(10_000, 10_050)), 10_000),
        ((range(300), range(500, 800)), 0),
        ((range(0, 5_000, 100), (4_950, 4_951), range(5_000, 9_000, 100)), 0),
        ((range(0, 3_000, 100), range(3_000, 9_000, 300)), 0),
        ((range(0, 30, 10),), 0),
    ],
    ids=["seldom now", "every step now", "one hole", "two rows more", "three times as seldom", "too few to tell"],
)
def test_rows_of_another_interval_are_left_out(spans: tuple[range, ...], first: int) -> None:
    assert since_newest_interval(rows(*spans))[0][0] == first


def test_a_beginning_logged_every_step_neither_narrows_the_noise_nor_lends_its_descent() -> None:
    """As in a real run: a hundred steps at 12.8, then every 500th at 4.2, a spike of nine rows at step 10,500. The fall of 8 nats
    "within 2,000 steps" explained away that it came back, and the run would have been rolled back at step 21,000."""
    draw = random.Random(20261126)

    def healthy(step: int) -> float:
        return 12.8 if step <= 100 else 4.2 + 4.0 * math.exp(-(step - 400) / 1_200)

    stream = []
    for step in [*range(101), *range(500, 40_000, 500)]:
        up = 3.5 * math.exp(-(step - 10_500) / 2_000) if step >= 10_500 else 0.0
        noise = draw.gauss(0.0, 0.01 if step <= 100 else 0.05)
        stream.append(StepReading(1, step, float(step), (), {"loss": healthy(step) + up + noise}))
    (one,) = watch(stream, policy_named("default"))
    assert (one.incident.onset_step, one.state, one.acted_step) == (10_500, IncidentState.RECOVERED, None)
    assert one.incident.band is not None
    assert one.incident.band.mad > 3 * measure_noise([(row.step, row.metrics["loss"]) for row in stream[:100]])
