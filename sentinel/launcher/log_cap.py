"""Logs that cannot fill a disk: what an attempt prints is cut while it runs, its beginning and its newest end kept.

A rank that prints the same warning for a night writes hundreds of gigabytes, and a full disk ends the run that the warning did
not. Once a file holds more than CAP_BYTES its first HEAD_BYTES are copied to NAME.head (the first time), its last TAIL_BYTES to
NAME.tail, it is emptied, and a line in it says so; whoever writes to it has it open for appending and goes on at its new end.
What was printed between the copy and the cut is lost; that is what a flood costs.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from sentinel.client.closed_files import closed
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import attempts_folder

CAP_BYTES = 128 << 20
HEAD_BYTES = 1 << 20
TAIL_BYTES = 16 << 20
LOOK_EVERY_S = 1.0
CHUNK_BYTES = 1 << 20

_LOG = re.compile(r"(rank-\d+|launcher)\.(out|err)")


class LogCap:
    """Looks at one attempt's logs once a second. For the keeper: it alone is sure to live as long as the ranks."""

    def __init__(
        self, folder: Path, cap_bytes: int = CAP_BYTES, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self._folder = folder
        self._cap, self._head, self._tail = cap_bytes, head_bytes, tail_bytes
        self._look_at_s = 0.0

    def keep(self, now_s: float) -> None:
        """Cut what has grown past the cap. Never raises: a log that cannot be cut now is cut later."""
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_EVERY_S
        for path, size in _logs(self._folder):
            if size > self._cap:
                with contextlib.suppress(OSError):
                    self._cut(path)

    def _cut(self, path: Path) -> None:
        with open(path, "rb", opener=regular) as file:
            size = os.fstat(file.fileno()).st_size
            head, tail = path.with_name(f"{path.name}.head"), path.with_name(f"{path.name}.tail")
            with contextlib.suppress(OSError):  # no room for copies: what matters then is the room
                if not head.exists():
                    _copy(file.fileno(), 0, self._head, head)
                _copy(file.fileno(), max(0, size - self._tail), size, tail)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.ftruncate(handle, 0)
            note = f"[sentinel cut this log at {size} bytes; its beginning is in {head.name}, what came last in {tail.name}]\n"
            os.write(handle, note.encode())
        finally:
            os.close(handle)


def read_log_sizes(run_dir: Path) -> dict[Path, int]:
    """Bytes on disk of every log of every attempt, the kept beginnings and ends included."""
    found: dict[Path, int] = {}
    for path in sorted(attempts_folder(run_dir).glob("*/logs/*")):
        with contextlib.suppress(OSError):
            found[path] = path.stat().st_blocks * 512
    return found


def _logs(folder: Path) -> Iterator[tuple[Path, int]]:
    """Logs with what they take of the disk: of one that was not opened for appending, a hole is left where it was cut."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if _LOG.fullmatch(entry.name)]
    except OSError:
        return
    for entry in found:
        with contextlib.suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            yield Path(entry.path), min(status.st_size, status.st_blocks * 512)


def _copy(source: int, start: int, end: int, target: Path) -> None:
    """Raises OSError; then nothing of it is left on a disk that may be full."""
    aside = target.with_name(f".{target.name}.tmp")
    try:
        with open(aside, "wb", opener=closed) as file:
            while start < end and (chunk := os.pread(source, min(CHUNK_BYTES, end - start), start)):
                file.write(chunk)
                start += len(chunk)
        os.replace(aside, target)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
