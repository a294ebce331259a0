"""journal.head: how many entries a journal had when it was last written, and their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import UsageError

Row = tuple[object, ...]  # seq, at_s, epoch, kind, body


@dataclass(frozen=True, slots=True)
class Chain:
    """All entries up to number `seq`. `digest`: SHA-256 in hex of the digest before and the last entry."""

    seq: int = 0
    digest: str = ""

    def extended(self, rows: Iterable[Row]) -> Chain:
        seq, digest = self.seq, self.digest
        for row in rows:
            digest = hashlib.sha256(f"{digest}\n{row!r}".encode("utf-8", "surrogatepass")).hexdigest()
            seq = row[0] if isinstance(row[0], int) else seq
        return Chain(seq, digest)


def write_head(run_dir: Path, chain: Chain) -> None:
    """Write journal.head. Where the disk refuses, the head lags until the next entry: that is no loss."""
    with suppress(OSError):
        write_atomically(run_dir / HEAD_NAME, dumps({"seq": chain.seq, "digest": chain.digest}).encode() + b"\n")


def read_head(run_dir: Path) -> Chain | None:
    """None where there is none: the run is older than this file, and gets one with its next entry."""
    path = run_dir / HEAD_NAME
    try:
        plain = loads(read_regular(path))
        seq, digest = plain["seq"], plain["digest"]
        if type(seq) is not int or type(digest) is not str:
            raise ValueError("seq must be a whole number and digest a text")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: cannot be read ({error}), so whether {JOURNAL_NAME} is whole is unknown; if you know that it is, delete "
            f"{HEAD_NAME}: the next entry makes a new one"
        ) from error
    return Chain(seq, digest)
