"""The end of a run as forecast: of a steady run without doubt, of one with incidents with a spread that holds."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sentinel.engine import evolve
from sentinel.engine.forecast import Forecast, forecast_end
from sentinel.model import facts as f
from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.model.state import RunState


def fold(*told: tuple[float, f.Fact]) -> RunState:
    state = RunState()
    for at_s, fact in told:
        state = evolve(state, at_s, fact)
    return state


def launch(number: int, step: int = 0) -> f.AttemptLaunched:
    return f.AttemptLaunched(number, ResumePoint(step, "p") if step else None, SettingsInForce(), "test")


def saved(number: int, step: int) -> f.CheckpointCommitted:
    return f.CheckpointCommitted(number, step, "p", 0, f"{number}-{step}", 0.0)


STEADY = ((0.0, launch(1)), (100.0, f.ReceiptSeen(1, 0, 2)), *((100.0 + n * 50, saved(1, n * 50)) for n in range(1, 6)))
CRASHED = (
    *STEADY, (370.0, f.AttemptEnded(1, "crashed", "x", 270, 370.0)), (371.0, launch(2, 250)), (400.0, f.ReceiptSeen(2, 250, 2)),
    (450.0, saved(2, 300)), (500.0, saved(2, 350)),
)  # fmt: skip


def found(state: RunState, now_s: float, step: int, total: int | None) -> Forecast:
    forecast = forecast_end(state, now_s, step, total)
    assert isinstance(forecast, Forecast), forecast
    return forecast


def test_a_steady_run_ends_when_its_steps_say() -> None:
    forecast = found(fold(*STEADY), 360.0, 260, 1260)
    assert (forecast.left_steps, forecast.step_s) == (1000, pytest.approx(1.0))
    assert (forecast.low_s, forecast.left_s, forecast.high_s) == tuple(pytest.approx(1000.0) for _ in range(3))


def test_what_went_wrong_so_far_goes_on_going_wrong() -> None:
    """400 s from the first receipt to step 350, and 50 of them lost: steps that were trained twice, and what lay between."""
    forecast = found(fold(*CRASHED), 500.0, 350, 1050)
    assert forecast.step_s == pytest.approx(400 / 350)
    assert forecast.left_s == pytest.approx(800.0)
    assert 700.0 <= forecast.low_s < 800.0 < forecast.high_s, "nobody trains faster than the fastest stretch"


def test_while_nothing_trains_the_end_moves_away() -> None:
    down = fold(*CRASHED, (510.0, f.AttemptEnded(2, "crashed", "x", 360, 510.0)))
    early, late = found(down, 520.0, 360, 1050), found(down, 620.0, 360, 1050)
    assert early.left_steps == late.left_steps == 700, "steps behind the last save are to be trained again"
    assert late.left_s > early.left_s + 100


@pytest.mark.parametrize(
    ("state", "total", "why"),
    [
        (fold(*STEADY), None, "does not say how many steps"),
        (fold(*STEADY[:4]), 600, "2 stretches between saves were seen, and 3 are needed"),
        (fold(*STEADY[:1]), 600, "no step was seen yet"),
        (fold(*STEADY), 250, "every step is trained"),
        (fold(*STEADY, (400.0, f.RunEnded("failed", "x"))), 600, "the run has ended: failed"),
        (replace(fold(*STEADY), held="a person"), 600, "training is held"),
    ],
)
def test_what_cannot_be_known_is_unknown_and_says_why(state: RunState, total: int | None, why: str) -> None:
    forecast = forecast_end(state, 360.0, 250, total)
    assert isinstance(forecast, str)
    assert why in forecast


def test_the_bounds_hold_four_runs_of_five() -> None:
    """400 runs of 60 stretches, one in eight with an incident of 20 to 200 s, forecast after 20 of them."""
    inside = 0
    for seed in range(400):
        draw = random.Random(seed)
        took = [draw.gauss(50, 2) + (draw.uniform(20, 200) if draw.random() < 0.125 else 0.0) for _ in range(60)]
        saves = ((100.0 + sum(took[:n]), saved(1, n * 50)) for n in range(1, 21))
        forecast = found(fold(*STEADY[:2], *saves), 100.0 + sum(took[:20]), 1000, 3000)
        inside += forecast.low_s <= sum(took[20:]) <= forecast.high_s
    assert 0.72 <= inside / 400 <= 0.88


@pytest.mark.parametrize("total", [10**10, 2**63 - 1, 10**400])
def test_a_total_that_nobody_waits_for_is_no_end(total: int) -> None:
    """Some trainers say sys.maxsize where somebody else is to stop them; no calendar has the day."""
    assert "more than fifty years" in str(forecast_end(fold(*STEADY), 360.0, 260, total))
    assert found(fold(*STEADY), 360.0, 260, 10**9).left_steps == 10**9 - 260
