"""A log of any size, read for a death: its last lines as they stand, and of what comes before them what may matter.

A plain file is read backwards, in chunks, to the last lines that show training at work; from there forward. A compressed one is
read from its start, once. Memory is bounded however large the log is. A plain file is searched for `limit_bytes` at most: what
lies beyond is unknown, and `LogEnd.is_cut` says so.

end = read_log_end(Path("slurm-4711.out"))
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sentinel.detectors.crash_class import STEPS_SURVIVED_MAX
from sentinel.detectors.crash_labels import Labelled, read_labels
from sentinel.detectors.crash_patterns import Tier, match_line, may_tell, telling_words
from sentinel.detectors.crash_progress import SHOWING_WORDS, is_progress, may_show_progress
from sentinel.detectors.crash_reading import ends_traceback, is_frame, is_worth_keeping, starts_traceback
from sentinel.telemetry.compressed import compression_of, open_compressed, read_block
from sentinel.telemetry.no_log import what_stands_for_it, why_no_text
from sentinel.telemetry.wrapped_lines import unwrap

TAIL_BYTES = 64 * 1024
LINES_KEPT = 600
LINE_CHARS = 500
SEARCH_BYTES_MAX = 256 << 20
CHUNK_BYTES = 1 << 18
HEAD_BYTES = 1024
LINE_BYTES_MAX = 8192  # of a longer line the beginning is looked at, which may be wrapped in JSON
TEXT_CHARS = 1024  # of what a program printed in one line: patterns take time in its square
KEPT_MAX = 32_768
KEPT_OF_WRITER_MAX = 256
WRITERS_MAX = 32_768
SAME_MAX = 16  # lines of one writer that differ in numbers alone
SHOWS = STEPS_SURVIVED_MAX + 1

_NO_DIGITS = str.maketrans("", "", "0123456789")


@dataclass(frozen=True, slots=True)
class LogEnd:
    """`numbers`: of each line its place in the file, from 1; 0 where it was not counted. `searched_bytes`: how much of the end
    was looked at; `is_cut`: the search met its bound; `breaks_off`: the data of a compressed log did, and its end was not read.
    `is_unbroken`: no line was kept of it, and the last one is longer than what is read of an end. `no_text`: what the file is and
    what to do, where it looks like no text."""

    lines: tuple[str, ...]
    numbers: tuple[int, ...]
    searched_bytes: int = 0
    is_cut: bool = False
    no_text: str = ""
    breaks_off: bool = False
    is_unbroken: bool = False


class Gist:
    """Lines in their order; keeps those that may tell of a death since the last few step lines."""

    def __init__(self) -> None:
        self.kept: deque[tuple[int, str]] = deque()
        self._shows: deque[int] = deque(maxlen=SHOWS)  # numbers of the newest step lines
        self._open: dict[tuple[object, ...], list[tuple[int, str]]] = {}  # tracebacks that have not ended
        self._counts: dict[tuple[object, ...], int] = {}
        self._seen: set[tuple[object, ...]] = set()
        self._shapes: dict[tuple[object, ...], int] = {}

    def feed_all(self, number: int, lines: list[str]) -> int:
        """Lines that follow one another, the first of them the `number`-th. Words that none of them holds are not looked for in
        each. Returns the number of the line behind them."""
        together = "\n".join(lines).lower()
        showing = tuple(word for word in SHOWING_WORDS if word in together)
        telling = tuple(word for word in telling_words() if word in together)
        if showing or telling or self._open or "traceback" in together:
            for at, line in enumerate(lines):
                lower = line.lower()
                shows = any(word in lower for word in showing)
                tells = any(word in lower for word in telling)
                if shows or tells or self._open or "traceback" in lower:
                    self.feed(number + at, line, shows=shows)
        return number + len(lines)

    def story(self) -> list[tuple[int, str]]:
        """What was kept, and the beginnings of tracebacks that end in lines behind those that were fed."""
        return [*self.kept, *sorted(item for held in self._open.values() for item in held)]

    def feed(self, number: int, line: str, *, shows: bool = True) -> None:
        if shows and is_progress(read_labels(line).text):
            self._show(number, line)
        else:
            self._tell(number, line)

    def _show(self, number: int, line: str) -> None:
        """A step line: what lies before the oldest of the newest few is over."""
        if len(self._shows) == SHOWS:
            oldest = self._shows[1]
            while self.kept and self.kept[0][0] < oldest:
                self.kept.popleft()
        self._shows.append(number)
        self._counts.clear()
        self._seen.clear()
        self._shapes.clear()
        self.kept.append((number, line))

    def _tell(self, number: int, line: str) -> None:
        read = read_labels(line)
        writer = (read.rank, read.role, read.number, read.host)
        text = read.text
        if starts_traceback(text):
            if len(self._open) < WRITERS_MAX:
                self._open[writer] = [(number, line)]
            return
        held = self._open.get(writer)
        if held is not None:
            if not ends_traceback(text):
                if is_worth_keeping(text) and len(held) < LINES_KEPT:
                    held.append((number, line))
                return
            del self._open[writer]
        elif self._is_flood(writer, text):
            return
        self._keep(number, line, read, held)

    def _is_flood(self, writer: tuple[object, ...], text: str) -> bool:
        """Whether this writer has said the same often, but for its numbers."""
        shape = (*writer, text.translate(_NO_DIGITS))
        count = self._shapes.get(shape, 0)
        if count < SAME_MAX and len(self._shapes) < WRITERS_MAX:
            self._shapes[shape] = count + 1
        return count >= SAME_MAX

    def _keep(self, number: int, line: str, read: Labelled, held: list[tuple[int, str]] | None) -> None:
        text = read.text
        pattern = match_line(text) if may_tell(text) else None
        writer = (read.rank, read.role, read.number, read.host)
        if pattern is not None and pattern.tier >= Tier.TIMEOUT and read.is_labelled:
            signature = (*writer, pattern.crash, pattern.fits.pattern)
            if signature in self._seen:
                return
            if len(self._seen) < WRITERS_MAX * 2:
                self._seen.add(signature)
            held = None  # a consequence is one without its traceback
        elif held is None and (is_frame(text) or not is_worth_keeping(text)):
            return
        for item in (*(held or ()), (number, line)):
            self._add(writer, item)

    def _add(self, writer: tuple[object, ...], item: tuple[int, str]) -> None:
        count = self._counts.get(writer, 0)
        if len(self.kept) < KEPT_MAX and (
            count < KEPT_OF_WRITER_MAX or not any(part is not None and part != "" for part in writer)
        ):
            if len(self._counts) < WRITERS_MAX:
                self._counts[writer] = count + 1
            self.kept.append((item[0], item[1]))


def read_log_end(
    path: Path, limit_bytes: int = SEARCH_BYTES_MAX, *, lines_kept: int = LINES_KEPT, numbered: bool = False
) -> LogEnd:
    """The story of a log's end: its last `lines_kept` lines whole. Raises OSError for what cannot be read or is no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe in its place must not hold us up
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "Is a directory", str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(22, "not a regular file", str(path))
        head = os.pread(descriptor, HEAD_BYTES, 0)
        if stand_in := what_stands_for_it(head):
            raise OSError(22, stand_in, str(path))
        kind = compression_of(head)
        if kind is not None:
            return _read_packed(path, kind, lines_kept)
        end = _read_plain(file.fileno(), status.st_size, limit_bytes, lines_kept, numbered)
        return replace(end, no_text=_why_no_text(head))


