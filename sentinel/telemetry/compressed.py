"""Lines of a compressed log (gzip, bzip2, xz), read as a stream: memory is bounded however large it is unpacked.

The same surface as `TailedFile`, so that a log of lines does not know what it is read from. A compressed file does not grow
as a log does: it is read to its end, and again never.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from pathlib import Path

from sentinel.model.readings import SourceReading
from sentinel.telemetry.tailed_file import BLOCK_BYTES, EXCERPT_BYTES, split_at_returns

BinaryStream = gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}


def compression_of(head: bytes) -> str | None:
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def open_compressed(path: Path, kind: str) -> BinaryStream:
    if kind == "gzip":
        return gzip.open(path, "rb")
    return bz2.open(path, "rb") if kind == "bzip2" else lzma.open(path, "rb")


def read_block(file: BinaryStream, size: int) -> bytes:
    """The next `size` bytes unpacked: fewer where the data ends or breaks off, none at its end.

    Raises OSError for what is no such data, and EOFError where it breaks off and all before that was returned.
    """
    parts: list[bytes] = []
    missing = size
    try:
        while missing > 0 and (part := file.read1(missing)):  # `read` would drop what it had unpacked before the break
            parts.append(part)
            missing -= len(part)
    except EOFError:
        if not parts:
            raise
    except (zlib.error, lzma.LZMAError) as error:
        raise OSError(0, f"damaged compressed data ({error})") from None
    return b"".join(parts)


class CompressedLines:
    """`has_more` until the end was seen; `trouble`: the damage that ended it early."""

    def __init__(self, path: Path, kind: str, *, returns: bool = False) -> None:
        self.path = path
        self._returns = returns
        self.has_more = True
        self.is_there = True
        self.remarks: list[SourceReading] = []
        self.trouble: OSError | None = None
        self._kind = kind
        self._file: BinaryStream | None = None
        self._rest = b""
        self._skipping = False
        self._ended = False

    def read_lines(self, now_s: float, limit: int) -> list[bytes]:
        """The whole lines of the next block. `limit` is the block's size here, not a number of lines."""
        del now_s, limit
        self.remarks = []
        if self._ended:
            self.has_more = False
            return []
        try:
            if self._file is None:
                self._file = open_compressed(self.path, self._kind)
            block = read_block(self._file, BLOCK_BYTES)
        except EOFError:
            self._end()
            self.remarks = [SourceReading("log", True, f"{self.path}: the compressed data breaks off; read as far as it goes")]
            return []
        except OSError as error:
            self._end()
            self.trouble = error if error.filename or error.errno else OSError(0, error.strerror or str(error), str(self.path))
            return []
        if not block:
            self._end()
            return []
        return self._lines(block)

    def read_rest(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _end(self) -> None:
        self._ended, self.has_more = True, False

    def _lines(self, block: bytes) -> list[bytes]:
        text = self._rest + block
        lines = (split_at_returns(text) if self._returns else text).split(b"\n")
        self._rest = lines.pop()
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        if len(self._rest) > BLOCK_BYTES or self._skipping:
            if not self._skipping:
                lines.append(self._rest[:EXCERPT_BYTES] + b"\0")
            self._rest, self._skipping = b"", True
        return lines
