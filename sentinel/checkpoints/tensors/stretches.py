"""Stretches of a file that hold numbers, and a count that is fed the file block by block as it is read for another purpose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sentinel.checkpoints.tensors.floats import Format, look

READ_TIMES_MAX = 4  # tensors may share bytes (tied weights, views): so many times the file may be looked at in all
NAME_CHARS_MAX = 200


class UncountableNumbers(Exception):
    """The numbers of a file cannot be counted; the message says why."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """`is_exact` False: a view with gaps lies in it, so that what is not finite may be outside the view."""

    start: int
    end: int
    kind: Format
    name: str
    is_exact: bool = True


@dataclass(slots=True)
class StretchCount:
    """What was found in one stretch, once all of it was fed."""

    stretch: Stretch
    nan: int = 0
    infinite: int = 0
    has_number: bool = False
    rest: bytes = b""
    """The beginning of a value that the next block goes on with."""

    @property
    def values(self) -> int:
        return (self.stretch.end - self.stretch.start) // self.stretch.kind.value_bytes

    def take(self, part: bytes) -> None:
        kind = self.stretch.kind
        part = self.rest + part if self.rest else part
        over = len(part) % kind.number_bytes
        self.rest = part[len(part) - over :] if over else b""
        seen = look(part[: len(part) - over] if over else part, kind, seek_number=not self.has_number)
        self.nan += seen.nan
        self.infinite += seen.infinite
        self.has_number = self.has_number or seen.has_number


@dataclass(slots=True)
class Count:
    """`begun` is the number of stretches of which a byte was fed. Of the finished ones only what is not finite is kept; with
    `keeps_all`, all."""

    stretches: tuple[Stretch, ...]
    values: int = 0
    bad: list[StretchCount] = field(default_factory=list)
    begun: int = 0
    open: list[StretchCount] = field(default_factory=list)
    keeps_all: bool = False

    def feed(self, offset: int, block: bytes) -> None:
        """The next block of the file, `offset` bytes from its beginning."""
        end = offset + len(block)
        while self.begun < len(self.stretches) and self.stretches[self.begun].start < end:
            self.open.append(StretchCount(self.stretches[self.begun]))
            self.begun += 1
        still = []
        for tally in self.open:
            first, last = max(tally.stretch.start, offset), min(tally.stretch.end, end)
            tally.take(block if last - first == len(block) else block[first - offset : last - offset])
            if tally.stretch.end > end:
                still.append(tally)
                continue
            self.values += tally.values
            if self.keeps_all or tally.nan or tally.infinite:
                self.bad.append(tally)
        self.open = still

    @property
    def is_whole(self) -> bool:
        return self.begun == len(self.stretches) and not self.open


def begin_count(stretches: Iterable[Stretch], size: int) -> Count:
    """Of a file of `size` bytes. Tensors that are the same bytes are one. Raises UncountableNumbers for what no file can be."""
    found: dict[tuple[int, int, str], Stretch] = {}
    for stretch in stretches:
        if not 0 <= stretch.start <= stretch.end <= size:
            raise UncountableNumbers(f"{stretch.name} lies outside the file")
        if stretch.end > stretch.start:
            found.setdefault((stretch.start, stretch.end, stretch.kind.name), stretch)
    if sum(end - start for start, end, _ in found) > READ_TIMES_MAX * size:
        raise UncountableNumbers("its tensors overlap")
    return Count(tuple(sorted(found.values(), key=lambda one: (one.start, one.end))))


def shown(name: str) -> str:
    """As a person may read it: a name is a trainer's, and no terminal takes a command from it."""
    plain = name if name.isprintable() else ascii(name)
    return plain if len(plain) <= NAME_CHARS_MAX else f"{plain[: NAME_CHARS_MAX - 1]}…"
