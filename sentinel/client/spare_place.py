"""A second place for exit records: where the run directory cannot be written, how a process ended must not be forgotten with it.

    spare = SparePlace(run_dir, attempt)          # while the run directory can still be read
    spare.write("rank-00000.json", data)
    spare.read("rank-00000.json")                 # by the keeper, the supervisor, `sentinel status`; None: there is none

It lies on this machine, outside the run: `sentinel-exits-UID` below TMPDIR (/tmp), /var/tmp or /dev/shm, the first that takes it.
These are everybody's, so a folder counts only if it is this user's own and closed to all others, and a file only if it is this
user's: nobody else can plant a record. The name of an attempt's folder comes from the run directory's path and its run.json, so
that a later run in the same place does not find it. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import sys
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import RUN_FILE_NAME
from sentinel.client.strict_json import dumps, loads

PLACES = ("/var/tmp", "/dev/shm")  # behind TMPDIR; what is there is checked before it is believed
RECORD_BYTES_MAX = 16 << 20
_OTHERS = 0o077


class SparePlace:
    """Of one attempt. Nothing here but `write` raises: what cannot be read is not there."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._run = _name_of_run(run_dir)
        self._attempt = attempt

    def write(self, name: str, data: bytes) -> Path:
        """Where it went. Raises the first OSError where no place takes it."""
        first: OSError | None = None
        for top in _tops():
            try:
                folder = _ensure_own(_ensure_own(top) / f"{self._run}-{self._attempt:04d}")
                write_atomically(folder / name, data)
            except OSError as error:
                first = first or error
                continue
            return folder / name
        assert first is not None, "there is a place to try"
        raise first

    def read(self, name: str) -> bytes | None:
        """What was written; None where nothing was, or nothing that can be believed."""
        for folder in self._folders():
            if (data := _read_own(folder / name)) is not None:
                return data
        return None

    def names(self) -> list[str]:
        """Of what is there."""
        found: set[str] = set()
        for folder in self._folders():
            with contextlib.suppress(OSError):
                found |= {name for name in os.listdir(folder) if not name.startswith(".")}
        return sorted(found)

    def remove(self, name: str) -> None:
        """It is at home by now."""
        for folder in self._folders():
            with contextlib.suppress(OSError):
                (folder / name).unlink()
            with contextlib.suppress(OSError):
                folder.rmdir()  # once it is empty

    def _folders(self) -> list[Path]:
        folders = (top / f"{self._run}-{self._attempt:04d}" for top in _tops() if _is_own(top))
        return [folder for folder in folders if _is_own(folder)]


def write_record(path: Path, data: bytes, spare: SparePlace) -> None:
    """To its place, durable, or to the second one where that cannot be written. Raises no OSError; a person is told."""
    try:
        write_atomically(path, data)
        return
    except OSError as refused:
        error = refused
    try:
        where = f"it is in {spare.write(path.name, data)}"
    except OSError as another:
        where = f"and no second place took it ({another})"
    with contextlib.suppress(OSError, ValueError):  # stderr may lie on the same disk
        print(f"sentinel: {path}: the exit record cannot be written ({error}); {where}", file=sys.stderr, flush=True)


def is_in_use() -> bool:
    """Whether this user has anything there, of whatever run: the usual answer is no, and costs little."""
    return any(_is_own(top) for top in _tops())


def attempts_with_spares(run_dir: Path) -> list[int]:
    """The attempts of a run of which something lies in the second place."""
    found: set[int] = set()
    tops = [top for top in _tops() if _is_own(top)]
    pattern = re.compile(rf"{_name_of_run(run_dir)}-(\d{{4,9}})") if tops else None
    for top in tops:
        with contextlib.suppress(OSError):
            found |= {int(match[1]) for name in os.listdir(top) if pattern and (match := pattern.fullmatch(name))}
    return sorted(found)


def _name_of_run(run_dir: Path) -> str:
    """The same for the trainer, the keeper and the supervisor of one run."""
    document: object = None
    with contextlib.suppress(OSError, ValueError):
        document = loads(read_regular(run_dir / RUN_FILE_NAME))
    known = document if isinstance(document, dict) else {}
    words = [os.path.realpath(run_dir), *(str(known.get(key, "")) for key in ("id", "created", "digest_key"))]
    return hashlib.sha256(dumps(words).encode()).hexdigest()[:24]


def _tops() -> list[Path]:
    """Not by `tempfile`, which passes over a place that is full, and then looks elsewhere than whoever wrote there."""
    places = dict.fromkeys((os.environ.get("TMPDIR") or "/tmp", *PLACES))
    return [Path(place) / f"sentinel-exits-{os.geteuid()}" for place in places]


def _ensure_own(folder: Path) -> Path:
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_own(folder):
        raise PermissionError(errno.EACCES, "is not this user's own folder, closed to all others", str(folder))
    return folder


def _is_own(folder: Path) -> bool:
    """A link is none, whoever made it."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS


def _read_own(path: Path) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(handle, "rb") as file:
        try:
            status = os.fstat(handle)
            is_whole = stat.S_ISREG(status.st_mode) and status.st_size <= RECORD_BYTES_MAX
            return file.read(RECORD_BYTES_MAX) if is_whole and status.st_uid == os.geteuid() else None
        except OSError:
            return None
