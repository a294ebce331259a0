"""One line of metrics.jsonl (PROTOCOL.md) as a reading: pure text to value, no file and no state.

Strict about what it returns and lenient about what it is given: bare NaN and Infinity tokens, bytes that are no UTF-8, metrics
that are null, text or bool, and keys and kinds nobody knows are all survived. Only a line that is no JSON object, or a step
line without a step, raises ValueError. Speed counts here: a backlog of millions of lines is read through this file.

    >>> parse_line(b'{"step": 7, "loss": "NaN"}', 1)
    StepReading(attempt=1, step=7, time_s=0.0, samples=(), metrics={'loss': nan})
"""

from __future__ import annotations

import json
import math
from typing import Any

from sentinel.client.strict_json import printable
from sentinel.model.attempts import SampleRange
from sentinel.model.capabilities import CAPABILITIES
from sentinel.model.readings import EndReading, Receipt, StepReading, TrainerNote

StreamReading = StepReading | Receipt | TrainerNote | EndReading

LARGEST_INT = 2**53  # beyond it JSON numbers are not whole in every language
LONGEST_WORD = 200
DEEPEST = 16  # of what a note or a receipt carries; what lies deeper is left out
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NO_METRIC = frozenset({"kind", "v", "step", "time_s", "samples", "attempt", "rank"})
_NO_DATA = frozenset({"kind", "event", "step", "time_s"})
_decode_json = json.JSONDecoder().raw_decode


def parse_line(line: bytes, attempt: int) -> StreamReading | None:
    """The reading of one line without its newline; None for a kind that is not known. ValueError when it is damaged."""
    fields = parse_object(line)
    kind = fields.get("kind", "step")
    if kind == "step":
        return step_reading(fields, attempt)
    if kind == "event":
        return _note(fields, attempt)
    if kind == "start":
        return _receipt(fields, attempt)
    if kind == "end":
        return EndReading(attempt, whole_number(fields.get("step"), 0), _word(fields.get("reason", "unknown")))
    return None


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object a line holds. ValueError for anything else; never another error, however deep or long the garbage."""
    try:
        text = line.decode().strip()
    except UnicodeDecodeError:
        text = line.decode(errors="replace").strip()
    try:
        value, end = _decode_json(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if end != len(text):
        raise ValueError("more than one value on the line")
    if type(value) is not dict:
        raise ValueError("not a JSON object")
    return value


def whole_number(value: object, default: int) -> int:
    """`value` when it is a whole number from 0 on (1000.0 counts), else `default`."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < LARGEST_INT else default


def ensure_step(step: object) -> None:
    """ValueError, in words, for a number that no step can be."""
    if isinstance(step, (int, float)) and not isinstance(step, bool) and not -LARGEST_INT < step < LARGEST_INT:
        raise ValueError(f"a step of {step} (steps end at 2^53)")


def real_number(value: object, default: float = 0.0) -> float:
    """`value` as a finite float, else `default`."""
    if type(value) is float:
        return value if math.isfinite(value) else default
    return float(value) if type(value) is int and abs(value) < LARGEST_INT else default


def step_reading(fields: dict[str, Any], attempt: int) -> StepReading:
    """The reading of a step line's object. ValueError where it names no step."""
    get = fields.get
    step = get("step")
    if type(step) is not int or not 0 <= step < LARGEST_INT:
        ensure_step(step)
        step = whole_number(step, -1)
        if step < 0:
            raise ValueError("a step line without a step")
    time_s = get("time_s")
    if type(time_s) is not float or not math.isfinite(time_s):
        time_s = real_number(time_s)
    samples = get("samples")
    ranges = () if samples is None else _sample_ranges(samples)
    metrics: dict[str, float] = {}
    for name, value in fields.items():
        if name in _NO_METRIC:
            continue
        kind = type(value)
        if kind is float:
            metrics[name] = value
        elif kind is int:
            metrics[name] = float(value) if -LARGEST_INT < value < LARGEST_INT else _large(value)
        elif kind is str and value in _NON_FINITE:
            metrics[name] = _NON_FINITE[value]
    return StepReading(attempt, step, time_s, ranges, metrics)


def _large(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _sample_ranges(pairs: object) -> tuple[SampleRange, ...]:
    if type(pairs) is not list:
        return ()
    found = []
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2:
            continue
        start, end = pair
        if type(start) is int and type(end) is int and 0 <= start < end < LARGEST_INT:
            found.append(SampleRange(start, end))
    return tuple(found)


def _receipt(fields: dict[str, Any], attempt: int) -> Receipt:
    digest, overrides, effective = (_tame(fields.get(key)) for key in ("resume_digest", "overrides", "effective"))
    return Receipt(
        attempt=attempt,
        time_s=real_number(fields.get("time_s")),
        resume_step=whole_number(fields.get("resume_step"), 0),
        resume_digest=digest if isinstance(digest, str) else None,
        world_size=max(1, whole_number(fields.get("world_size"), 1)),
        overrides=overrides if isinstance(overrides, dict) else {},
        effective=effective if isinstance(effective, dict) else {},
        cursor=whole_number(fields["cursor"], 0) if "cursor" in fields else None,
        tokens_per_step=whole_number(fields.get("tokens_per_step"), 0) or None,
        samples_from_steps=fields.get("samples_from_steps") is True,
        capabilities=_known_capabilities(fields.get("capabilities")),
        adopted=fields.get("adopted") is True,
        profile=_word(fields["trainer"]) if isinstance(fields.get("trainer"), str) else None,
        total_steps=whole_number(fields.get("steps"), 0) or None,
        gpus=_gpus(fields.get("gpus")),
        may_end_early=fields.get("may_end_early") is True,
        # a follower reads it from an environment that is not the ranks' own
        is_size_known=whole_number(fields.get("world_size"), 0) > 0 and not isinstance(fields.get("trainer"), str),
    )


def _gpus(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < LARGEST_INT else None


def _known_capabilities(listed: object) -> tuple[str, ...] | None:
    """Those of PROTOCOL.md that a receipt lists; None where it has no list."""
    return tuple(word for word in CAPABILITIES if word in listed) if isinstance(listed, list) else None


def _note(fields: dict[str, Any], attempt: int) -> TrainerNote:
    data = {printable(name): _tame(value) for name, value in fields.items() if name not in _NO_DATA}
    step = whole_number(fields.get("step"), 0)
    return TrainerNote(attempt, _word(fields.get("event", "unnamed")), step, real_number(fields.get("time_s")), data)


def _word(value: object) -> str:
    return printable(str(value)[:LONGEST_WORD])


def _tame(value: Any, depth: int = 0) -> Any:
    """A parsed value that can be compared, computed with, nested and printed: no integer that a float cannot hold, no half
    character, nothing nested past DEEPEST. What a trainer writes must never be what stops its supervisor."""
    if type(value) is int:
        return value if -LARGEST_INT < value < LARGEST_INT else _large(value)
    if type(value) is str:
        return printable(value)
    if type(value) is list:
        return [_tame(item, depth + 1) for item in value] if depth < DEEPEST else []
    if type(value) is dict:
        return {printable(key): _tame(item, depth + 1) for key, item in value.items()} if depth < DEEPEST else {}
    return value
