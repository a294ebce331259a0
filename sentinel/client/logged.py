"""What of a step's metrics can be written, and what of it is left out. Standard library only.

A value that is no number must not end training: an evaluation without data returns None, a library gives a text. It is left out,
and `Stream` says so once for each name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from sentinel.client.strict_json import dumps

WORDS_OF_FLOATS = ("NaN", "Infinity", "-Infinity")  # as JSON has them
OF_EVENTS = frozenset(("kind", "event", "step", "time_s"))  # what the line of an event has by itself
TAKEN = "is a name that a line has already; log it under another one"
LEFT_OUT_MAX = 64  # names of which it is said that a value was left out; one that makes a name for each step must not fill a disk
INT_MAX = 2**1023  # what is larger is no float in any reader
SHOWN_CHARS = 60


class NoNumber(ValueError):
    """The message says what it is instead: `is None`."""


def number_of(value: Any) -> float | int | str:
    """An int, a float or one of WORDS_OF_FLOATS, of whatever stands for one number: a bool, numpy's and torch's scalars, Decimal.
    Raises NoNumber, and nothing else, whatever the value's own methods raise."""
    if isinstance(value, str):
        if value in WORDS_OF_FLOATS:
            return value
        raise NoNumber(f"is the text {value[:SHOWN_CHARS]!r}")
    if value is None:
        raise NoNumber("is None")
    try:
        number = value.item() if hasattr(value, "item") else value
        number = int(number) if isinstance(number, int) else float(number)
    except Exception as error:  # noqa: BLE001 - its conversions are the program's own
        raise NoNumber(_describe(value, error)) from None
    if isinstance(number, int) and not -INT_MAX < number < INT_MAX:
        raise NoNumber("is an integer too large for a float")
    return number


def _describe(value: Any, error: Exception) -> str:
    kind = type(value).__name__
    try:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and shape:
            return f"is a {kind} of shape {tuple(shape)}; reduce it to one number"
        return f"is a {kind} that gives no number ({type(error).__name__}: {str(error)[:SHOWN_CHARS]})"
    except Exception:  # noqa: BLE001 - so is whatever says what it is
        return f"is a {kind} that gives no number"


class LeftOut:
    """Of which names it was said that a value is left out."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def is_new(self, name: str) -> bool:
        """True once for each name, and never behind LEFT_OUT_MAX of them."""
        if name in self._names or len(self._names) >= LEFT_OUT_MAX:
            return False
        self._names.add(name)
        return True


def whole_number(value: Any) -> Any:
    """An int of numpy's and torch's whole numbers; what is none, as it is."""
    try:
        return index(value)
    except TypeError:
        return value


def whole_ranges(samples: Sequence[Sequence[int]]) -> list[list[int]]:
    """Raises NoNumber for what is no list of ranges."""
    try:
        return [[index(place) for place in pair] for pair in samples]
    except Exception as error:  # noqa: BLE001 - its methods are the program's own
        raise NoNumber(f"are no ranges of whole numbers ({type(error).__name__}: {str(error)[:SHOWN_CHARS]})") from None


def split_numbers(metrics: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """What can be written, in its order, and why each of the others cannot be, by name."""
    kept: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, value in metrics.items():
        kind = type(value)
        if kind is float or (kind is int and -INT_MAX < value < INT_MAX):
            kept[name] = value
            continue
        try:
            kept[name] = number_of(value)
        except NoNumber as error:
            left_out[name] = str(error)
    return kept, left_out


def split_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The same of an event, whose fields are whatever JSON holds."""
    kept: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, value in fields.items():
        if name in OF_EVENTS:
            left_out[name] = TAKEN
            continue
        try:
            dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            left_out[name] = f"is a {type(value).__name__} that JSON cannot hold ({str(error)[:SHOWN_CHARS]})"
        else:
            kept[name] = value
    return kept, left_out
