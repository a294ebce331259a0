"""journal.head: how many entries a journal had when it was last written, and their digest.

A second one lies in the folder of the newest attempt. Old copies of the files of the run directory, put back together, agree with
each other; with that one they do not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME, attempt_folder, attempts_folder
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import LostHistory

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
    """Write journal.head durably. Raises OSError."""
    write_atomically(run_dir / HEAD_NAME, _encode(chain))
    second = second_head_path(run_dir)
    if second is not None and second.parent.is_dir():
        with suppress(OSError):  # it may lag, and be lost with the machine: the first is the one that is synced
            write_atomically(second, _encode(chain), durable=False)


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


def _encode(chain: Chain) -> bytes:
    return dumps({"seq": chain.seq, "digest": chain.digest}).encode() + b"\n"


def _decode(text: bytes) -> Chain:
    """Raises ValueError, KeyError or TypeError."""
    plain = loads(text)
    seq, digest = plain["seq"], plain["digest"]
    if type(seq) is not int or type(digest) is not str:
        raise ValueError("seq must be a whole number and digest a text")
    return Chain(seq, digest)
