"""A JSON document that holds a whole log: an array of rows, an object of columns, or Megatron's golden values.

    [{"step": 1, "loss": 2.5}, ...]                     rows, also as a member of an object
    {"step": [1, 2], "loss": [2.5, 2.4]}                columns
    {"lm loss": {"start_step": 1, "step_interval": 5, "values": {"1": 10.8, "5": 10.7}}, ...}       golden values; older ones
                                                        have a list of values, `step_interval` apart
A golden value "nan" in quotes was not logged. A document is read whole, so its size is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import as_float
from sentinel.errors import UsageError
from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import LARGEST_INT, whole_number
from sentinel.telemetry.log_reader import ATTEMPT, RewrittenLog
from sentinel.telemetry.metric_names import canonical

DOCUMENT_BYTES_MAX = 64 << 20
STEP_DIGITS_MAX = 16

Row = tuple[int, float, dict[str, float]]
"""step, time, metrics"""


class JsonDocumentLog(RewrittenLog):
    """The rows of the document. One that changes is read again; what was given out is not given out twice."""

    _given = 0
    _recognised: tuple[tuple[int, int] | None, list[Row] | None] = (None, None)  # the version that was read, and its rows

    def holds_steps(self) -> bool:
        """Reads the document to find out. The first poll gives what was read here, unless it was written anew since. Raises
        UsageError and OSError."""
        self._recognised = self._version_now(), rows_of_document(self.path)
        return self._recognised[1] is not None

    def _read(self) -> Iterator[StepReading]:
        (version, rows), self._recognised = self._recognised, (None, None)
        if rows is None or version != self._version:
            rows = rows_of_document(self.path)
        if rows is None:
            self._note("it is no JSON document that holds steps")
            return
        for step, time_s, metrics in rows[self._given :]:
            self._given += 1
            yield StepReading(ATTEMPT, step, time_s, (), metrics)


def rows_of_document(path: Path) -> list[Row] | None:
    """None for what is no JSON, or holds no steps. Raises UsageError for a document that is too large."""
    if path.stat().st_size > DOCUMENT_BYTES_MAX:
        raise UsageError(
            f"{path}: a JSON document of {path.stat().st_size >> 20} MiB, and at most {DOCUMENT_BYTES_MAX >> 20} are read; make "
            "lines of a copy, as in: jq -c '.[]'"
        )
    try:
        document = json.loads(read_regular(path, DOCUMENT_BYTES_MAX))
    except (ValueError, RecursionError):
        return None
    if isinstance(document, list):
        return _rows(document)
    if not isinstance(document, dict):
        return None
    return _golden(document) or _columns(document) or next(filter(None, map(_rows, document.values())), None)


def _rows(entries: object) -> list[Row] | None:
    if not isinstance(entries, list):
        return None
    found: list[Row] = []
    for entry in entries:
        if not isinstance(entry, dict):
            return None
        row = _row(entry)
        if row is not None:
            found.append(row)
    return found or None


def _row(entry: dict[str, Any]) -> Row | None:
    step, time_s = -1, 0.0
    metrics: dict[str, float] = {}
    for key, value in entry.items():
        name, number = canonical(key), _number(value)
        if number is None:
            continue
        if name == "step":
            step = whole_number(number, -1) if step < 0 else step
        elif name == "time_s":
            time_s = time_s or (number if number - number == 0.0 else 0.0)
        else:
            metrics.setdefault(name, number)
    return (step, time_s, metrics) if step >= 0 else None


def _columns(document: dict[str, Any]) -> list[Row] | None:
    lists = {key: value for key, value in document.items() if isinstance(value, list)}
    steps = next((value for key, value in lists.items() if canonical(key) == "step"), None)
    if steps is None:
        return None
    columns = [key for key, value in lists.items() if len(value) == len(steps)]
    rows = (_row(dict(zip(columns, cells, strict=True))) for cells in zip(*(lists[key] for key in columns), strict=True))
    return [row for row in rows if row is not None] or None


def _golden(document: dict[str, Any]) -> list[Row] | None:
    """Megatron-LM's functional tests keep them (tests/functional_tests)."""
    by_step: dict[int, dict[str, float]] = {}
    by_key: dict[str, dict[str, float] | None] = {}  # most series have the same keys, and a look is cheaper than a parse
    for key, series in document.items():
        if not isinstance(series, dict) or "values" not in series:
            continue
        values = series["values"]
        if isinstance(values, list):
            start, apart = whole_number(series.get("start_step", 0), -1), whole_number(series.get("step_interval", 1), 0)
            if start < 0 or apart < 1:
                continue  # where its values belong is unknown
            values = {str(start + index * apart): value for index, value in enumerate(values)}
        if not isinstance(values, dict):
            continue
        name = canonical(key)
        for text, value in values.items():
            number = value if type(value) is float else _number(value)
            if number is None:
                continue
            try:
                row = by_key[text]
            except KeyError:
                at = _step(text)
                row = by_key[text] = by_step.setdefault(at, {}) if 0 <= at < LARGEST_INT else None
            if row is not None and name not in row:
                row[name] = number
    return [(step, 0.0, by_step[step]) for step in sorted(by_step)] or None


def _step(text: str) -> int:
    """Negative for a key that is no step, and for one with more digits than any step has."""
    return int(text) if text.isdecimal() and len(text) <= STEP_DIGITS_MAX else -1


def _number(value: object) -> float | None:
    try:
        return as_float(value)
    except ValueError:
        return None