def _why_no_text(head: bytes) -> str:
    """A log that was cut while it grew may begin with a hole."""
    return why_no_text(head.strip(b"\0"))


def _read_plain(handle: int, size: int, limit_bytes: int, lines_kept: int, numbered: bool) -> LogEnd:
    tail_start, tail = _tail(handle, size, lines_kept)
    shows = sum(is_progress(read_labels(line).text) for line in tail if may_show_progress(line))
    start, is_cut = (
        (tail_start, False) if shows >= SHOWS else _start(handle, tail_start, SHOWS - shows, max(0, size - limit_bytes))
    )
    number = _newlines(handle, start) + 1 if numbered else 1
    gist = Gist()
    for lines in _lines(handle, start, tail_start):
        number = gist.feed_all(number, lines)
    kept = [(at if numbered else 0, line) for at, line in gist.story()]
    kept += [(number + at if numbered else 0, line) for at, line in enumerate(tail)]
    end = _end(kept, size - start, is_cut)
    return replace(end, is_unbroken=tail_start == size > 0 and not end.lines)


def _end(kept: list[tuple[int, str]], searched_bytes: int, is_cut: bool) -> LogEnd:
    shown = [(number, line.rstrip()[:LINE_CHARS]) for number, line in kept if line.strip()]
    return LogEnd(tuple(line for _, line in shown), tuple(number for number, _ in shown), searched_bytes, is_cut)


