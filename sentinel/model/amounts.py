"""Amounts in words, for people."""

from __future__ import annotations

import math

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
MINUTES_FROM_S = 120
NO_TIE = 1 + 1e-9  # so that the page, whose language rounds 0.125 another way, has the same digits


def size_words(count: float) -> str:
    """Bytes in the units of disks, powers of a thousand: `312 B`, `1.5 TB`."""
    size, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def number_between(least: int, more: int | None) -> str:
    """A number of which only a bound is known: `32`, `90 to 99`, `up to 9`, `at least 90`, `unknown`. `more`: how much greater it
    may be; None: nobody knows."""
    if more is None:
        return f"at least {least}" if least else "unknown"
    if more == 0:
        return str(least)
    return f"{least} to {least + more}" if least else f"up to {more}"


def lost_words(steps: int, unseen: int | None) -> str:
    """`1 step`, `90 to 99 steps`, `an unknown number of steps`."""
    if unseen is None and not steps:
        return "an unknown number of steps"
    return f"{number_between(steps, unseen)} {'step' if steps + (unseen or 0) == 1 else 'steps'}"


def time_words(seconds: float) -> str:
    """A length of time as every surface says it: `0.25 s`, `40 s`, `4 min 30 s`, `2 h 5 min`, `3 days 4 h`. Seconds below two
    minutes, then the two largest units. Less than nothing is nothing. The page's `spanWords` says the same."""
    if not math.isfinite(seconds):
        return "an unknown time"
    if seconds < 0.0005:
        return "0 s"
    if seconds < 0.95:
        return f"{float(f'{seconds * NO_TIE:.2g}'):g} s"
    if seconds < 9.95:
        return f"{math.floor(seconds * 10 + 0.5) / 10:g} s"
    whole = math.floor(seconds + 0.5)
    if whole < MINUTES_FROM_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return _two(whole // MINUTE_S, "min", whole % MINUTE_S, "s")
    if whole < DAY_S:
        return _two(whole // HOUR_S, "h", whole % HOUR_S // MINUTE_S, "min")
    days = whole // DAY_S
    return _two(days, "day" if days == 1 else "days", whole % DAY_S // HOUR_S, "h")


def _two(many: int, large: str, few: int, small: str) -> str:
    return f"{many} {large} {few} {small}" if few else f"{many} {large}"
