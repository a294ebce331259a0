"""Protobuf's wire format, as far as logs need it: a message is fields, each a number with an integer or with bytes."""

from __future__ import annotations

from collections.abc import Iterator


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, integer or bytes), in the order of the message. ValueError or IndexError when it is none."""
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
            raise ValueError(f"wire type {kind} at byte {place} of a message")
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
