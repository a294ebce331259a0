"""`sentinel logs`: what the ranks and the launcher of an attempt printed, each line with whose it is, and what comes after.

Lines of one log stay in their order. Logs carry no common clock, so the ends of several are given one log after the other, the
one that was written to last at the end; what comes afterwards is interleaved as it comes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import attempts_folder
from sentinel.errors import UsageError
from sentinel.report.journal_fold import JournalFold
from sentinel.report.log_files import LogFile, LogFollower, find_logs, read_tail, silent_ranks
from sentinel.report.masked import run_masking
from sentinel.report.run_dirs import check_run_dir
from sentinel.run_files.attempt_files import AttemptFiles

TAIL_LINES = 100
RANKS_NAMED = 16


@dataclass(frozen=True, slots=True)
class LogQuery:
    """`ranks` empty: all of them, and the launcher. `attempt` None: the newest, and with `follow` those after it too."""

    run_dir: Path
    ranks: tuple[int, ...] = ()
    attempt: int | None = None
    tail: int = TAIL_LINES
    follow: bool = False


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log, or of sentinel's own about them (`is_note`). `line`: without whose it is, which `label` says: rank 3,
    launcher."""

    text: str
    is_note: bool = False
    attempt: int | None = None
    label: str = ""
    rank: int | None = None
    line: str = ""

    @property
    def document(self) -> dict[str, Any]:
        """As `sentinel logs --json` prints it: one object a line."""
        if self.is_note:
            return {"note": self.text}
        return {"attempt": self.attempt, "of": self.label, "rank": self.rank, "line": self.line}


def read_logs(query: LogQuery, pause: Callable[[], None]) -> Iterator[LogLine]:
    """The ends of the logs, and with `follow` what comes until the run, or the attempt that was named, is over; `pause` waits a
    moment before each look.

    Raises UsageError, before the first line, where there is no such run, attempt or log.
    """
    check_run_dir(query.run_dir)
    attempt = _choose(query)
    readers, shown = _begin(query, attempt)
    yield from shown
    if not query.follow:
        return
    run = JournalFold(query.run_dir)
    while True:
        run.catch_up()
        is_run_over, newest = bool(run.state.ended), _newest(query.run_dir)
        is_over = AttemptFiles(query.run_dir, attempt).exit.exists() or newest != attempt
        yield from _drain(query, attempt, readers, is_over or is_run_over)
        if query.attempt is None and newest is not None and newest != attempt:
            attempt = min(number for number in attempt_numbers(query.run_dir) if number > attempt)
            readers = {}
            yield LogLine(f"attempt {attempt} is launched", is_note=True)
        elif is_run_over or (is_over and query.attempt is not None):
            return
        else:
            pause()


def attempt_numbers(run_dir: Path) -> list[int]:
    """Of every attempt that has a folder, those that only looked at samples too."""
    try:
        names = os.listdir(attempts_folder(run_dir))
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)


def _newest(run_dir: Path) -> int | None:
    return max(attempt_numbers(run_dir), default=None)


def _choose(query: LogQuery) -> int:
    numbers = attempt_numbers(query.run_dir)
    if not numbers:
        raise UsageError(f"{query.run_dir}: no attempt was launched yet, so there is no log; look again in a moment")
    if query.attempt is None:
        return numbers[-1]
    if query.attempt not in numbers:
        raise UsageError(f"--attempt {query.attempt}: {query.run_dir} has {_named('attempt', numbers)}")
    return query.attempt


def _begin(query: LogQuery, attempt: int) -> tuple[dict[Path, LogFollower], list[LogLine]]:
    """The ends of the logs there are, and who reads on in each."""
    logs = find_logs(query.run_dir, attempt)
    wanted = _wanted(query, logs)
    missing = [rank for rank in query.ranks if rank not in {log.rank for log in logs}]
    if missing and not query.follow:
        ranks = sorted({log.rank for log in logs if log.rank is not None})
        none = "has no log of a rank; without --rank stands what the launcher printed"
        there = f"has logs of {_named('rank', ranks)}" if ranks else none
        raise UsageError(f"--rank {missing[0]}: attempt {attempt} of {query.run_dir} {there}")
    shown = [LogLine(f"attempt {attempt}: no log of rank {missing[0]} yet", is_note=True)] if missing else []
    silent = [] if query.ranks else silent_ranks(query.run_dir, attempt, logs)
    if silent:
        words = f"attempt {attempt}: no log of {_named('rank', silent)}: what they print goes elsewhere"
        shown.append(LogLine(words, is_note=True))
    readers, masking = dict[Path, LogFollower](), run_masking(query.run_dir)
    for log in sorted(wanted, key=_written_ns):
        lines, offset = read_tail(log.path, query.tail)
        readers[log.path] = LogFollower(log, offset)
        shown += [_line(query, attempt, log, logs, line) for line in masking.lines(lines)]
    return readers, shown


def _drain(query: LogQuery, attempt: int, readers: dict[Path, LogFollower], is_over: bool) -> Iterator[LogLine]:
    """What is new in all of them, those that have appeared too; of an attempt that is over to their ends."""
    logs = find_logs(query.run_dir, attempt)
    for log in _wanted(query, logs):
        readers.setdefault(log.path, LogFollower(log))
    has_more, masking = True, run_masking(query.run_dir)
    while has_more:
        has_more = False
        for reader in readers.values():
            lines = masking.lines(tuple(reader.read(is_over)))
            yield from (_line(query, attempt, reader.log, logs, line) for line in lines)
            has_more |= is_over and bool(lines) and reader.has_more


def _wanted(query: LogQuery, logs: Sequence[LogFile]) -> list[LogFile]:
    return [log for log in logs if not query.ranks or log.rank in query.ranks]


def _line(query: LogQuery, attempt: int, log: LogFile, logs: Sequence[LogFile], line: str) -> LogLine:
    return LogLine(_prefix(query, log, logs) + line, attempt=attempt, label=log.label, rank=log.rank, line=line)


def _prefix(query: LogQuery, log: LogFile, logs: Sequence[LogFile]) -> str:
    """Nothing where only one rank was asked for."""
    if len(query.ranks) == 1:
        return ""
    width = max((len(other.label) for other in _wanted(query, logs)), default=0)
    return f"{log.label:<{width}} | "


def _written_ns(log: LogFile) -> tuple[int, str]:
    try:
        return log.path.stat().st_mtime_ns, log.path.name
    except OSError:
        return 0, log.path.name


def _named(what: str, numbers: Sequence[int]) -> str:
    """`ranks 0, 1, 2 and 5 more`."""
    shown = ", ".join(map(str, numbers[:RANKS_NAMED]))
    more = f" and {len(numbers) - RANKS_NAMED} more" if len(numbers) > RANKS_NAMED else ""
    return f"{what}{'s' if len(numbers) > 1 else ''} {shown}{more}"
