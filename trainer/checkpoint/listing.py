"""What there is in a run's checkpoints/, for people and as JSON. Loads no torch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ..exits import DataError
from .verifying import Verified, check_sizes, list_steps, name_of, read_manifest, verify

COLUMNS = ("step", "saved", "bytes", "attempt", "parent", "ranks", "loss", "state")


def folder_of(place: Path) -> Path:
    """The checkpoints/ of a run directory or --out-dir, which may itself be named. Raises DataError."""
    folder = place if place.name == "checkpoints" else place / "checkpoints"
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such directory; name a run directory or a trainer's --out-dir")
    return folder


def place_of(folder: Path, step: int) -> Path:
    """The directory of a step's checkpoint. Raises DataError, listing the steps there are, where it does not exist."""
    there = list_steps(folder)
    if step not in there:
        known = f"there are {', '.join(map(str, there))}" if there else "there is none at all"
        raise DataError(f"{folder}: has no checkpoint of step {step}; {known}")
    return folder / name_of(step)


def describe_all(folder: Path, *, every_byte: bool) -> list[dict[str, Any]]:
    """A row for each step, rising. `state`: complete (every file has its size), verified (`every_byte`: and its digest), or what
    is wrong."""
    return [describe(folder / name_of(step), step, every_byte=every_byte) for step in list_steps(folder)]


def describe(path: Path, step: int, *, every_byte: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"step": step, "path": str(path), "ok": False}
    try:
        found = read_manifest(path)
        row |= _row_of(found)
        if found.step != step:
            raise DataError(f"{path}: its manifest is of step {found.step}")
        verify(path) if every_byte else check_sizes(found)
    except DataError as error:
        return row | {"state": str(error).removeprefix(f"{path}: ")}
    return row | {"ok": True, "state": "verified" if every_byte else "complete"}


def _row_of(found: Verified) -> dict[str, Any]:
    manifest = found.manifest
    parent, metrics = manifest.get("parent"), manifest.get("metrics")
    return {
        "digest": found.digest,
        "time_s": manifest.get("time_s"),
        "bytes": sum(int(entry["bytes"]) for entry in manifest["files"].values()),
        "attempt": manifest.get("attempt"),
        "parent": parent.get("step") if isinstance(parent, dict) else None,
        "world_size": manifest.get("world_size"),
        "loss": metrics.get("loss") if isinstance(metrics, dict) else None,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Aligned columns under their names; numbers to the right."""
    cells = [COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS) - 1)]
    lines = ["  ".join([*(cell.rjust(width) for cell, width in zip(line[:-1], widths, strict=True)), line[-1]]) for line in cells]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    time_s, loss = row.get("time_s"), row.get("loss")
    saved = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s)) if isinstance(time_s, int | float) else "-"
    loss_text = f"{loss:.4f}" if isinstance(loss, int | float) else _text(loss)
    counts = (_text(row.get(name)) for name in ("attempt", "parent", "world_size"))
    return str(row["step"]), saved, format_bytes(row.get("bytes")), *counts, loss_text, row["state"]


def format_bytes(size: int | None) -> str:
    if size is None:
        return "-"
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
