"""What a run has cost and will cost, row by row: `sentinel.report.cost` has each number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sentinel.report.cost import HOUR_S, PARTS, cost_document, forecast_document
from sentinel.report.following import RunSnapshot
from sentinel.report.snapshot import is_idle, still_since_s
from sentinel.run_files.stall import stall_of

BOUNDS = {"likely": "end_at_s", "earliest": "earliest_at_s", "latest": "latest_at_s"}


def cost_rows(snapshot: RunSnapshot) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """What is not known has no row."""
    state, senses = snapshot.state, snapshot.senses
    stall = stall_of(state, snapshot.now_s, senses)
    cost = cost_document(state, snapshot.now_s, still_since_s(snapshot, stall), senses.gpus_in_use, snapshot.losses)
    if cost["gpus"] is not None:
        yield "sentinel_gpus", (), float(cost["gpus"])
    for part in PARTS:
        if cost[part]["gpu_hours"] is not None:
            yield "sentinel_gpu_seconds", (part,), cost[part]["gpu_hours"] * HOUR_S
        if cost[part]["money"] is not None:
            yield "sentinel_cost", (part, cost["currency"]), cost[part]["money"]
    seconds: defaultdict[str, float] = defaultdict(float)
    hours: defaultdict[str, float] = defaultdict(float)
    for one in cost["incidents"]:
        seconds[one["kind"]] += one["lost_s"]
        hours[one["kind"]] += one["gpu_hours"] if one["gpu_hours"] is not None else float("nan")
    for kind, value in seconds.items():
        yield "sentinel_incident_lost_seconds", (kind,), float(value)
        if hours[kind] == hours[kind]:  # NaN: of one of them it is not known
            yield "sentinel_incident_lost_gpu_seconds", (kind,), float(hours[kind]) * HOUR_S
    is_stalled = stall is not None or is_idle(snapshot)
    forecast = forecast_document(state, snapshot.now_s, snapshot.step, snapshot.total_steps, cost, is_stalled=is_stalled)
    for bound, key in BOUNDS.items() if not forecast["unknown"] else ():
        yield "sentinel_forecast_end_timestamp_seconds", (bound,), forecast[key]
