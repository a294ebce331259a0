"""Event files as TensorBoard's writers make them, byte by byte, so that the reader is tested against the format."""

from __future__ import annotations

import struct

from sentinel.telemetry.event_records import crc32c, masked


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def part(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(message: bytes) -> bytes:
    size = struct.pack("<Q", len(message))
    return size + struct.pack("<I", masked(crc32c(size))) + message + struct.pack("<I", masked(crc32c(message)))


def event(step: int, summary: bytes, wall_s: float = 1.7e9) -> bytes:
    return b"\x09" + struct.pack("<d", wall_s) + (b"\x10" + varint(step) if step else b"") + part(5, summary)


def scalar(step: int, tag: str, value: float, wall_s: float = 1.7e9) -> bytes:
    """As SummaryWriter.add_scalar of torch and TensorFlow 1 writes it."""
    return record(event(step, part(1, part(1, tag.encode()) + b"\x15" + struct.pack("<f", value)), wall_s))


def tensor_scalar(step: int, tag: str, value: float, *, packed: bool = False) -> bytes:
    """As tf.summary.scalar of TensorFlow 2 writes it: a tensor of one float, and plugin data behind it."""
    number = struct.pack("<f", value)
    tensor = b"\x08\x01" + part(2, b"") + (part(4, number) if not packed else part(5, number))
    return record(event(step, part(1, part(1, tag.encode()) + part(8, tensor) + part(9, part(1, part(1, b"scalars"))))))


def file_version() -> bytes:
    return record(b"\x09" + struct.pack("<d", 1.7e9) + part(3, b"brain.Event:2"))
