"""One node's part in trying whether a folder is shared as a run directory must be. Standard library only.

`sentinel preflight` on one machine and `node_facts` on each node write into one folder for some seconds, as a supervisor and its
ranks do, and each notes what it sees of the other: a file that is replaced (changed settings), a file that is written over in
place (heartbeats), lines that are appended (the stream), and locks that the other holds. Each measures by its own monotonic
clock how long what the other changes all the time stood still; no two clocks are compared.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.closed_files import open_closed
from sentinel.client.regular_file import read_regular

EVERY_S = 0.1
TRIAL_S = 4.0  # longer than a filesystem may keep what it has read and still be fast enough
ASKER = "asker"  # a number that whoever asks replaces all the time
FLOCK, POSIX = "held.flock", "held.posix"  # held by whoever asks
LOCKS: dict[str, Callable[[int, int], None]] = {FLOCK: fcntl.flock, POSIX: fcntl.lockf}


class Stillness:
    """How long a number that somebody raises all the time was seen to stand still, between two changes."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.longest_s = 0.0
        self._since_s = 0.0

    def see(self, number: int | None, now_s: float) -> None:
        """None: it cannot be read just now, which changes nothing."""
        if number is None or number == self.number:
            return
        if self.number is not None:
            self.longest_s = max(self.longest_s, now_s - self._since_s)
        self.number, self._since_s = number, now_s

    def until_s(self, now_s: float) -> float | None:
        """With the time since the last change, where it is raised until now; None where it was never seen."""
        return None if self.number is None else max(self.longest_s, now_s - self._since_s)


def beat_name(node: str) -> str:
    return f"{node}.beat"


def lines_name(node: str) -> str:
    return f"{node}.lines"


def read_number(path: Path) -> int | None:
    """None where there is none, or it is half written."""
    try:
        text = read_regular(path, 64)
    except OSError:
        return None
    return int(text) if text.endswith(b"\n") and text[:-1].isdigit() else None


def number_bytes(number: int) -> bytes:
    """Of the same length each time: written over in place it leaves nothing of the one before."""
    return b"%012d\n" % number


def take_part(folder: Path, node: str, for_s: float = TRIAL_S) -> dict[str, object]:
    """Write and look for so long; what was seen, as `sentinel.plan.shared_folder.FolderFacts` has it."""
    asker, count = Stillness(), 0
    end_s = time.monotonic() + for_s
    while not folder.is_dir():  # a name that was looked for too early may be kept as missing for a while
        if time.monotonic() >= end_s:
            return {"error": "", "name": node, "still_s": None, "numbers": 0, "locks": {}}
        time.sleep(EVERY_S)
    try:
        beat = open_closed(folder / beat_name(node), os.O_WRONLY)
        try:
            while (now_s := time.monotonic()) < end_s:
                count += 1
                os.pwrite(beat, number_bytes(count), 0)
                _append(folder / lines_name(node), number_bytes(count))
                asker.see(read_number(folder / ASKER), now_s)
                time.sleep(EVERY_S)
        finally:
            os.close(beat)
    except OSError as error:
        return {"error": error.strerror or str(error), "name": node, "still_s": None, "numbers": count, "locks": {}}
    still_s = asker.until_s(end_s)
    return {
        "error": "",
        "name": node,
        "still_s": None if still_s is None else round(still_s, 2),
        "numbers": count,
        "locks": {name: _try(folder / name) for name in LOCKS},
    }


def _append(path: Path, line: bytes) -> None:
    """As the client does: one write of a whole line."""
    lines = open_closed(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(lines, line)
    finally:
        os.close(lines)


def _try(path: Path) -> str:
    try:
        handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error.strerror or str(error)
    try:
        LOCKS[path.name](handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return "held" if error.errno in (errno.EACCES, errno.EAGAIN) else error.strerror or str(error)
    finally:
        os.close(handle)
    return "free"


class AskersNumber:
    """The asker's own side of it: the number, replaced at each `turn`."""

    def __init__(self, folder: Path) -> None:
        self._path, self._number = folder / ASKER, 0

    def turn(self) -> None:
        self._number += 1
        with suppress(OSError):
            write_atomically(self._path, number_bytes(self._number), durable=False)
