"""Patterns of the policy over everything that an attempt prints, and over the log files that policy or profile name beside it
(`named_logs`): every log is read once, from the attempt's first byte on, while it grows.

A pattern is looked for until it was found; then that writer's logs are searched for it no more. A file whose rank is not known is
a writer of its own. A poll reads READ_BYTES at most.
Of a log that was cut because it grew too large (`launcher/log_cap.py`), what was kept of its end is read, too; what was lost is
unknown. Called in a thread of its own (`timed_reads`); never raises for what a program printed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.detectors.crash_labels import rank_in_name, read_labels
from sentinel.model.readings import LogMatch
from sentinel.policy.line_patterns import LinePattern
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.named_logs import NamedLogs
from sentinel.telemetry.source import describe_os_error

Patterns = Sequence[tuple[str, LinePattern]]
"""The policy's entries: name and pattern."""

READ_BYTES = 8 << 20  # in one poll, of all logs together
BLOCK_BYTES = 1 << 20
LINE_BYTES_MAX = 1 << 20  # of a longer line the pieces are searched
LINE_CHARS = 1000
FILES_MAX = 16_384
_LOG = re.compile(r"(?:rank-(?P<rank>[0-9]{1,7})|launcher)\.(?:out|err)(?:\.tail)?")


@dataclass
class _Log:
    """`writer`: whose log it is, where its lines do not say: a rank, None for the launcher, the path of a named file."""

    writer: int | str | None
    is_named: bool = False
    inode: int = 0
    offset: int = 0
    rest: bytes = b""
    left: dict[str, LinePattern] = field(default_factory=dict)


class LogPatterns:
    """Of one attempt."""

    def __init__(self, run_dir: Path, attempt: int, patterns: Patterns, named: Sequence[str] = ()) -> None:
        """`named`: absolute paths and patterns of further files."""
        self._attempt = attempt
        self._folder = AttemptFiles(run_dir, attempt).logs
        self._patterns = dict(patterns)
        self._logs: dict[str, _Log] = {}
        self._named = NamedLogs(run_dir, attempt, named)
        self._found: set[tuple[str, int | str | None]] = set()
        self.has_more = False
        self.trouble = ""

    def poll(self, now_s: float = 0.0, *, is_over: bool = False) -> list[LogMatch]:
        """What was found in what is new. `is_over`: nothing more will be written; a last line without an end counts. A log that
        cannot be read is named in `trouble`. Raises OSError for a folder that cannot be, and where it cannot be noted how long
        named files were."""
        self.has_more, self.trouble = False, ""
        if not self._patterns:
            return []
        out: list[LogMatch] = []
        budget = READ_BYTES
        own = ((entry.name, entry.path) for entry in self._entries())
        named = ((path, path) for path in self._named.find(now_s, is_over=is_over))
        for name, path in (*own, *named):
            log = self._log_of(name, is_named=name is path)
            if log is None or not log.left:
                continue
            try:
                budget -= self._read(path, log, budget, out, is_over)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.trouble = describe_os_error(error, Path(path))
            if budget <= 0:
                self.has_more = True
                break
        return out

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self._folder) as entries:
                yield from sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return

    def _log_of(self, name: str, *, is_named: bool) -> _Log | None:
        known = self._logs.get(name)
        if known is not None or len(self._logs) >= FILES_MAX:
            return known
        writer: int | str | None
        if is_named:
            rank = rank_in_name(name)
            writer = name if rank is None else rank
        elif (found := _LOG.fullmatch(name)) is not None:
            writer = None if found["rank"] is None else int(found["rank"])
        else:
            return None
        left = {entry: pattern for entry, pattern in self._patterns.items() if (entry, writer) not in self._found}
        return self._logs.setdefault(name, _Log(writer, is_named, left=left))

    def _read(self, path: str, log: _Log, budget: int, out: list[LogMatch], is_over: bool) -> int:
        """Search what is new of a log, within the budget; bytes that were read."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return 0
            if status.st_ino != log.inode or status.st_size < log.offset:
                begin = self._named.begin(path, descriptor) if log.is_named and not log.inode else 0
                log.inode, log.offset, log.rest = status.st_ino, begin, b""
            taken = 0
            while log.left and taken < budget and (data := os.pread(descriptor, BLOCK_BYTES, log.offset)):
                log.offset += len(data)
                taken += len(data)
                self._search(log, log.rest + data, out)
            if is_over and log.rest and log.left and taken < budget:
                self._search(log, log.rest + b"\n", out)
            return taken
        finally:
            os.close(descriptor)

    def _search(self, log: _Log, data: bytes, out: list[LogMatch]) -> None:
        """In whole lines; what follows the last of them is kept for the next time, if it is not too long."""
        end = data.rfind(b"\n") + 1
        if not end and len(data) >= LINE_BYTES_MAX:
            end = len(data)
        block, log.rest = data[:end], data[end:]
        for name, pattern in tuple(log.left.items()) if block else ():
            found = pattern.first(block)
            if found is None:
                continue
            label = read_labels(found.line[:LINE_CHARS])
            rank = log.writer if isinstance(log.writer, int) else label.rank
            out.append(LogMatch(self._attempt, name, rank, label.text[:LINE_CHARS], found.groups, label.host))
            self._found.add((name, log.writer))
            for other in self._logs.values():
                if other.writer == log.writer:
                    other.left.pop(name, None)
