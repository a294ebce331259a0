"""What sentinel asks of an attempt: the `overrides` of spec.json at launch, overrides.json while it runs.

Both have the same keys. In a live file a key that is *missing* leaves its setting as it is; a key that is *null* means the
value of the trainer's own configuration. A skip list only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sentinel.client.setting_types import WholeNumber
from sentinel.client.settings import LAPSING, SETTINGS, Settings

REQUESTS = ("checkpoint_now", "stop_after_checkpoint", "stop_now")

T = TypeVar("T")


class OverridesError(ValueError):
    """A value in spec.json or overrides.json that no trainer could obey; the message names key, value and remedy."""


@dataclass(frozen=True)
class _Address:
    """What comes before the settings."""

    __slots__ = ()

    id: str | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class Overrides(Settings, _Address):
    """One statement of settings: those of the table, each None for "as configured"; `given` names the keys that were present."""

    skip: tuple[tuple[int, ...], ...] = ()  # half-open (start, end) or (start, end, data_seed) ranges of sample indices
    until: Mapping[str, int] = field(default_factory=dict)  # key → the first step at which it no longer holds
    request: str | None = None
    given: frozenset[str] = frozenset()
    raw: Mapping[str, Any] = field(default_factory=dict)  # everything as it was written, unknown keys included

    @classmethod
    def from_json(cls, raw: object, place: str) -> Overrides:
        """Check a parsed object. `place` (a file, "spec.json: overrides") starts every error. Raises OverridesError."""
        if not isinstance(raw, dict):
            raise OverridesError(f"{place}: {raw!r} is not an object; write {{}} for no overrides")

        def read(key: str, check: Callable[[object], T], remedy: str) -> T | None:
            value = raw.get(key)
            if value is None:
                return None
            try:
                return check(value)
            except (ValueError, TypeError):
                raise OverridesError(f"{place}: {key}: {value!r} cannot be used; write {remedy}, or null") from None

        settings: dict[str, Any] = {key: read(key, row.type.check, row.type.wanted) for key, row in SETTINGS.items()}
        return cls(
            id=read("id", _text, "a string"),
            attempt=read("attempt", WholeNumber().check, "a whole number"),
            skip=read("skip", _skip, "half-open ranges [[start, end], …] of sample indices") or (),
            until=read("until", _until, f"an object from one of {', '.join(LAPSING)} to a step") or {},
            request=read("request", _request, " or ".join(REQUESTS)),
            given=frozenset(raw),
            raw=raw,
            **{key: value for key, value in settings.items() if value is not None},
        )

    def in_force(self) -> dict[str, Any]:
        """The part worth repeating in a receipt: every key that asks for something."""
        return {key: value for key, value in self.raw.items() if value is not None and value is not False and value != {}}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _skip(value: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        raise TypeError
    ranges = tuple(tuple(WholeNumber().check(item) for item in entry) for entry in value)
    if any(len(entry) not in (2, 3) or entry[0] > entry[1] for entry in ranges):
        raise ValueError
    return ranges


def _until(value: object) -> dict[str, int]:
    if not isinstance(value, dict) or not set(value) <= set(LAPSING):
        raise ValueError
    return {key: WholeNumber().check(step) for key, step in value.items() if step is not None}


def _request(value: object) -> str:
    if value not in REQUESTS:
        raise ValueError
    return str(value)
