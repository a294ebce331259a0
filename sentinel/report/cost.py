"""What the run has cost and will cost, in seconds, GPU hours and money: `cost` and `forecast` of the status document, and words.

All of it comes from the goodput ledger. What is not known is null, and `unknown` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sentinel.engine.forecast import Forecast, forecast_end
from sentinel.engine.goodput import account_attempts
from sentinel.model.amounts import time_words
from sentinel.model.price import Price
from sentinel.model.state import RunState
from sentinel.plan.gpus import ARCHIVE, Gpus, gpus_of
from sentinel.report.losses import IncidentLoss

PARTS = {
    "trained": ("training", "checkpointing"),
    "thrown_away": ("replay",),
    "downtime": ("detection", "recovery", "waiting"),
}
"""The accounts of the ledger that each part sums."""
DEAREST_SHOWN = 3
HOUR_S = 3600.0


def cost_document(
    state: RunState, now_s: float, stalled_since_s: float | None, in_use: int | None, losses: Sequence[IncidentLoss]
) -> dict[str, Any]:
    """`in_use`: as `gpus_of`. `lost` is what was thrown away and downtime together; `total` is all of it."""
    gpus, price = gpus_of(state, in_use), state.price
    spent = {ARCHIVE: dict(state.archive.seconds), **account_attempts(state, now_s, stalled_since_s)}
    parts = {name: _amount(_sums(spent, accounts), gpus, price) for name, accounts in PARTS.items()}
    lost = _amount(_sums(spent, (*PARTS["thrown_away"], *PARTS["downtime"])), gpus, price)
    total = _amount(_sums(spent, [name for accounts in PARTS.values() for name in accounts]), gpus, price)
    is_known = total["gpu_hours"] is not None
    return {
        "gpus": gpus.now,
        "unknown": "" if is_known else gpus.why or "not every attempt says on how many GPUs it trained",
        "price": price.amount if price is not None else None,
        "currency": price.currency if price is not None else "",
        "total": total,
        **parts,
        "lost": lost,
        "incidents": [incident_cost(loss, gpus, price) for loss in losses],
    }


def incident_cost(loss: IncidentLoss, gpus: Gpus, price: Price | None) -> dict[str, Any]:
    """`is_over` false: it still grows."""
    seconds = loss.seconds
    amount = _amount({number: sum(spent.values()) for number, spent in loss.gained.items()}, gpus, price)
    return {
        "incident": loss.incident,
        "kind": loss.kind,
        "is_over": loss.is_over,
        "thrown_away_s": round(seconds["replay"], 3),
        "downtime_s": round(sum(seconds[name] for name in PARTS["downtime"]), 3),
        "lost_s": round(loss.lost_s, 3),
        "gpu_hours": amount["gpu_hours"],
        "money": amount["money"],
        "currency": price.currency if price is not None else "",
    }


def forecast_document(
    state: RunState, now_s: float, step: int | None, total_steps: int | None, cost: Mapping[str, Any], *, is_stalled: bool = False
) -> dict[str, Any]:
    """`is_over`: the run has ended. `unknown`: why there is no forecast, and then there is nothing else. Times are Unix seconds;
    GPU hours and money are what the rest will cost, likely and within the same bounds. `cost`: the document.
    `is_stalled`: no step is being made, and no end is promised."""
    found = "no step is being made" if is_stalled else forecast_end(state, now_s, step, total_steps)
    if isinstance(found, str):
        return {"unknown": found, "is_over": bool(state.ended)}
    return {
        "unknown": "",
        "is_over": False,
        "left_steps": found.left_steps,
        "left_s": round(found.left_s, 1),
        "low_s": round(found.low_s, 1),
        "high_s": round(found.high_s, 1),
        "end_at_s": round(now_s + found.left_s, 1),
        "earliest_at_s": round(now_s + found.low_s, 1),
        "latest_at_s": round(now_s + found.high_s, 1),
        "step_s": round(found.step_s, 4),
        "stretches": found.stretches,
        **_still_due(found, cost),
    }


def cost_rows(cost: Mapping[str, Any], forecast: Mapping[str, Any]) -> list[tuple[str, str]]:
    """For a terminal and a page of text."""
    rows = [("cost", cost_words(cost))]
    dearest = sorted((one for one in cost["incidents"] if one["lost_s"] >= 0.05), key=lambda one: -one["lost_s"])[:DEAREST_SHOWN]
    if dearest:
        each = [f"incident {one['incident']} ({one['kind']}) {incident_words(one)}" for one in dearest]
        rows.append(("dearest", "; ".join(each)))
    return rows if forecast["is_over"] else [*rows, ("end", forecast_words(forecast, cost["currency"]))]


def cost_words(cost: Mapping[str, Any]) -> str:
    """What the run cost by now, and what of that was lost."""
    total, lost = _total_and_lost(cost)
    return f"{total}, lost of it {lost}{_unknown(cost)}"


def cost_cells(cost: Mapping[str, Any], forecast: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the run cost, what of that was lost, and what the rest will cost, under a name each: a phone shows a line of each."""
    total, lost = _total_and_lost(cost)
    cells = [("cost", total + _unknown(cost)), ("lost of it", lost)]
    due = due_words(forecast, cost["currency"])
    return [*cells, ("until its end", due)] if due else cells


