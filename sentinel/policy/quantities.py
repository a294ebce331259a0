"""Quantities as people write them in a policy, and the values the engine counts with.

Durations become float seconds, steps become int optimizer steps, factors become floats. Every function takes what stood in
the file and either returns a value or raises `Malformed`, which says what was read and how to write it.

    >>> parse_duration("5m"), parse_steps("200 steps"), parse_factor("0.5x")
    (300.0, 200, 0.5)

Numbers without a unit are refused on purpose: `30` may be steps, seconds or minutes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sentinel.detectors.hold import Hold
from sentinel.model.price import Price

Anchor = Literal["onset", "detected"]

SECONDS_IN = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

# Twelve digits bound every number: no overflow, and 10**12 steps or seconds is more than any run has.
_DECIMAL = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_STEPS = r"[0-9]{1,12} steps?"
DURATION_PATTERN = rf"^{_DECIMAL} ?[smhd]$"
STEPS_PATTERN = rf"^{_STEPS}$"
HOLD_PATTERN = rf"^(?:{_STEPS}|{_DECIMAL} ?[smhd])$"
FACTOR_PATTERN = rf"^{_DECIMAL}x$"
STEP_TIMES_PATTERN = rf"^{_DECIMAL}x step_time$"
RATE_PATTERN = rf"^[0-9]{{1,12}} per {_DECIMAL} ?[smhd]$"
RANGE_PATTERN = rf"^{_DECIMAL} ?[smhd]\.\.{_DECIMAL} ?[smhd]$"
STEP_REF_PATTERN = rf"^(?:onset|detected)(?: [+-] {_STEPS})?$"
RECOVERED_PATTERN = rf"^[a-z][a-z0-9_/.]* within {_DECIMAL}% of pre_incident$"
PRICE_PATTERN = rf"^{_DECIMAL} [A-Z]{{3}}$"
ABOVE_BAND_PATTERN = rf"^above band for {_STEPS}$"


class Malformed(ValueError):
    """A value that cannot be read; `remedy` says how to write it, `at` where in a longer text (from 0) it goes wrong. `hides`: it
    may be a secret, and is not shown."""

    def __init__(self, message: str, remedy: str, at: int | None = None, hides: bool = False) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.at = at
        self.hides = hides


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` within any `period_s` seconds."""

    count: int
    period_s: float


@dataclass(frozen=True, slots=True)
class StepRef:
    """A step relative to the incident: `onset - 20 steps` is StepRef("onset", -20)."""

    anchor: Anchor
    offset_steps: int


@dataclass(frozen=True, slots=True)
class RecoveredWhen:
    """`metric` is within `ratio` (0.02 for 2 %) of its level before the incident."""

    metric: str
    ratio: float


def show(value: object, limit: int = 60) -> str:
    """The value as a reader of the file knows it: text in quotes, the rest as YAML spells it, cut when long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, (list, tuple)) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def show_duration(seconds: float) -> str:
    """Seconds in the longest unit that divides them, else in seconds: `24h`, `2d`, `90s`, `0.25s`."""
    for unit in ("d", "h", "m"):
        if seconds >= SECONDS_IN[unit] and seconds % SECONDS_IN[unit] == 0 and (seconds, unit) != (86400.0, "d"):
            return f"{seconds / SECONDS_IN[unit]:g}{unit}"
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def _matched(pattern: str, value: object, noun: str, remedy: str) -> str:
    if isinstance(value, str) and re.fullmatch(pattern, value):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise Malformed(f"{show(value)} has no unit; {noun} was expected", remedy)
    raise Malformed(f"{show(value)} is not {noun}", remedy)


def _seconds(text: str) -> float:
    return float(text[:-1]) * SECONDS_IN[text[-1]]


def _first_int(text: str) -> int:
    return int(text.split()[0])


def parse_duration(value: object) -> float:
    """`30s`, `5m`, `24h`, `2d` in seconds."""
    return _seconds(_matched(DURATION_PATTERN, value, "a duration", "write it as '30s', '5m' or '2h'"))


def parse_steps(value: object) -> int:
    """`200 steps`, `1 step` as a number of optimizer steps."""
    return _first_int(_matched(STEPS_PATTERN, value, "a number of steps", "write it as '200 steps'"))


def parse_positive_steps(value: object) -> int:
    """As `parse_steps`, at least one."""
    steps = parse_steps(value)
    if steps < 1:
        raise Malformed(f"{show(value)} is no span at all", "write at least '1 step'")
    return steps


def parse_positive_duration(value: object) -> float:
    """As `parse_duration`, more than zero."""
    seconds = parse_duration(value)
    if seconds <= 0:
        raise Malformed(f"{show(value)} is no span at all", "write a duration above zero, such as '30s'")
    return seconds


def parse_hold(value: object) -> Hold:
    """`2 steps` or `30s`; `0s` means at once."""
    text = _matched(HOLD_PATTERN, value, "a number of steps or a duration", "write it as '2 steps' or '30s'")
    if re.fullmatch(STEPS_PATTERN, text):
        return Hold(steps=_first_int(text))
    return Hold(seconds=_seconds(text))


def parse_factor(value: object) -> float:
    """`0.5x` as a factor above zero."""
    factor = float(_matched(FACTOR_PATTERN, value, "a factor", "write it as '0.5x' or '2x'")[:-1])
    if factor <= 0:
        raise Malformed(f"{show(value)} is not a factor above zero", "write it as '0.5x' or '2x'")
    return factor


def parse_widening(value: object) -> float:
    """A factor above one, for what must grow: `2x`."""
    factor = parse_factor(value)
    if factor <= 1:
        raise Malformed(f"{show(value)} reaches no further than the rung before", "write a factor above one, such as '2x'")
    return factor


def parse_multiple(value: object) -> float:
    """A factor above one against what is usual for the run: `1.5x`."""
    factor = parse_factor(value)
    if factor <= 1:
        raise Malformed(f"{show(value)} is no more than usual: every healthy run would be found", "write at least '1.2x'")
    return factor


def parse_step_times(value: object) -> float:
    """`3x step_time`: multiples of the run's own learned step time, at least one."""
    remedy = "write it as '3x step_time'"
    times = float(_matched(STEP_TIMES_PATTERN, value, "a multiple of the step time", remedy).split("x", 1)[0])
    if times < 1:
        raise Malformed(f"{show(value)} would call every healthy step a hang", "write at least '1x step_time'; 3x is usual")
    return times


