"""The name under which a class of the model stands in the journal, in drills and in metrics.

A class may be renamed; its recorded name never changes. Otherwise an older journal would decode as "unknown fact", without error.

    @recorded_as("AttemptEnded")
    @dataclass(frozen=True, slots=True)
    class AttemptEnded: ...

    recorded_name(AttemptEnded) == "AttemptEnded"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=type)
_NAMES: dict[type, str] = {}


def recorded_as(name: str) -> Callable[[T], T]:
    """Class decorator, outermost: `dataclass(slots=True)` makes a new class."""

    def register(cls: T) -> T:
        _NAMES[cls] = name
        return cls

    return register


def recorded_name(cls: type) -> str:
    """The name that `recorded_as` gave the class.

    Raises:
        TypeError: the class has none. Such a class cannot be journaled.
    """
    try:
        return _NAMES[cls]
    except KeyError:
        raise TypeError(f"{cls.__module__}.{cls.__qualname__} has no recorded name; decorate it with @recorded_as") from None
