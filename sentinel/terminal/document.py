"""A picture of the terminal as a JSON document: what `sentinel top --json` prints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sentinel.engine.goodput import account
from sentinel.run_files.gpu_standing import GpuSeen
from sentinel.run_files.stall import run_word
from sentinel.terminal.picture import METRICS, Picture, newest_step, shown_incident


def picture_document(picture: Picture) -> dict[str, Any]:
    """`curves`: by metric, the newest steps and values. `incident`: the newest open one, else the newest of all, or null."""
    state, stall = picture.state, picture.stall
    incident = shown_incident(state)
    summary = None if incident is None else {"id": incident.id, "kind": str(incident.kind), "state": str(incident.state)}
    return {
        "run": state.run_id,
        "state": run_word(state, stall),
        "has_ended": bool(state.ended),
        "reason": state.end_reason or state.held or state.waits_for or (stall.words(picture.now_s) if stall else ""),
        "attempt": state.attempt.attempt if state.attempt else None,
        "step": newest_step(picture),
        "total_steps": picture.total,
        "step_time_s": picture.step_time_s,
        "elapsed_s": round(picture.now_s - state.created_s, 3),
        "goodput": round(account(state, picture.now_s, picture.still_since_s).goodput_ratio, 4),
        "incident": summary,
        "ranks": [asdict(seen) for seen in picture.ranks],
        "gpus": [_gpu(gpu) for gpu in picture.gpus],
        "gpus_why_not": picture.gpus_why_not,
        "curves": {metric: points for metric in METRICS if (points := _points(picture, metric))},
        "events": [{"when": when.strip(), "text": line.text.strip(), "tone": line.tone} for when, line in picture.lines],
        "standbys": list(picture.standbys),
        "warnings": list(picture.warnings),
        "needs": None if picture.needs is None else dict(picture.needs),
    }


def _points(picture: Picture, metric: str) -> list[tuple[int, float]]:
    return [(point.step, point.values[metric]) for point in picture.points if metric in point.values]


def _gpu(gpu: GpuSeen) -> dict[str, Any]:
    return {
        "index": gpu.index, "name": gpu.name, "lost": gpu.lost, "busy_percent": gpu.busy_percent,
        "memory_used_bytes": gpu.memory_used_bytes, "memory_total_bytes": gpu.memory_total_bytes,
        "temperature_c": gpu.temperature_c, "power_mw": gpu.power_mw,
    }  # fmt: skip