def parse_rate(value: object) -> Rate:
    """`12 per 24h`."""
    remedy = "write it as '12 per 24h'"
    count, period = _matched(RATE_PATTERN, value, "a count per period", remedy).split(" per ")
    if int(count) < 1 or _seconds(period) <= 0:
        raise Malformed(f"{show(value)} allows nothing: count and period must be above zero", remedy)
    return Rate(int(count), _seconds(period))


def parse_range(value: object) -> tuple[float, float]:
    """`5s..5m` as (shortest, longest) seconds."""
    low, high = _matched(RANGE_PATTERN, value, "a range of durations", "write it as '5s..5m'").split("..")
    if _seconds(low) > _seconds(high):
        raise Malformed(f"{show(value)} runs backwards", f"write the shorter one first: '{high}..{low}'")
    return _seconds(low), _seconds(high)


def parse_step_ref(value: object) -> StepRef:
    """`onset - 20 steps`, `detected + 200 steps`, `onset`."""
    remedy = "write it as 'onset - 20 steps' or 'detected + 200 steps'"
    words = _matched(STEP_REF_PATTERN, value, "a step told from the incident", remedy).split()
    anchor: Anchor = "onset" if words[0] == "onset" else "detected"
    offset_steps = int(words[1] + words[2]) if len(words) > 1 else 0
    return StepRef(anchor, offset_steps)


def parse_recovered_when(value: object) -> RecoveredWhen:
    """`loss within 2% of pre_incident`."""
    remedy = "write it as 'loss within 2% of pre_incident'"
    words = _matched(RECOVERED_PATTERN, value, "a condition for recovery", remedy).split()
    ratio = float(words[2].rstrip("%")) / 100.0
    if ratio <= 0:
        raise Malformed(f"{show(value)} asks for an exact match, which a noisy metric never gives", remedy)
    return RecoveredWhen(words[0], ratio)


def parse_above_band(value: object) -> int:
    """`above band for 20 steps` as steps."""
    text = _matched(ABOVE_BAND_PATTERN, value, "a condition that ends a wait", "write it as 'above band for 20 steps'")
    return parse_positive_steps(text.removeprefix("above band for "))


def parse_price(value: object) -> Price:
    """`2.5 USD`: an amount above zero and a currency."""
    remedy = "write it as '2.5 USD', the currency as three capital letters"
    if isinstance(value, str) and re.fullmatch(_DECIMAL, value):
        raise Malformed(f"{show(value)} names no currency", remedy)
    amount, currency = _matched(PRICE_PATTERN, value, "a price with its currency", remedy).split()
    if float(amount) <= 0:
        raise Malformed(f"{show(value)} is no price", f"{remedy}; without a price GPU hours alone are told")
    return Price(float(amount), currency)
