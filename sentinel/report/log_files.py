"""The logs of one attempt as they lie on the disk: which there are, what of a huge one was printed last, what is new in one.

Logs are other people's programs talking: of any length, in any encoding, cut by the keeper while they grow (launcher/log_cap.py).
What is given back is whole lines, fit for a terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.run_files.attempt_files import AttemptFiles, rank_files
from sentinel.terminal.clean import clean

BLOCK_BYTES = 1 << 16
TAIL_BYTES_MAX = 32 << 20  # so much of the end is searched for lines; further back nobody reads on a terminal
READ_BYTES_MAX = 1 << 20  # of what is new, in one read of one log
LINE_BYTES_MAX = 1 << 20  # a longer line is given in pieces
LAUNCHER = "launcher"

_NAME = re.compile(r"(?:rank-(\d{1,7})|(launcher))\.(out|err)")


@dataclass(frozen=True, slots=True)
class LogFile:
    """`rank` None: the launcher's, which is the whole command's where the ranks keep none of their own."""

    rank: int | None
    path: Path

    @property
    def label(self) -> str:
        return LAUNCHER if self.rank is None else f"rank {self.rank}"


def find_logs(run_dir: Path, attempt: int) -> list[LogFile]:
    """By rank, the launcher's last; of each its output before its errors."""
    found: list[LogFile] = []
    try:
        with os.scandir(AttemptFiles(run_dir, attempt).logs) as entries:
            for entry in entries:
                match = _NAME.fullmatch(entry.name)
                if match is not None:
                    found.append(LogFile(None if match[2] else int(match[1]), Path(entry.path)))
    except OSError:
        return []
    return sorted(found, key=lambda log: (log.rank is None, log.rank or 0, log.path.suffix == ".err"))


def silent_ranks(run_dir: Path, attempt: int, logs: list[LogFile]) -> list[int]:
    """Ranks that beat or left a record, and have no log."""
    files = AttemptFiles(run_dir, attempt)
    known: set[int] = set()
    for folder in (files.heartbeats, files.exits):
        try:
            known |= set(rank_files(folder))
        except OSError:
            continue
    logged = {log.rank for log in logs}
    return sorted(known - logged)


def read_tail(path: Path, count: int) -> tuple[list[str], int]:
    """The last `count` lines, and how many bytes of the file they are the end of: where to read on. Of a log that was cut not
    long ago, what came last before that too. What cannot be read has no lines."""
    try:
        with open(path, "rb", opener=regular) as file:
            status = os.fstat(file.fileno())
            data = _last_lines(file.fileno(), status.st_size, count)
    except OSError:
        return [], 0
    end = status.st_size
    if not data.endswith(b"\n"):  # a line that is still being written belongs to whoever reads on
        rest = len(data) - (data.rfind(b"\n") + 1)
        if rest < LINE_BYTES_MAX:
            data, end = data[: len(data) - rest], end - rest
    parts = data.removesuffix(b"\n").split(b"\n") if data else []
    lines = [line for line in map(_text, parts) if line is not None]
    if len(lines) < count and not path.name.endswith(".tail"):
        earlier, _ = read_tail(path.with_name(f"{path.name}.tail"), count - len(lines))
        lines = earlier + lines
    return lines[-count:] if count else [], end


def _last_lines(handle: int, size: int, count: int) -> bytes:
    blocks: list[bytes] = []
    start, newlines = size, 0
    while start > 0 and newlines <= count and size - start < TAIL_BYTES_MAX:
        first = max(0, start - BLOCK_BYTES)
        block = os.pread(handle, start - first, first)
        newlines += block.count(b"\n")
        blocks.append(block)
        start = first
    data = b"".join(reversed(blocks))
    return data if start == 0 else data[data.find(b"\n") + 1 :]


class LogFollower:
    """Reads on in one log, whole lines as they come. One that was cut or put in another's place is read from its start: what the
    keeper writes there says what was cut."""

    def __init__(self, log: LogFile, offset: int = 0) -> None:
        self.log = log
        self._offset = offset

    def read(self, is_over: bool = False) -> Iterator[str]:
        """What is new. `is_over`: nobody writes any more, so that a last line without its end counts."""
        try:
            with open(self.log.path, "rb", opener=regular) as file:
                status = os.fstat(file.fileno())
                if status.st_size < self._offset:
                    self._offset = 0
                data = os.pread(file.fileno(), READ_BYTES_MAX, self._offset)
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        is_whole = is_over and self._offset + len(data) >= status.st_size
        if is_whole or (end == 0 and len(data) >= LINE_BYTES_MAX):
            end = len(data)
        self._offset += end
        for part in data[:end].removesuffix(b"\n").split(b"\n") if end else ():
            line = _text(part)
            if line is not None:
                yield line

    @property
    def has_more(self) -> bool:
        try:
            return self.log.path.stat().st_size > self._offset
        except OSError:
            return False


def _text(part: bytes) -> str | None:
    """None for the hole that a log which is not opened for appending has where it was cut."""
    if part and not part.strip(b"\0"):
        return None
    return clean(part.strip(b"\0").decode("utf-8", "replace"))