def _total_and_lost(cost: Mapping[str, Any]) -> tuple[str, str]:
    total, lost, currency = cost["total"], cost["lost"], cost["currency"]
    if total["gpu_hours"] is None or (not total["gpu_hours"] and cost["gpus"] == 0):
        without = "" if total["gpu_hours"] is None else " without a GPU"
        return time_words(total["s"]) + without, time_words(lost["s"])
    return amount_words(total, currency), amount_words(lost, currency)


def _unknown(cost: Mapping[str, Any]) -> str:
    return "" if cost["total"]["gpu_hours"] is not None else f"; GPU hours are unknown: {cost['unknown']}"


def incident_words(one: Mapping[str, Any]) -> str:
    """What one incident cost: 40 s, 0.02 GPU hours, 0.05 USD."""
    seconds = one["lost_s"]
    lasted = time_words(seconds)
    return f"{lasted}, {amount_words(one, one['currency'])}" if one["gpu_hours"] else lasted


def forecast_words(forecast: Mapping[str, Any], currency: str) -> str:
    if forecast["unknown"]:
        return f"unknown: {forecast['unknown']}"
    end = datetime.fromtimestamp(forecast["end_at_s"], UTC).strftime("%Y-%m-%d %H:%M UTC")
    bounds = f"{time_words(forecast['low_s'])} to {time_words(forecast['high_s'])}"
    due = due_words(forecast, currency)
    return f"in {time_words(forecast['left_s'])} ({bounds}), {end}" + (f"; {due}" if due else "")


def due_words(forecast: Mapping[str, Any], currency: str) -> str:
    """What the rest will cost: 3.10 GPU hours, 7.75 USD more. Empty where that is not known, and without a GPU."""
    is_known = not forecast["unknown"] and forecast["gpu_hours"]
    return f"{amount_words(forecast, currency)} more" if is_known else ""


def amount_words(amount: Mapping[str, Any], currency: str) -> str:
    """GPU hours, of a hundred on in whole ones, and the money where there is a price."""
    money = f", {Price(1.0, currency).words(amount['money'])}" if amount["money"] is not None else ""
    hours = amount["gpu_hours"]
    return f"{hours:,.{0 if hours >= 100 else 2}f} GPU hours{money}"


def _sums(spent: Mapping[int, Mapping[str, float]], accounts: Sequence[str]) -> dict[int, float]:
    return {number: sum(seconds.get(name, 0.0) for name in accounts) for number, seconds in spent.items()}


def _amount(seconds: Mapping[int, float], gpus: Gpus, price: Price | None) -> dict[str, float | None]:
    """`seconds` by attempt. GPU hours only where the GPUs of every attempt that took time are known."""
    took = {number: value for number, value in seconds.items() if value}
    counts = {number: gpus.of.get(number) for number in took}
    known = [value * count for number, value in took.items() if (count := counts[number]) is not None]
    hours = max(0.0, sum(known)) / HOUR_S if len(known) == len(took) else None
    return {
        "s": round(max(0.0, sum(took.values())), 3),
        "gpu_hours": None if hours is None else round(hours, 4),
        "money": None if hours is None or price is None else round(hours * price.amount, 4),
    }


def _still_due(found: Forecast, cost: Mapping[str, Any]) -> dict[str, float | None]:
    """The rest on as many GPUs as the newest attempt has."""
    due: dict[str, float | None] = {}
    for name, seconds in (("", found.left_s), ("_low", found.low_s), ("_high", found.high_s)):
        hours = None if cost["gpus"] is None else seconds * cost["gpus"] / HOUR_S
        due[f"gpu_hours{name}"] = None if hours is None else round(hours, 4)
        due[f"money{name}"] = None if hours is None or cost["price"] is None else round(hours * cost["price"], 4)
    return due
