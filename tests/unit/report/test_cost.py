"""What a run cost, in seconds, GPU hours and money; what each incident cost of it; and nothing where nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sentinel.engine import evolve
from sentinel.engine.goodput import account
from sentinel.model import facts as f
from sentinel.model.price import Price
from sentinel.model.state import RunState
from sentinel.report.cost import cost_document, cost_rows, cost_words, due_words, forecast_document, forecast_words
from sentinel.report.losses import Losses
from tests.unit.told_run import at, entries_of, told, told_on_gpus

USD = Price(3.6, "USD")


def folded(facts: Sequence[tuple[float, f.Fact]]) -> tuple[RunState, Losses]:
    state, losses = RunState(), Losses()
    for entry in entries_of(facts):
        state = evolve(state, entry.at_s, entry.fact)
        losses.take(state, entry)
    return state, losses


def cost_of(facts: Sequence[tuple[float, f.Fact]], now: float = 150, in_use: int | None = None) -> dict[str, Any]:
    state, losses = folded(facts)
    return cost_document(state, at(now), None, in_use, losses.of_incidents(state, at(now)))


def test_the_parts_are_the_ledger_in_gpu_hours_and_money() -> None:
    state, _ = folded(told())
    ledger, cost = account(state, at(150)), cost_of(told_on_gpus(2, USD))
    assert cost["total"]["s"] == pytest.approx(ledger.total_s) == pytest.approx(150)
    assert cost["trained"]["s"] == pytest.approx(ledger.seconds["training"] + ledger.seconds["checkpointing"])
    assert cost["thrown_away"]["s"] == pytest.approx(ledger.seconds["replay"])
    for part in ("total", "trained", "thrown_away", "downtime", "lost"):
        assert cost[part]["gpu_hours"] == pytest.approx(2 * cost[part]["s"] / 3600, abs=1e-4)
        assert cost[part]["money"] == pytest.approx(3.6 * 2 * cost[part]["s"] / 3600, abs=1e-3)
    assert cost["lost"]["s"] == pytest.approx(cost["thrown_away"]["s"] + cost["downtime"]["s"])
    assert (cost["gpus"], cost["unknown"], cost["price"], cost["currency"]) == (2, "", 3.6, "USD")


def test_an_incident_cost_what_was_thrown_away_and_the_downtime_until_new_ground() -> None:
    crash, spike = cost_of(told_on_gpus(2, USD))["incidents"]
    # killed at 30 s, last save at 24 s, receipt of the next attempt at 34 s
    assert (crash["incident"], crash["kind"], crash["is_over"]) == (1, "crash", True)
    assert (crash["thrown_away_s"], crash["downtime_s"], crash["lost_s"]) == (6.0, 4.0, 10.0)
    assert (crash["gpu_hours"], crash["money"]) == (pytest.approx(20 / 3600, abs=1e-4), pytest.approx(0.02, abs=1e-3))
    # visible at 90 s, last save at 80 s, the attempt's last step at 90.9 s, receipt at 96 s
    assert (spike["thrown_away_s"], spike["downtime_s"]) == (pytest.approx(10.9), pytest.approx(5.1))


def test_the_cost_of_an_open_incident_grows() -> None:
    facts = told_on_gpus(2, USD, until=92.6)
    early, late = cost_of(facts, 93)["incidents"][1], cost_of(facts, 95)["incidents"][1]
    assert not early["is_over"]
    assert late["lost_s"] - early["lost_s"] == pytest.approx(2.0)


def test_ranks_alone_prove_no_gpu() -> None:
    cost = cost_of(told())
    assert cost["gpus"] is None
    assert "no GPU was seen" in cost["unknown"]
    assert {cost[part]["gpu_hours"] for part in ("total", "trained", "lost")} == {None}
    assert cost["incidents"][0]["lost_s"] == 10.0, "seconds are known all the same"
    assert cost["incidents"][0]["gpu_hours"] is None
    assert "GPU hours are unknown" in cost_words(cost)
    assert cost_of(told(), in_use=2)["total"]["gpu_hours"] == pytest.approx(300 / 3600, abs=1e-4), "NVML saw the ranks on GPUs"


def test_a_trainer_on_a_cpu_costs_no_gpu_hours() -> None:
    cost = cost_of(told_on_gpus(0, USD))
    assert (cost["gpus"], cost["total"]["gpu_hours"], cost["total"]["money"]) == (0, 0.0, 0.0)
    assert "without a GPU" in cost_words(cost)


def test_without_a_price_there_is_no_money() -> None:
    cost = cost_of(told_on_gpus(2))
    assert (cost["price"], cost["total"]["money"]) == (None, None)
    assert cost_words(cost).startswith("0.08 GPU hours, lost of it 0.0")


def test_the_words_of_a_terminal() -> None:
    state, losses = folded(told_on_gpus(8, USD))
    cost = cost_document(state, at(150), None, None, losses.of_incidents(state, at(150)))
    forecast = forecast_document(state, at(150), 600, 600, cost)
    rows = dict(cost_rows(cost, forecast))
    assert rows["cost"] == "0.33 GPU hours, 1.20 USD, lost of it 0.07 GPU hours, 0.24 USD"
    crash = "incident 1 (crash) 10 s, 0.02 GPU hours, 0.08 USD"
    assert rows["dearest"] == f"incident 2 (spike) 16 s, 0.04 GPU hours, 0.13 USD; {crash}"
    assert "end" not in rows, "a run that has ended needs no forecast"


def test_the_rest_costs_what_the_forecast_says() -> None:
    facts = told_on_gpus(2, USD, until=104)
    saves = [(104 + n, f.CheckpointCommitted(3, 350 + 25 * n, "c", 0, f"d{n}", 0.0)) for n in range(1, 5)]
    state, losses = folded([*facts, *saves])
    cost = cost_document(state, at(110), None, None, losses.of_incidents(state, at(110)))
    found = forecast_document(state, at(110), 460, 600, cost)
    assert (found["unknown"], found["left_steps"]) == ("", 140)
    assert found["low_s"] < found["left_s"] < found["high_s"]
    assert found["end_at_s"] == pytest.approx(at(110) + found["left_s"], abs=0.11)
    assert found["gpu_hours"] == pytest.approx(2 * found["left_s"] / 3600, abs=1e-3)
    assert found["money_high"] == pytest.approx(3.6 * 2 * found["high_s"] / 3600, abs=1e-2)
    due = due_words(found, "USD")
    assert due == f"{found['gpu_hours']:.2f} GPU hours, {found['money']:.2f} USD more"
    assert forecast_words(found, "USD").endswith(f"; {due}")
    assert due_words({"unknown": "no step is being made", "is_over": False}, "USD") == ""
    assert due_words(found | {"gpu_hours": None, "money": None}, "USD") == due_words(found | {"gpu_hours": 0.0}, "USD") == ""
    assert forecast_document(state, at(110), 460, None, cost) == {
        "unknown": "the trainer does not say how many steps the run is to have", "is_over": False,
    }  # fmt: skip
