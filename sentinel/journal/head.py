"""journal.head: how many entries a journal had when it was last written, and their digest. Written and read here; whether the
journal agrees with it is asked in `lost_history`.

A second one lies in the folder of the newest attempt. Old copies of the files of the run directory, put back together, agree with
each other; with that one they do not.

The file has two lines of equal size, and each write takes the older one's place: where a machine stops in the middle of it, the
other line still stands. A file that is replaced costs the filesystem two commits: 0.6 ms on a quiet disk, 10 where others write.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, attempt_folder, attempts_folder
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import LostHistory

LINE_BYTES = 256
_BLANK = b" " * (LINE_BYTES - 1) + b"\n"

Row = tuple[int, object, object, object, object]  # seq, at_s, epoch, kind, body: as they stand in the table


@dataclass(frozen=True, slots=True)
class Chain:
    """All entries up to number `seq`. `digest`: SHA-256 in hex of the digest before and the last entry."""

    seq: int = 0
    digest: str = ""

    def with_row(self, row: Row) -> Chain:
        text = f"{self.digest}\n{row!r}".encode("utf-8", "surrogatepass")
        return Chain(row[0], hashlib.sha256(text).hexdigest())

    def extended(self, rows: Iterable[Row]) -> Chain:
        chain = self
        for row in rows:
            chain = chain.with_row(row)
        return chain


def write_head(run_dir: Path, chain: Chain) -> None:
    """Write journal.head durably, and the second one. Raises OSError."""
    note_head(run_dir, chain)
    settle_head(run_dir, chain)


def note_head(run_dir: Path, chain: Chain) -> None:
    """Write journal.head: it outlives this process, and not yet this machine. Raises OSError."""
    path = run_dir / HEAD_NAME
    if not _write_in_place(path, chain):
        write_atomically(path, _encode(chain) + _BLANK)


def settle_head(run_dir: Path, chain: Chain) -> None:
    """What was noted is on disk when this returns, and the newest attempt's folder holds it too. Raises OSError."""
    handle = os.open(run_dir / HEAD_NAME, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fdatasync(handle)
    finally:
        os.close(handle)
    second = second_head_path(run_dir)
    if second is not None and second.parent.is_dir():
        with suppress(OSError):  # it may lag, and be lost with the machine: the first is the one that is synced
            if not _write_in_place(second, chain):
                write_atomically(second, _encode(chain) + _BLANK, durable=False)


def read_head(run_dir: Path) -> Chain | None:
    """None where there is none. Raises LostHistory for what cannot be read as one."""
    path = run_dir / HEAD_NAME
    try:
        return _decode(read_regular(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LostHistory(
            f"{path}: cannot be read ({error}), so whether {JOURNAL_NAME} is whole is unknown. Nothing was touched. "
            f"`sentinel journal verify {run_dir}` says what is whole; `sentinel journal salvage {run_dir}` goes on from there",
            (f"{HEAD_NAME} cannot be read ({error})",),
        ) from error


def second_head_path(run_dir: Path) -> Path | None:
    """In the folder of the newest attempt; None before the first."""
    newest = newest_attempt_folder(run_dir)
    return attempt_folder(run_dir, newest) / HEAD_NAME if newest else None


def read_second_head(run_dir: Path) -> Chain | None:
    """None where it is not there, or not whole: it is not synced, and a power cut may have emptied it."""
    path = second_head_path(run_dir)
    try:
        return None if path is None else _decode(read_regular(path))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def newest_attempt_folder(run_dir: Path) -> int:
    """The highest number that a folder under attempts/ has, 0 without one."""
    try:
        names = os.listdir(attempts_folder(run_dir))
    except OSError:
        return 0
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=0)


def _write_in_place(path: Path, chain: Chain) -> bool:
    """False where no file of ours with an earlier entry lies there: none yet, one of an older version, a link. A file that has
    two names is somebody's copy, which stays as it is. Raises OSError."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size != 2 * LINE_BYTES:
            return False
        data = os.pread(handle, 2 * LINE_BYTES, 0)
        numbers = [_number(data[:LINE_BYTES]), _number(data[LINE_BYTES:])]
        if not -1 < max(numbers) < chain.seq:
            return False
        older = numbers.index(min(numbers))
        if os.pwrite(handle, _encode(chain), older * LINE_BYTES) != LINE_BYTES:
            raise OSError(f"{path}: not all of a line could be written")
        return True
    finally:
        os.close(handle)


def _number(line: bytes) -> int:
    """-1 for a line that is blank, or not whole."""
    try:
        return _decode_line(line).seq
    except (ValueError, KeyError, TypeError):
        return -1


def _encode(chain: Chain) -> bytes:
    text = dumps({"seq": chain.seq, "digest": chain.digest, "check": _check(chain)}).encode()
    return text.ljust(LINE_BYTES - 1) + b"\n"


def _check(chain: Chain) -> int:
    return zlib.crc32(f"{chain.seq} {chain.digest}".encode())


def _decode(text: bytes) -> Chain:
    """The newest line that is whole. Raises ValueError, KeyError or TypeError where none is."""
    if len(text) != 2 * LINE_BYTES:
        return _decode_line(text, is_checked=False)  # by an older version: one line without a check
    return _decode_line(max((text[:LINE_BYTES], text[LINE_BYTES:]), key=_number))


def _decode_line(line: bytes, *, is_checked: bool = True) -> Chain:
    plain = loads(line)
    seq, digest = plain["seq"], plain["digest"]
    if type(seq) is not int or type(digest) is not str:
        raise ValueError("seq must be a whole number and digest a text")
    chain = Chain(seq, digest)
    if is_checked and plain["check"] != _check(chain):
        raise ValueError("a line was written by half")
    return chain
