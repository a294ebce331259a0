"""journal.head: how many entries a journal had when it was last written, and their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import HEAD_NAME, JOURNAL_NAME
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
    write_atomically(run_dir / HEAD_NAME, dumps({"seq": chain.seq, "digest": chain.digest}).encode() + b"\n")


def read_head(run_dir: Path) -> Chain | None:
    """None where there is none. Raises LostHistory for what cannot be read as one."""
    path = run_dir / HEAD_NAME
    try:
        plain = loads(read_regular(path))
        seq, digest = plain["seq"], plain["digest"]
        if type(seq) is not int or type(digest) is not str:
            raise ValueError("seq must be a whole number and digest a text")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LostHistory(
            f"{path}: cannot be read ({error}), so whether {JOURNAL_NAME} is whole is unknown. Nothing was touched. "
            f"`sentinel journal verify {run_dir}` says what is whole; `sentinel journal salvage {run_dir}` goes on from there",
            (f"{HEAD_NAME} cannot be read ({error})",),
        ) from error
    return Chain(seq, digest)
