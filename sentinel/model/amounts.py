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


def time_words(seconds: float) -> str:
    """A duration as one says it: `40 s`, `12 min`, `2.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
