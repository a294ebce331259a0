"""What sentinel asks of an attempt: the `overrides` of spec.json at launch, overrides.json while it runs.

Both have the same keys. In a live file a key that is *missing* leaves its setting as it is; a key that is *null* means the
value of the trainer's own configuration. A skip list only grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sentinel.client.strict_json import as_float

REQUESTS = ("checkpoint_now", "stop_after_checkpoint", "stop_now")
LOSS_SCALE_MAX = 2.0**127  # twice that is the first power of two that float32, in which a scale is held, has no room for
LAPSING = ("lr_scale", "clip_norm", "weight_decay", "betas", "eps", "checkpoint_interval")

T = TypeVar("T")


class OverridesError(ValueError):
    """A value in spec.json or overrides.json that no trainer could obey; the message names key, value and remedy."""


@dataclass(frozen=True)
class Overrides:
    """One statement of settings. None stands for "as configured"; `given` names the keys that were present at all."""

    id: str | None = None
    attempt: int | None = None
    lr_scale: float | None = None  # multiplies the schedule
    clip_norm: float | None = None  # replaces the configured one
    weight_decay: float | None = None
    betas: tuple[float, float] | None = None
    eps: float | None = None
    skip: tuple[tuple[int, ...], ...] = ()  # half-open (start, end) or (start, end, data_seed) ranges of sample indices
    loss_scale: float | None = None
    data_seed: int | None = None
    reset_optimizer: bool = False
    precision: str | None = None
    checkpoint_interval: int | None = None
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

        return cls(
            id=read("id", _text, "a string"),
            attempt=read("attempt", _whole, "a whole number"),
            lr_scale=read("lr_scale", _positive, "a finite number above 0"),
            clip_norm=read("clip_norm", _positive, "a finite number above 0"),
            weight_decay=read("weight_decay", _not_negative, "a finite number, 0 or above"),
            betas=read("betas", _betas, "two numbers in [0, 1)"),
            eps=read("eps", _positive, "a finite number above 0"),
            skip=read("skip", _skip, "half-open ranges [[start, end], …] of sample indices") or (),
            loss_scale=read("loss_scale", _scale, "a number above 0 and at most 2^127"),
            data_seed=read("data_seed", _whole, "a whole number"),
            reset_optimizer=read("reset_optimizer", _flag, "true or false") or False,
            precision=read("precision", _text, "fp32, bf16 or fp16"),
            checkpoint_interval=read("checkpoint_interval", _count, "a whole number, 1 or above"),
            until=read("until", _until, f"an object from one of {', '.join(LAPSING)} to a step") or {},
            request=read("request", _request, " or ".join(REQUESTS)),
            given=frozenset(raw),
            raw=raw,
        )

    def in_force(self) -> dict[str, Any]:
        """The part worth repeating in a receipt: every key that asks for something."""
        return {key: value for key, value in self.raw.items() if value is not None and value is not False and value != {}}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value


def _count(value: object) -> int:
    if _whole(value) < 1:
        raise ValueError
    return _whole(value)


def _not_negative(value: object) -> float:
    number = as_float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError
    return number


def _positive(value: object) -> float:
    if _not_negative(value) == 0:
        raise ValueError
    return as_float(value)


def _scale(value: object) -> float:
    if _positive(value) > LOSS_SCALE_MAX:
        raise ValueError
    return as_float(value)


def _betas(value: object) -> tuple[float, float]:
    if not isinstance(value, list):
        raise TypeError
    first, second = (_not_negative(item) for item in value)
    if max(first, second) >= 1:
        raise ValueError
    return first, second


def _skip(value: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        raise TypeError
    ranges = tuple(tuple(_whole(item) for item in entry) for entry in value)
    if any(len(entry) not in (2, 3) or entry[0] > entry[1] for entry in ranges):
        raise ValueError
    return ranges


def _until(value: object) -> dict[str, int]:
    if not isinstance(value, dict) or not set(value) <= set(LAPSING):
        raise ValueError
    return {key: _whole(step) for key, step in value.items() if step is not None}


def _request(value: object) -> str:
    if value not in REQUESTS:
        raise ValueError
    return str(value)
