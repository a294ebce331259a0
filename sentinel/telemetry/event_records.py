"""TensorBoard's event records in bytes: TFRecord framing with its masked CRC-32C, and the few protobuf fields a scalar needs.

A record is length (8 bytes), CRC of the length (4), an Event message, CRC of the message (4). Event: wall_time 1, step 2,
summary 5; Summary: value 1; Value: tag 1, simple_value 2, tensor 8; TensorProto: content 4, float_val 5, double_val 6
(event.proto, summary.proto and tensor.proto of TensorFlow).
Two ways lead through a record: the slow one understands any of them; the fast one
only what nearly every record is, one scalar by `simple_value`, and computes its CRC by linearity: for a given length the CRC is
the XOR of one table entry per byte, and those of the bytes that never change (the tag) are computed once.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

Scalar = tuple[int, float, str, float]
"""step, wall time, tag, value"""

HEADER = struct.Struct("<QI")
FOOTER = struct.Struct("<I")
FLOAT = struct.Struct("<f")
DOUBLE = struct.Struct("<d")
POLYNOMIAL = 0x82F63B78  # CRC-32C, Castagnoli, reflected
FAST_BYTES_MAX = 512
FAST_TAILS_MAX = 4096
FLOAT_TYPE, DOUBLE_TYPE = 1, 2


def _byte_table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _byte_table()
_FOLLOWED = [_TABLE]  # [d][b]: what byte b adds to the CRC when d bytes follow it


def crc32c(data: bytes) -> int:
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """As it is stored, so that a CRC of data that holds CRCs is no trap (TensorFlow, lib/hash/crc32c.h)."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _followed(count: int) -> list[int]:
    while len(_FOLLOWED) <= count:
        last = _FOLLOWED[-1]
        _FOLLOWED.append([_TABLE[crc & 0xFF] ^ (crc >> 8) for crc in last])
    return _FOLLOWED[count]


class FastScalars:
    """The fast way. `read` gives the tag's name and the CRC of a record it knows the shape of, None otherwise."""

    def __init__(self) -> None:
        self._lengths: dict[int, tuple[int, tuple[list[int], ...]]] = {}
        self._tails: dict[bytes, tuple[str, int]] = {}

    def read(self, data: bytes, size: int) -> tuple[int, str, int] | None:
        """(step, tag, masked CRC), or None when the slow way has to be taken."""
        shape = self._lengths.get(size)
        if shape is None:
            if not 24 <= size <= FAST_BYTES_MAX:
                return None
            shape = self._learn_length(size)
        crc, (a, b, c, d, e, f, g, h, i, j, k, m) = shape
        if data[0] != 9 or data[9] != 16:
            return None
        one = data[10]
        crc ^= i[one]
        step, end = one & 127, 11
        if one > 127:
            two = data[11]
            crc ^= j[two]
            step, end = step | (two & 127) << 7, 12
            if two > 127:
                three = data[12]
                crc ^= k[three]
                step, end = step | (three & 127) << 14, 13
                if three > 127:
                    four = data[13]
                    if four > 127:
                        return None
                    crc ^= m[four]
                    step, end = step | four << 21, 14
        known = self._tails.get(data[end:-4])
        if known is None:
            return None
        _, a0, a1, a2, a3, a4, a5, a6, a7 = data[:9]
        crc ^= known[1] ^ a[a0] ^ b[a1] ^ c[a2] ^ d[a3] ^ e[a4] ^ f[a5] ^ g[a6] ^ h[a7]
        w, x, y, z = data[-4:]
        crc ^= _FOLLOWED[3][w] ^ _FOLLOWED[2][x] ^ _FOLLOWED[1][y] ^ _TABLE[z]
        return step, known[0], (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF

    def learn(self, data: bytes, tag: str, told: str) -> None:
        """This whole and sound record held one scalar of that tag: remember the bytes that will come again, and what `read`
        is to tell as the tag's name."""
        end = 10
        while data[end] > 127:
            end += 1
        tail = data[end + 1 : -4]
        if len(data) > FAST_BYTES_MAX or data[0] != 9 or data[9] != 16 or not tail.startswith(b"\x2a") or tail[-1] != 0x15:
            return
        if not tail[:-1].endswith(tag.encode(errors="surrogateescape")):
            return
        crc = 0
        for place, byte in enumerate(tail):
            crc ^= _followed(len(tail) + 3 - place)[byte]
        if len(self._tails) >= FAST_TAILS_MAX:
            self._tails.clear()
        self._tails[tail] = (told, crc)

    def _learn_length(self, size: int) -> tuple[int, tuple[list[int], ...]]:
        base = crc32c(bytes(size)) ^ _followed(size - 1)[9] ^ _followed(size - 10)[16]
        places = (*range(1, 9), 10, 11, 12, 13)
        shape = base, tuple(_followed(size - 1 - place) for place in places)
        self._lengths[size] = shape
        return shape


# The slow way.


def read_scalars(data: bytes) -> list[Scalar]:
    """Every scalar of an Event message. ValueError or IndexError when it is none."""
    step, wall_s = 0, 0.0
    found: list[tuple[str, float]] = []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            wall_s = DOUBLE.unpack(value)[0]
        elif number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            for inner, part in _fields(value):
                if inner == 1 and isinstance(part, bytes):
                    scalar = _value(part)
                    if scalar is not None:
                        found.append(scalar)
    return [(step, wall_s, tag, value) for tag, value in found]


def _value(data: bytes) -> tuple[str, float] | None:
    tag, value = "", None
    for number, part in _fields(data):
        if not isinstance(part, bytes):
            continue
        if number == 1:
            tag = part.decode(errors="surrogateescape")
        elif number == 2 and len(part) == 4:
            value = FLOAT.unpack(part)[0]
        elif number == 8:
            value = _tensor(part)
    return None if value is None or not tag else (tag, value)


def _tensor(data: bytes) -> float | None:
    """The one number of a tensor that holds one float or double."""
    kind, content = 0, b""
    for number, part in _fields(data):
        if number == 1 and isinstance(part, int):
            kind = part
        elif number in (4, 5, 6) and isinstance(part, bytes):
            content += part
    if kind == FLOAT_TYPE and len(content) == 4:
        return float(FLOAT.unpack(content)[0])
    if kind == DOUBLE_TYPE and len(content) == 8:
        return float(DOUBLE.unpack(content)[0])
    return None


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Protobuf's wire format: (field number, number or bytes)."""
    place, end = 0, len(data)
    while place < end:
        key, place = _varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield number, value
            continue
        size = 8 if kind == 1 else 4 if kind == 5 else -1
        if kind == 2:
            size, place = _varint(data, place)
        if size < 0 or place + size > end:
            raise ValueError(f"wire type {kind} at byte {place} of an event")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
