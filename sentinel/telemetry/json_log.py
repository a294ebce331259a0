"""JSON lines: our own metrics.jsonl, and anybody's with a step in each object (`_step`, `global_step`, `iteration`, …).

Names are translated into Sentinel's own (see `metric_names`). Our start line says how many tokens a step holds: then each
step gets `consumed_tokens`, which is the only use a recorded launch has here. Other kinds of lines are passed over.

    >>> JsonLines()(b'{"_step": 7, "train/loss": 2.5, "_timestamp": 1.7e9}')
    StepReading(attempt=1, step=7, time_s=1700000000.0, samples=(), metrics={'loss': 2.5})
"""

from __future__ import annotations

from typing import Any

from sentinel.model.readings import Receipt, StepReading
from sentinel.run_files.stream_lines import parse_line, parse_object
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical

NAMES_MAX = 4096
HOUSE_KEYS = frozenset({"step", "kind"})


class JsonLines:
    """A line parser; it remembers which names need no translation."""

    remark = ""

    def __init__(self) -> None:
        self._plain: set[str] = set()
        self._tokens_per_step = 0

    def __call__(self, line: bytes) -> StepReading | None:
        try:
            reading = parse_line(line, ATTEMPT)
        except ValueError:
            reading = parse_line(_with_step(line), ATTEMPT)
        if not isinstance(reading, StepReading):
            if isinstance(reading, Receipt):
                self._tokens_per_step = reading.tokens_per_step or 0
            return None
        if not self._plain.issuperset(reading.metrics):
            reading = self._renamed(reading)
        if self._tokens_per_step and "consumed_tokens" not in reading.metrics:
            metrics = {**reading.metrics, "consumed_tokens": float(self._tokens_per_step * reading.step)}
            reading = StepReading(ATTEMPT, reading.step, reading.time_s, reading.samples, metrics)
        return reading

    def _renamed(self, reading: StepReading) -> StepReading:
        time_s = reading.time_s
        metrics: dict[str, float] = {}
        for key, value in reading.metrics.items():
            name = canonical(key)
            if name == key and len(self._plain) < NAMES_MAX:
                self._plain.add(key)
            if name == "time_s":
                time_s = time_s or (value if value - value == 0.0 else 0.0)
            elif name != "step":
                metrics.setdefault(name, value)
        return StepReading(ATTEMPT, reading.step, time_s, reading.samples, metrics)


def looks_like_json_lines(line: bytes) -> bool:
    """Is it an object that names a step, or one of our own kinds?"""
    try:
        keys = parse_object(line).keys()
    except ValueError:
        return False
    return not HOUSE_KEYS.isdisjoint(keys) or any(canonical(key) == "step" for key in keys)


def _with_step(line: bytes) -> bytes:
    """The line with its step under the key `step`. ValueError where it has none."""
    from sentinel.client.strict_json import dumps

    fields: dict[str, Any] = parse_object(line)
    for key, value in fields.items():
        if canonical(key) == "step" and isinstance(value, (int, float, str)):
            fields["step"] = _number(value)
            return dumps(fields).encode()
    raise ValueError("an object without a step")


def _number(value: int | float | str) -> int | float | str:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value
