"""What stands in the stream files of a run, for people: its receipt, its newest step, the last value of a metric.

For showing only. Whoever decides reads through `telemetry`, which misses no line and says when it is blind; here a file that
is missing, torn or damaged simply shows nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import stream_path
from sentinel.client.strict_json import as_float

RECEIPT_BYTES_MAX = 1 << 20
TAIL_BYTES = 1 << 18  # some hundred lines, also of a trainer that reports every layer
NO_METRIC = frozenset({"kind", "v", "step", "time_s", "samples", "attempt", "rank"})


def read_total_steps(run_dir: Path, attempt: int) -> int | None:
    """How many steps the whole run is to have, as the attempt's receipt says; None when it does not."""
    try:
        with open(stream_path(run_dir, attempt), "rb") as file:
            receipt = _object(file.readline(RECEIPT_BYTES_MAX))
    except OSError:
        return None
    total = receipt.get("steps")
    return total if type(total) is int and total > 0 else None


def read_tokens_per_sample(run_dir: Path, attempt: int) -> float | None:
    """From the receipt's tokens a step and the samples of the newest step; None when either is not said."""
    try:
        with open(stream_path(run_dir, attempt), "rb") as file:
            tokens = _object(file.readline(RECEIPT_BYTES_MAX)).get("tokens_per_step")
    except OSError:
        return None
    for line in _newest_first(stream_path(run_dir, attempt)):
        try:
            samples = sum(end - start for start, end in line.get("samples") or ())
        except (TypeError, ValueError):
            return None
        if type(tokens) is int and type(samples) is int and tokens > 0 and samples > 0:
            return tokens / samples
    return None


def read_newest_step(run_dir: Path, attempt: int) -> int | None:
    """The newest step of the attempt's stream; None when it has none."""
    for line in _newest_first(stream_path(run_dir, attempt)):
        step = line.get("step")
        if line.get("kind", "step") == "step" and type(step) is int:
            return step
    return None


def read_newest_metrics(run_dir: Path, attempt: int) -> tuple[int, dict[str, float]] | None:
    """Step and metrics of the newest step line; None when none of the last lines is one."""
    for line in _newest_first(stream_path(run_dir, attempt)):
        step = line.get("step")
        if line.get("kind", "step") == "step" and type(step) is int:
            return step, dict(_metrics(line))
    return None


def read_last_metric(run_dir: Path, attempt: int, name: str) -> tuple[int, float] | None:
    """Step and value of the newest step line that has the metric; None when none of the last lines has it."""
    for line in _newest_first(stream_path(run_dir, attempt)):
        step = line.get("step")
        if name in line and type(step) is int:
            try:
                return step, as_float(line[name])
            except ValueError:
                continue
    return None


def _metrics(line: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in line.items():
        if name not in NO_METRIC:
            with suppress(ValueError):
                yield name, as_float(value)


def _newest_first(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of the last lines, newest first. A torn last line is none."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).split(b"\n")
    except OSError:
        return
    if size > TAIL_BYTES:
        del lines[0]  # its beginning was not read
    for line in reversed(lines):
        found = _object(line)
        if found:
            yield found


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