def _tail(handle: int, size: int, lines_kept: int) -> tuple[int, list[str]]:
    """Where the last whole lines begin, and these lines, blank ones too."""
    start = max(0, size - TAIL_BYTES)
    data = os.pread(handle, size - start, start)
    if start:
        cut = data.find(b"\n") + 1  # 0: one line longer than all of it; its end is what can be shown
        start, data = start + cut, data[cut:]
    ends = data.endswith(b"\n")
    parts = data.split(b"\n")
    if ends:
        parts.pop()
    if len(parts) > lines_kept:
        start += sum(len(part) + 1 for part in parts[:-lines_kept])
        parts = parts[-lines_kept:]
    return start, [_text(part) for part in parts]


def _start(handle: int, end: int, shows: int, floor: int) -> tuple[int, bool]:
    """Where to read from: at the step line that is the `shows`-th before `end`, else at the floor (and whether that cuts)."""
    rest, at = b"", end
    while at > floor:
        first = max(floor, at - CHUNK_BYTES)
        data = os.pread(handle, at - first, first) + rest
        at = first
        newline = data.find(b"\n") + 1 if first > 0 else 0
        if newline == 0 and first > 0:
            rest = data[:LINE_BYTES_MAX]
            continue
        rest = data[:newline][:LINE_BYTES_MAX]
        offset = len(data)
        together = _text_of(data).lower()
        words = tuple(word for word in SHOWING_WORDS if word in together)
        for part in reversed(data[newline:].split(b"\n")) if words else ():
            offset -= len(part)
            line = _text(part)
            lower = line.lower()
            if any(word in lower for word in words) and is_progress(read_labels(line).text):
                shows -= 1
                if shows == 0:
                    return first + offset, False
            offset -= 1
    return floor, floor > 0


def _lines(handle: int, start: int, end: int) -> Iterator[list[str]]:
    rest = b""
    while start < end:
        data = os.pread(handle, min(CHUNK_BYTES, end - start), start)
        if not data:
            return
        start += len(data)
        parts = (rest + data).split(b"\n")
        rest = _cut(parts.pop())
        yield [_text(part) for part in parts]
    if rest:
        yield [_text(rest)]


def _newlines(handle: int, end: int) -> int:
    count = at = 0
    while at < end:
        data = os.pread(handle, min(CHUNK_BYTES, end - at), at)
        if not data:
            break
        count += data.count(b"\n")
        at += len(data)
    return count


def _read_packed(path: Path, kind: str, lines_kept: int) -> LogEnd:
    gist = Gist()
    ring: list[str] = []
    number, rest, head = 1, b"", b""
    breaks_off = False
    with open_compressed(path, kind) as packed:
        while True:
            try:
                block = read_block(packed, CHUNK_BYTES)
            except EOFError:
                block, breaks_off = b"", True  # what is there is read
            head = head or block[:HEAD_BYTES]
            parts = (rest + block).split(b"\n") if block else [rest] if rest else []
            rest = _cut(parts.pop()) if block else b""
            ring += [_text(part) for part in parts]
            if len(ring) > lines_kept:
                number = gist.feed_all(number, ring[:-lines_kept])
                ring = ring[-lines_kept:]
            if not block:
                end = _end([*gist.story(), *enumerate(ring, number)], 0, False)
                return replace(end, no_text=_why_no_text(head), breaks_off=breaks_off)


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _text(part: bytes) -> str:
    """Of a progress bar, its newest state; of a line that a log driver wrapped in JSON, what it wrapped; of a long line its
    beginning."""
    text = _text_of(_cut(part).strip(b"\0"))
    return (unwrap(text) if text.startswith("{") else text)[:TEXT_CHARS]


def _cut(part: bytes) -> bytes:
    """A line, or the beginning of one that is still to be read to its end: all bars on one line are one line."""
    if b"\r" in part:
        part = part.rstrip(b"\r").rpartition(b"\r")[2]
    return part[:LINE_BYTES_MAX]
