"""JSON lines: our own metrics.jsonl, and anybody's with a step in each object (`_step`, `global_step`, `iteration`, …).

Names are translated into Sentinel's own (see `metric_names`). Our start line says how many tokens a step holds: then each
step gets `consumed_tokens`, which is the only use a recorded launch has here. Other kinds of lines are passed over. Metrics that
are nested one level deep are found (`{"step": 7, "train": {"loss": 2.5}}`; NVIDIA's DLLogger).

    >>> JsonLines()(b'{"_step": 7, "train/loss": 2.5, "_timestamp": 1.7e9}')
    StepReading(attempt=1, step=7, time_s=1700000000.0, samples=(), metrics={'loss': 2.5})
"""

from __future__ import annotations

from typing import Any

from sentinel.model.readings import Receipt, StepReading
from sentinel.run_files.stream_lines import StreamReading, parse_line, parse_object, step_reading
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical

NAMES_MAX = 4096
WRAPPERS = frozenset({"data", "metrics", "log", "logs", "values", "scalars"})
DLLOGGER = b"DLLL "
HOUSE_KEYS = frozenset({"step", "kind"})


class JsonLines:
    """A line parser; it remembers which names need no translation."""

    remark = ""

    def __init__(self) -> None:
        self._plain: set[str] = set()
        self._tokens_per_step = 0

    def __call__(self, line: bytes) -> StepReading | None:
        reading: StreamReading | None = self._nested(line) if line.find(b"{", 1) >= 0 else None
        if reading is None:
            try:
                reading = parse_line(line, ATTEMPT)
            except ValueError:
                reading = step_reading(_with_step(parse_object(line)), ATTEMPT)
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

    def _nested(self, line: bytes) -> StepReading | None:
        """The reading of a line with objects in its object; None for one of our own, whose receipts nest."""
        fields = parse_object(_bare(line))
        if fields.get("kind", "step") != "step":
            return None
        return step_reading(_with_step(_flat(fields)), ATTEMPT)

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


def _bare(line: bytes) -> bytes:
    return line.removeprefix(DLLOGGER)


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    """`{"train": {"loss": 2.5}}` as `{"train/loss": 2.5}`; what only wraps the metrics gives no name."""
    flat: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, dict):
            for inner, part in value.items():
                flat.setdefault(inner if key.lower() in WRAPPERS else f"{key}/{inner}", part)
        else:
            flat[key] = value
    return flat


def looks_like_json_lines(line: bytes) -> bool:
    """Is it an object that names a step, or one of our own kinds?"""
    try:
        fields = _flat(parse_object(_bare(line)))
    except ValueError:
        return False
    plain = (key for key, value in fields.items() if not isinstance(value, (list, dict)))
    return any(key in HOUSE_KEYS or canonical(key) == "step" for key in plain)


def _with_step(fields: dict[str, Any]) -> dict[str, Any]:
    """The object with its step under the key `step`. ValueError where it has none."""
    for key, value in fields.items():
        if canonical(key) == "step" and isinstance(value, (int, float, str)):
            fields["step"] = _number(value)
            return fields
    raise ValueError("an object without a step")


def _number(value: int | float | str) -> int | float | str:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value
