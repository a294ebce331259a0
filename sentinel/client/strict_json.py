"""JSON that any language can read: a non-finite float travels as the string "NaN", "Infinity" or "-Infinity".

Python's own json writes bare NaN, which no other reader accepts, and one NaN in one metric must not blind anybody.
`loads` leaves those strings alone, because a text field may say "NaN" and mean it; read a number with `as_float`.

    >>> dumps({"loss": float("nan"), "step": 3})
    '{"loss":"NaN","step":3}'
    >>> as_float(loads('{"loss":"-Infinity"}')["loss"])
    -inf
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(obj: object) -> str:
    """One line of ASCII JSON. TypeError for what JSON cannot hold, ValueError for a circular object."""
    try:
        return _encode(obj)
    except ValueError:  # a non-finite float somewhere: rare, so only then is the object walked
        return _encode(_spell_non_finite(obj))


def loads(text: str | bytes) -> Any:
    """Parse strict JSON; ValueError for anything else: the bare words NaN and Infinity, and what is nested too deeply."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def printable(text: str) -> str:
    r"""`text` as any terminal and file takes it: JSON may spell half a character ("\ud800"), which no encoding can write."""
    return text.encode("utf-8", "replace").decode()


def as_float(value: object) -> float:
    """The number in a parsed value: an int, a float, or one of the three strings. ValueError for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"the number {str(value)[:20]}… is too large for a float") from None
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    raise ValueError(f'{value!r} is not a number; write a number, "NaN", "Infinity" or "-Infinity"')


def _encode(obj: object) -> str:
    return json.dumps(obj, allow_nan=False, separators=(",", ":"))


def _spell_non_finite(obj: object) -> object:
    if isinstance(obj, float) and not math.isfinite(obj):
        return "NaN" if math.isnan(obj) else "Infinity" if obj > 0 else "-Infinity"
    if isinstance(obj, dict):
        return {key: _spell_non_finite(value) for key, value in obj.items()}
    if isinstance(obj, (list, tuple)):
        return [_spell_non_finite(value) for value in obj]
    return obj


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f'bare {word} is not JSON; write the string "{word}"')
