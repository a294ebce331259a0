"""TensorBoard's event records in bytes: TFRecord framing with its masked CRC-32C, and the few protobuf fields a scalar needs.

A record is length (8 bytes), CRC of the length (4), an Event message, CRC of the message (4). Event: wall_time 1, step 2,
summary 5; Summary: value 1; Value: tag 1, simple_value 2, tensor 8; TensorProto: content 4, float_val 5, double_val 6
(event.proto, summary.proto and tensor.proto of TensorFlow).
Two ways lead through a record: the slow one understands any of them; the fast one only what nearly every record is, one scalar by
`simple_value` with a tag that has come before.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import google_crc32c

from sentinel.telemetry.protobuf import read_fields

Scalar = tuple[int, float, str, float]
"""step, wall time, tag, value"""

HEADER = struct.Struct("<QI")
FOOTER = struct.Struct("<I")
FLOAT = struct.Struct("<f")
DOUBLE = struct.Struct("<d")
MASK_DELTA = 0xA282EAD8
FAST_BYTES_MIN, FAST_BYTES_MAX = 24, 512
FAST_TAILS_MAX = 4096
FLOAT_TYPE, DOUBLE_TYPE = 1, 2


crc32c: Callable[[bytes], int] = google_crc32c.value
"""CRC-32C of the bytes. Where no compiled library exists for a machine, the package computes it in Python."""


def masked(crc: int) -> int:
    """As it is stored, so that a CRC of data that holds CRCs is no trap (TensorFlow, lib/hash/crc32c.h)."""
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


class FastScalars:
    """The fast way. `read` gives the step and the tag's name of a record whose shape it knows, None otherwise."""

    def __init__(self) -> None:
        self._tails: dict[bytes, str] = {}

    def read(self, data: bytes) -> tuple[int, str] | None:
        """Of a record whose checksum is right. The value is its last four bytes, the wall time those from the second on."""
        if len(data) < FAST_BYTES_MIN or data[0] != 9 or data[9] != 16:
            return None
        step, end = data[10], 11
        if step > 127:
            more = data[11]
            step, end = step & 127 | (more & 127) << 7, 12
            if more > 127:
                more = data[12]
                step, end = step | (more & 127) << 14, 13
                if more > 127:
                    more = data[13]
                    step, end = step | more << 21, 14
                    if more > 127:
                        return None
        known = self._tails.get(data[end:-4])
        return None if known is None else (step, known)

    def learn(self, data: bytes, tag: str, name: str) -> None:
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
        if len(self._tails) >= FAST_TAILS_MAX:
            self._tails.clear()
        self._tails[tail] = name


# The slow way.


def read_scalars(data: bytes) -> list[Scalar]:
    """Every scalar of an Event message. ValueError or IndexError when it is none."""
    step, wall_s = 0, 0.0
    found: list[tuple[str, float]] = []
    for number, value in read_fields(data):
        if number == 1 and isinstance(value, bytes):
            wall_s = DOUBLE.unpack(value)[0]
        elif number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            for inner, part in read_fields(value):
                if inner == 1 and isinstance(part, bytes):
                    scalar = _value(part)
                    if scalar is not None:
                        found.append(scalar)
    return [(step, wall_s, tag, value) for tag, value in found]


def _value(data: bytes) -> tuple[str, float] | None:
    tag, value = "", None
    for number, part in read_fields(data):
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
    for number, part in read_fields(data):
        if number == 1 and isinstance(part, int):
            kind = part
        elif number in (4, 5, 6) and isinstance(part, bytes):
            content += part
    if kind == FLOAT_TYPE and len(content) == 4:
        return float(FLOAT.unpack(content)[0])
    if kind == DOUBLE_TYPE and len(content) == 8:
        return float(DOUBLE.unpack(content)[0])
    return None
