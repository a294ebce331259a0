"""A value for each row of the table of settings, drawn from its type, so that a new row needs no edit in a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sentinel.client.setting_types import Choice, Factor, Flag, Number, Pair, Steps, ValueType, WholeNumber
from sentinel.client.settings import Setting

PLAIN = (0.25, 1.5, 100.0)  # tried in this order


def example(row: Setting) -> Any:
    """A value that the setting may have and that is not the one it usually has."""
    return next(value for value in _values(row.type) if value != row.usual)


def as_policy_writes(row: Setting, value: Any) -> Any:
    match row.type:
        case Factor():
            return f"{value:g}x"
        case Steps():
            return f"{value} steps"
        case Pair():
            return list(value)
    return value


def _values(kind: ValueType) -> Iterator[Any]:
    match kind:
        case Number():
            yield from (value for value in PLAIN if _fits(kind, value))
        case WholeNumber():
            yield from (kind.at_least + 7, kind.at_least + 8)
        case Pair():
            yield from ((value, value) for value in _values(kind.part))
        case Flag():
            yield True
        case Choice():
            yield from reversed(kind.words)


def _fits(kind: Number, value: float) -> bool:
    try:
        kind.check(value)
    except ValueError:
        return False
    return True
