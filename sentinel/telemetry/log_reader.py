"""A recorded log of somebody's run, read from its start: the shape every format shares, and the one that reads by lines.

A reader gives step readings in the order of the file, in bounded batches, and can be asked again when the file has grown. What is
damaged is left out, counted, and reported once with its place. It never raises for what stands in the file; OSError is the
caller's. Attempt is always 1: a log knows nothing of launches.

    for reading in read_to_end(open_log(Path("train.csv"))): ...
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from errno import ENOENT
from itertools import islice
from pathlib import Path
from typing import Protocol

from sentinel.model.readings import SourceReading, StepReading
from sentinel.telemetry.source import SourceHealth
from sentinel.telemetry.tailed_file import TailedFile

ATTEMPT = 1
LINES_PER_POLL = ROWS_PER_POLL = 5000
EXCERPT_BYTES = 60

LineParser = Callable[[bytes], StepReading | None]
"""A line (without its newline) to its reading; None for a line that is none of ours; ValueError for a damaged one."""


class LogReader(Protocol):
    """`damaged` lines or records so far, with the first of them in words; `has_more` after a poll that stopped at its bound.
    `remark`: what else a person should know of this log, empty when nothing."""

    damaged: int
    first_damage: str

    @property
    def has_more(self) -> bool: ...

    @property
    def remark(self) -> str: ...

    def poll(self, now_s: float) -> list[StepReading]:
        """What stands behind the last poll; a bounded batch. OSError when the file cannot be read."""
        ...

    def finish(self) -> list[StepReading]:
        """Nothing more will come: take an unfinished end as it stands."""
        ...

    def close(self) -> None: ...


class NotedLog:
    """What the readers of logs that are no lines have in common: what was damaged, and that nothing stays open between polls."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self.first_damage = ""
        self.remark = ""
        self.has_more = False

    def close(self) -> None:
        """No file stays open."""

    def _note(self, what: str) -> None:
        self.damaged += 1
        self.first_damage = self.first_damage or what


class RewrittenLog(NotedLog):
    """A document that is written anew whenever something is added. One that changed is read again, by `_read`, which gives what
    was not given out before."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._rows: Iterator[StepReading] | None = None
        self._version: tuple[int, int] | None = None

    def poll(self, now_s: float) -> list[StepReading]:
        del now_s
        if self._rows is None:
            version = self._version_now()
            if version == self._version:
                return []
            self._version, self._rows = version, self._read()
        out = list(islice(self._rows, ROWS_PER_POLL))
        self.has_more = len(out) == ROWS_PER_POLL
        if not self.has_more:
            self._rows = None
        return out

    def finish(self) -> list[StepReading]:
        return []

    def close(self) -> None:
        self._rows = None

    def _version_now(self) -> tuple[int, int]:
        status = os.stat(self.path)
        return status.st_mtime_ns, status.st_size

    def _read(self) -> Iterator[StepReading]:
        raise NotImplementedError


def read_to_end(reader: LogReader) -> Iterator[StepReading]:
    """Every reading of a file that nobody writes any more."""
    try:
        while True:
            yield from reader.poll(0.0)
            if not reader.has_more:
                break
        yield from reader.finish()
    finally:
        reader.close()


class LineSource(Protocol):
    """Where lines come from: `TailedFile`, `CompressedLines`."""

    has_more: bool
    is_there: bool
    trouble: OSError | None
    remarks: list[SourceReading]

    def read_lines(self, now_s: float, limit: int) -> list[bytes]: ...
    def read_rest(self) -> list[bytes]: ...
    def close(self) -> None: ...


class LineLog:
    """A log of lines, through the tail code: growing, replaced, truncated files and endless lines are its business.

    Lines of one step with different metrics, such as the training and the validation loss, become one reading. While the file
    holds more, the newest reading waits for the next lines. A line that comes after its step was given out (an evaluation of a
    minute, in a log that is followed live) joins the step after it.
    """

    def __init__(self, path: Path, parse: LineParser, file: LineSource | None = None) -> None:
        self.path = path
        self.damaged = 0
        self.first_damage = ""
        self._parse = parse
        self._file: LineSource = file if file is not None else TailedFile(path, _seeing(), returns=splits_at_returns(parse))
        self._remark = ""
        self._line = 0
        self._held: list[StepReading] = []  # at most one
        self._given = -1  # step given out last
        self._late: dict[str, float] = {}  # said of that step since

    @property
    def has_more(self) -> bool:
        return self._file.has_more

    @property
    def remark(self) -> str:
        return self._remark or str(getattr(self._parse, "remark", ""))

    def poll(self, now_s: float) -> list[StepReading]:
        lines = self._file.read_lines(now_s, LINES_PER_POLL)
        if self._file.remarks:
            self._remark = self._file.remarks[-1].reason
        if self._file.trouble is not None:
            raise self._file.trouble
        if not self._file.is_there:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(self.path))
        return self._give_out(self._take(lines), self._file.has_more)

    def finish(self) -> list[StepReading]:
        return self._give_out(self._take(self._file.read_rest()), has_more=False)

    def close(self) -> None:
        self._file.close()

    def _give_out(self, rows: list[StepReading], has_more: bool) -> list[StepReading]:
        self._held = [rows.pop()] if has_more and rows else []
        if rows:
            self._given = rows[-1].step
        return rows

    def _take(self, lines: list[bytes]) -> list[StepReading]:
        out = self._held
        parse, number, newest, is_first = self._parse, self._line, out[-1].step if out else -1, not out
        for line in lines:
            number += 1
            try:
                reading = parse(line)
            except ValueError as error:
                if line.strip():
                    self._note_damage(f"line {number}: {error}: {line[:EXCERPT_BYTES]!r}")
                continue
            if reading is None:
                continue
            if reading.step == newest and _completes(reading.metrics, out[-1].metrics):
                last = out[-1]
                both = {**reading.metrics, **last.metrics}
                out[-1] = StepReading(ATTEMPT, newest, last.time_s, last.samples, both)
                continue
            if is_first:
                if reading.step == self._given and "loss" not in reading.metrics:
                    self._late.update(reading.metrics)
                    continue
                metrics, self._late, is_first = {**self._late, **reading.metrics}, {}, False
                reading = StepReading(ATTEMPT, reading.step, reading.time_s, reading.samples, metrics)
            newest = reading.step
            out.append(reading)
        self._line = number
        return out

    def _note_damage(self, what: str) -> None:
        self.damaged += 1
        self.first_damage = self.first_damage or what


def splits_at_returns(parse: LineParser) -> bool:
    """Does the parser want a line that was written over to be several?"""
    return bool(getattr(parse, "splits_at_returns", False))


def _completes(more: Mapping[str, float], known: Mapping[str, float]) -> bool:
    """Does it tell something else of the step than what is known? Of two training losses neither completes the other."""
    return more.keys().isdisjoint(known) or any((name in more) != (name in known) for name in ("loss", "val_loss"))


def _seeing() -> SourceHealth:
    """Sight that was never lost: remarks about the file are always heard."""
    health = SourceHealth("log")
    health.regained()
    return health
