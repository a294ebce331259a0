"""Log files beside those of an attempt's ranks and launcher: files that the policy (`run: log_files`) or the trainer's profile
names, by paths or patterns.

Such a file may be older than the attempt, which appends to it. What stood in it then is an earlier attempt's, so its length and a
digest of its end are noted before the launch:

    note_before(run_dir, 3, patterns)               # RUN_DIR/logs_before.json: of the newest attempt
    logs = NamedLogs(run_dir, 3, patterns)
    logs.find(now_s)                                # the paths that match now
    logs.begin(path, descriptor)                    # the byte from which on it is of this attempt

Nobody knows how long a file was that is named only while the attempt lives: it counts from its end as first seen.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular, regular
from sentinel.client.strict_json import dumps, loads

NOTED_NAME = "logs_before.json"
FILES_MAX = 1000  # of one pattern
FIND_EVERY_S = 5.0  # a pattern may stand for a large folder
MARK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Stood:
    """How long a file was, in bytes, and a digest of its last MARK_BYTES: by these it is seen whether that still stands there."""

    inode: int
    size: int
    mark: str


@dataclass(frozen=True, slots=True)
class StoodBefore:
    """What stood before one attempt, in which files (by path), and for which patterns that was asked."""

    patterns: tuple[str, ...] = ()
    files: Mapping[str, Stood] = field(default_factory=dict)


def note_before(run_dir: Path, attempt: int, patterns: Sequence[str]) -> StoodBefore:
    """Note the files of patterns that are not noted for this attempt yet, as they are now. Raises OSError."""
    noted = _read(run_dir, attempt)
    new = [pattern for pattern in patterns if pattern not in noted.patterns]
    if not new:
        return noted
    files = dict(noted.files)
    for path in (path for pattern in new for path in _matches(pattern) if path not in files):
        with suppress(OSError):  # gone again, or no file that could be read: it is read from its beginning if it becomes one
            files[path] = _stood(path)
    noted = StoodBefore((*noted.patterns, *new), files)
    plain = {"attempt": attempt, "patterns": list(noted.patterns), "files": {path: asdict(one) for path, one in files.items()}}
    write_atomically(run_dir / NOTED_NAME, dumps(plain).encode() + b"\n")
    return noted


class NamedLogs:
    """Of one attempt, which lives."""

    def __init__(self, run_dir: Path, attempt: int, patterns: Sequence[str]) -> None:
        self._run_dir, self._attempt, self._patterns = run_dir, attempt, tuple(patterns)
        self._noted: StoodBefore | None = None
        self._found: list[str] = []
        self._found_s = float("-inf")

    def find(self, now_s: float, *, is_over: bool = False) -> list[str]:
        """The paths that match, looked for every FIND_EVERY_S. Raises OSError where it cannot be noted what stood before."""
        if not self._patterns:
            return []
        if self._noted is None:
            self._noted = note_before(self._run_dir, self._attempt, self._patterns)
        if is_over or now_s - self._found_s >= FIND_EVERY_S:
            self._found_s = now_s
            self._found = list(dict.fromkeys(path for pattern in self._patterns for path in _matches(pattern)))
        return self._found

    def begin(self, path: str, descriptor: int) -> int:
        """The first byte of this attempt in the open file. A file that was renamed is known by its inode. Raises OSError."""
        inode = os.fstat(descriptor).st_ino
        files = {} if self._noted is None else self._noted.files
        known = [*(one for one in [files.get(path)] if one is not None), *(one for one in files.values() if one.inode == inode)]
        return next((one.size for one in known if _mark(descriptor, one.size) == one.mark), 0)


def _matches(pattern: str) -> Iterator[str]:
    return iter(sorted(itertools.islice(glob.iglob(pattern, recursive=True), FILES_MAX)))


def _stood(path: str) -> Stood:
    with open(path, "rb", opener=regular) as file:
        status = os.fstat(file.fileno())
        return Stood(status.st_ino, status.st_size, _mark(file.fileno(), status.st_size))


def _mark(descriptor: int, size: int) -> str:
    begin = max(0, size - MARK_BYTES)
    return hashlib.sha256(os.pread(descriptor, size - begin, begin)).hexdigest()


def _read(run_dir: Path, attempt: int) -> StoodBefore:
    """What is noted for the attempt; of another one, or of a file that cannot be used, nothing."""
    try:
        plain = loads(read_regular(run_dir / NOTED_NAME))
        if plain["attempt"] != attempt:
            return StoodBefore()
        return StoodBefore(tuple(plain["patterns"]), {path: Stood(**one) for path, one in plain["files"].items()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return StoodBefore()
