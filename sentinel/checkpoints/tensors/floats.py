"""Which values of a block of bytes are NaN or infinite, by their bits and without a third-party library.

A value that is not finite has the largest exponent its format knows, and nearly all of that stands in its most significant byte.
So one byte of each value is looked at, with `bytes` functions that run in C. Only where such a byte is found are all bytes of the
block compared. Values are little-endian.

    >>> look(struct.pack("<3f", 1.0, math.nan, 0.0), FORMATS["F32"])
    FloatCount(nan=1, infinite=0, has_number=True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Format:
    """Bits of the exponent and of the rest without the sign, the most significant byte first. A format with `nan_bytes` has one
    byte and no infinities: those bytes are its NaNs."""

    name: str
    exponent: bytes
    mantissa: bytes
    nan_bytes: bytes = b""
    lanes: int = 1  # numbers in a value: two where it is complex
    suspects: tuple[bytes, ...] = field(init=False)  # the most significant bytes that a value that is not finite may have

    def __post_init__(self) -> None:
        top = self.exponent[0]
        found = self.nan_bytes or bytes(byte for byte in range(256) if byte & top == top)
        object.__setattr__(self, "suspects", tuple(bytes([byte]) for byte in found))

    @property
    def number_bytes(self) -> int:
        return len(self.exponent)

    @property
    def value_bytes(self) -> int:
        return self.lanes * len(self.exponent)


class FloatCount(NamedTuple):
    """How many are NaN and how many infinite. `has_number`: one at least is finite and not zero."""

    nan: int
    infinite: int
    has_number: bool


_E64, _M64 = b"\x7f\xf0" + bytes(6), b"\x00\x0f" + b"\xff" * 6
_E32, _M32 = b"\x7f\x80\x00\x00", b"\x00\x7f\xff\xff"
# The names are those of safetensors. The formats of one byte: OCP 8-bit floating point, and those of ONNX whose name ends in UZ.
FORMATS = {
    one.name: one
    for one in (
        Format("F64", _E64, _M64),
        Format("F32", _E32, _M32),
        Format("F16", b"\x7c\x00", b"\x03\xff"),
        Format("BF16", b"\x7f\x80", b"\x00\x7f"),
        Format("F8_E5M2", b"\x7c", b"\x03"),
        Format("F8_E4M3", b"\x78", b"\x07", nan_bytes=b"\x7f\xff"),
        Format("F8_E5M2FNUZ", b"\x7c", b"\x03", nan_bytes=b"\x80"),
        Format("F8_E4M3FNUZ", b"\x78", b"\x07", nan_bytes=b"\x80"),
        Format("F8_E8M0", b"\xff", b"\x00", nan_bytes=b"\xff"),
        Format("C64", _E32, _M32, lanes=2),
        Format("C128", _E64, _M64, lanes=2),
    )
}


def look(block: bytes, kind: Format, *, seek_number: bool = True) -> FloatCount:
    """Of whole values. Without `seek_number` a block that is finite is not searched for a value that is not zero."""
    width = kind.number_bytes
    top = block if width == 1 else block[width - 1 :: width]
    if kind.nan_bytes:
        nan = sum(top.count(byte) for byte in kind.suspects if byte in top)  # a search is ten times as fast as a count
        return FloatCount(nan, 0, len(block) - nan > block.count(b"\0") if seek_number or nan else False)
    if not any(byte in top for byte in kind.suspects):
        return FloatCount(0, 0, bool(block.strip(b"\0")) if seek_number else False)
    return _look_closely(block, kind)


def _look_closely(block: bytes, kind: Format) -> FloatCount:
    """Byte by byte: each is translated to 1 or 0, and the bytes of all values are combined at once as one large integer."""
    width, count = kind.number_bytes, len(block) // kind.number_bytes
    full, some, other = (1 << 8 * count) - 1, 0, 0
    for place in range(width):  # of the most significant byte first
        column = block[width - 1 - place :: width]
        exponent, mantissa = kind.exponent[place], kind.mantissa[place]
        if exponent:
            full &= _flags(column, _all_of, exponent)
        if mantissa:
            some |= _flags(column, _any_of, mantissa)
        other |= _flags(column, _any_of, exponent | mantissa)
    bad, nan = full.bit_count(), (full & some).bit_count()
    return FloatCount(nan, bad - nan, other.bit_count() > bad)


def _flags(column: bytes, table: Callable[[int], bytes], mask: int) -> int:
    return int.from_bytes(column.translate(table(mask)), "little")


@cache
def _all_of(mask: int) -> bytes:
    return bytes(int(byte & mask == mask) for byte in range(256))


@cache
def _any_of(mask: int) -> bytes:
    return bytes(int(byte & mask != 0) for byte in range(256))
