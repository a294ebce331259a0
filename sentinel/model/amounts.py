"""Amounts in words, for people."""

from __future__ import annotations


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
    """A duration as one says it: `40 s`, `12 min`, `2.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
