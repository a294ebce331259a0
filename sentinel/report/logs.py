"""`sentinel logs`: what the ranks and the launcher of an attempt printed, each line with whose it is, and what comes after.

Lines of one log stay in their order. Logs carry no common clock, so the ends of several are given one log after the other, the
one that was written to last at the end; what comes afterwards is interleaved as it comes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.run_layout import attempts_folder
from sentinel.errors import UsageError
from sentinel.report.journal_fold import JournalFold
from sentinel.report.log_files import Log, LogReader, find_logs, read_tail, silent_ranks
from sentinel.report.run_dirs import check_run_dir
from sentinel.run_files.attempt_files import AttemptFiles

TAIL_LINES = 100
RANKS_NAMED = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """`ranks` empty: all of them, and the launcher. `attempt` None: the newest, and with `follow` those after it too."""

    run_dir: Path
    ranks: tuple[int, ...] = ()
    attempt: int | None = None
    tail: int = TAIL_LINES
    follow: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A line of a log, or of sentinel's own about them (`is_note`)."""

    text: str
    is_note: bool = False


def read_logs(asked: Asked, pause: Callable[[], None]) -> Iterator[Said]:
    """The ends of the logs, and with `follow` what comes until the run, or the attempt that was named, is over; `pause` waits a
    moment before each look.

    Raises UsageError, before the first line, where there is no such run, attempt or log.
    """
    check_run_dir(asked.run_dir)
    attempt = _choose(asked)
    readers, said = _begin(asked, attempt)
    yield from said
    if not asked.follow:
        return
    run = JournalFold(asked.run_dir)
    while True:
        run.catch_up()
        is_run_over, newest = bool(run.state.ended), _newest(asked.run_dir)
        is_over = AttemptFiles(asked.run_dir, attempt).exit.exists() or newest != attempt
        yield from _drain(asked, attempt, readers, is_over or is_run_over)
        if asked.attempt is None and newest is not None and newest != attempt:
            attempt = min(number for number in attempt_numbers(asked.run_dir) if number > attempt)
            readers = {}
            yield Said(f"attempt {attempt} is launched", is_note=True)
        elif is_run_over or (is_over and asked.attempt is not None):
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


def _choose(asked: Asked) -> int:
    numbers = attempt_numbers(asked.run_dir)
    if not numbers:
        raise UsageError(f"{asked.run_dir}: no attempt was launched yet, so there is no log; look again in a moment")
    if asked.attempt is None:
        return numbers[-1]
    if asked.attempt not in numbers:
        raise UsageError(f"--attempt {asked.attempt}: {asked.run_dir} has {_named('attempt', numbers)}")
    return asked.attempt


def _begin(asked: Asked, attempt: int) -> tuple[dict[Path, LogReader], list[Said]]:
    """The ends of the logs there are, and who reads on in each."""
    logs = find_logs(asked.run_dir, attempt)
    wanted = _wanted(asked, logs)
    missing = [rank for rank in asked.ranks if rank not in {log.rank for log in logs}]
    if missing and not asked.follow:
        ranks = sorted({log.rank for log in logs if log.rank is not None})
        none = "has no log of a rank; without --rank stands what the launcher printed"
        there = f"has logs of {_named('rank', ranks)}" if ranks else none
        raise UsageError(f"--rank {missing[0]}: attempt {attempt} of {asked.run_dir} {there}")
    said = [Said(f"attempt {attempt}: no log of rank {missing[0]} yet", is_note=True)] if missing else []
    silent = [] if asked.ranks else silent_ranks(asked.run_dir, attempt, logs)
    if silent:
        said.append(Said(f"attempt {attempt}: no log of {_named('rank', silent)}: what they print goes elsewhere", is_note=True))
    readers: dict[Path, LogReader] = {}
    for log in sorted(wanted, key=_written_ns):
        lines, offset = read_tail(log.path, asked.tail)
        readers[log.path] = LogReader(log, offset)
        said += [Said(_prefix(asked, log, logs) + line) for line in lines]
    return readers, said


def _drain(asked: Asked, attempt: int, readers: dict[Path, LogReader], is_over: bool) -> Iterator[Said]:
    """What is new in all of them, those that have appeared too; of an attempt that is over to their ends."""
    logs = find_logs(asked.run_dir, attempt)
    for log in _wanted(asked, logs):
        readers.setdefault(log.path, LogReader(log))
    has_more = True
    while has_more:
        has_more = False
        for reader in readers.values():
            size = 0
            for line in reader.read(is_over):
                size += 1
                yield Said(_prefix(asked, reader.log, logs) + line)
            has_more |= is_over and size > 0 and reader.has_more


def _wanted(asked: Asked, logs: Sequence[Log]) -> list[Log]:
    return [log for log in logs if not asked.ranks or log.rank in asked.ranks]


def _prefix(asked: Asked, log: Log, logs: Sequence[Log]) -> str:
    """Nothing where only one rank was asked for."""
    if len(asked.ranks) == 1:
        return ""
    width = max((len(other.label) for other in _wanted(asked, logs)), default=0)
    return f"{log.label:<{width}} | "


def _written_ns(log: Log) -> tuple[int, str]:
    try:
        return log.path.stat().st_mtime_ns, log.path.name
    except OSError:
        return 0, log.path.name


def _named(what: str, numbers: Sequence[int]) -> str:
    """`ranks 0, 1, 2 and 5 more`."""
    shown = ", ".join(map(str, numbers[:RANKS_NAMED]))
    more = f" and {len(numbers) - RANKS_NAMED} more" if len(numbers) > RANKS_NAMED else ""
    return f"{what}{'s' if len(numbers) > 1 else ''} {shown}{more}"
