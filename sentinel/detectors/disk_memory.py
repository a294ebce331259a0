"""What is remembered of one disk, and the evidence about it in words."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from sentinel.detectors.disk_forecast import RECENT, Growth, Rhythm, Stock
from sentinel.model.amounts import time_words
from sentinel.model.disks import DiskReading

BUCKETS_KEPT = 36
AT_LAUNCH = 2  # saves that must find room
UNITS = (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10))

What = Literal["bytes", "inodes"]
QUANTITIES: tuple[What, ...] = ("bytes", "inodes")
Level = Literal["", "filling", "full"]


@dataclass(frozen=True, slots=True)
class DiskSample:
    at_s: float
    free: float
    least_free: float  # of what others leave: the room plus what the checkpoints take
    count: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """`is_roomy`: no save lacks room, with a margin beyond `hours_ahead`. `is_easy`: the next two fit, or one where old ones are
    deleted."""

    level: Level
    stock: Stock
    is_roomy: bool
    is_easy: bool
    reason: str


@dataclass(slots=True)
class Quantity:
    """Bytes or inodes of one disk. `looks`: the last SETTLED_S. `hours`: the best look of each bucket of time."""

    what: What
    looks: deque[DiskSample] = field(default_factory=deque)
    hours: deque[DiskSample] = field(default_factory=lambda: deque(maxlen=BUCKETS_KEPT))
    announced_level: Level = ""
    calm_since_s: float | None = None
    roomy_since_s: float | None = None
    outlook: Outlook | None = None


@dataclass(slots=True)
class Disk:
    reading: DiskReading
    read_s: float
    counts: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT + 1))
    newest: int = -1
    is_bounded: bool = False  # old checkpoints are deleted as new ones come
    quantities: dict[What, Quantity] = field(default_factory=lambda: {what: Quantity(what) for what in QUANTITIES})


def taken(disk: Disk, what: What) -> tuple[int, float]:
    """What one save takes: the largest of the recent ones, and their mean."""
    recent = disk.reading.saves[-RECENT:]
    sizes = [save.bytes if what == "bytes" else save.files for save in recent]
    return (max(sizes), sum(sizes) / len(sizes)) if sizes else (0, 0.0)


def metric_of(what: What, mount: str) -> str:
    """The metric of a finding about this disk."""
    return f"free_{what}@{mount}"


def lacks_room(reading: DiskReading, asked: int = AT_LAUNCH) -> str:
    """Why so many checkpoints of the size measured find no room on this disk, and which one has that size; empty where they do,
    or no size is known."""
    if reading.count is None or not reading.saves:
        return ""
    recent = reading.saves[-RECENT:]
    largest, most = (max(reversed(recent), key=size) for size in (attrgetter("bytes"), attrgetter("files")))
    for what, free, one, step in (
        ("bytes", reading.free_bytes, largest.bytes, largest.step),
        ("inodes", reading.free_inodes, most.files, most.step),
    ):
        if free is not None and free < asked * one:
            each = bytes_words(one) if what == "bytes" else f"{one} files"
            there = bytes_words(free) if what == "bytes" else f"{free} inodes"
            them = f"{asked} checkpoints of {each}" if asked > 1 else f"a checkpoint of {each}"
            ends = f"{'do' if asked > 1 else 'does'} not fit"
            return f"{there} are free on {reading.mount} ({reading.place}), and {them}, as that of step {step}, {ends}"
    return ""


def evidence(
    disk: Disk, what: What, stock: Stock, rhythm: Rhythm | None, growth: Growth, level: Level, in_s: float | None, now_s: float
) -> str:
    """The evidence: what is free, what a checkpoint takes, how often one comes, and when there is no more room."""
    reading = disk.reading
    free = bytes_words(reading.free_bytes) if what == "bytes" else f"{reading.free_inodes} inodes"
    parts = [f"{free} are free on {reading.mount} ({reading.place})"]
    if reading.count is not None:
        one = bytes_words(stock.largest) if what == "bytes" else f"{stock.largest} files"
        often = f", one every {time_words(rhythm.interval_s)}" if rhythm is not None else ", how often is not known yet"
        parts.append(f"a checkpoint takes {one}{often}")
    if growth.room is not None:
        parts.append("old ones are deleted")
    if stock.lost_per_s:
        an_hour = 3600.0 * stock.lost_per_s
        parts.append(f"what else is written takes {bytes_words(an_hour) if what == 'bytes' else f'{an_hour:.0f} inodes'} an hour")
    if level == "full":
        when = f", due in {time_words(in_s)} at {hour_words(now_s + in_s)}," if rhythm is not None and in_s is not None else ""
        parts.append(f"the next one{when} does not fit" if reading.count is not None else "that is too little for a journal")
    elif level == "filling" and in_s is not None:
        what_then = "a save no longer fits" if reading.count is not None else "it is full"
        parts.append(f"in {time_words(in_s)}, at {hour_words(now_s + in_s)}, {what_then}")
    return "; ".join(parts)


def bytes_words(count: float) -> str:
    """In the largest unit of which there is one: 1.5 GiB."""
    name, size = next(((name, size) for name, size in UNITS if count >= size), ("bytes", 1.0))
    amount = count / size
    return f"{amount:.0f} {name}" if amount >= 100.0 or size == 1.0 else f"{amount:.3g} {name}"


def hour_words(at_s: float) -> str:
    """The hour of a moment in Unix seconds: `14:20 UTC`."""
    minutes = int(at_s // 60.0) % 1440
    return f"{minutes // 60:02d}:{minutes % 60:02d} UTC"
