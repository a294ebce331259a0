"""Event records as bytes: what `telemetry/event_records.py` reads, written. The format is lengths, checksums and a few protobuf
fields; the usual writers bring torch, TensorFlow or 80 MB of other wheels into a supervisor that must start in a second.

All metrics of a step go into one record (a Summary may hold many values), so a cut between two records is a cut between two
steps. The same row gives the same bytes, whenever it is written: what a killed writer left half written is written again so.

    >>> RowEncoder().encode(7, 1.7e9, {"lm loss": 2.5})[12:-4]
    b'\\t\\x00\\x00\\x00@\\xfcT\\xd9A\\x10\\x07*\\x10\\n\\x0e\\n\\x07lm loss\\x15\\x00\\x00 @'
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from sentinel.client.strict_json import printable
from sentinel.telemetry.event_records import DOUBLE, FLOAT, FOOTER, HEADER, crc32c, masked

METRICS_MAX = 1000  # of one row; with LONGEST_TAG a record stays below what any reader takes for a scalar's
LONGEST_TAG = 200
LAYOUTS_MAX = 256  # sets of names remembered with their bytes
TEXT_BYTES_MAX = 16 << 10
TENSOR_CLASS, STRING_TYPE = 2, 7
LAYOUT_TAG = "custom_scalars__config__"
_SIZE = struct.Struct("<Q")


def record(message: bytes) -> bytes:
    """Length, its checksum, the message, its checksum."""
    return _header(len(message)) + message + FOOTER.pack(masked(crc32c(message)))


def version_record(time_s: float) -> bytes:
    """What every event file begins with. `time_s`: Unix seconds; TensorBoard shows the run as begun then."""
    return record(b"\x09" + DOUBLE.pack(time_s) + part(3, b"brain.Event:2"))


class RowEncoder:
    """Rows of metrics to records."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, ...], list[tuple[str, bytes]]] = {}

    def encode(self, step: int, time_s: float, metrics: Mapping[str, float]) -> bytes:
        """One record with every metric of a step; what float32 cannot hold is infinite. Nothing where there is no metric."""
        heads = self._heads_of(tuple(metrics))
        if not heads:
            return b""
        summary = b"".join([head + single(metrics[name]) for name, head in heads])
        return record(_event(step, time_s, summary))

    def _heads_of(self, names: tuple[str, ...]) -> list[tuple[str, bytes]]:
        """For each name what stands before its four bytes; a tag that is there already is not described twice."""
        known = self._heads.get(names)
        if known is None:
            if len(self._heads) >= LAYOUTS_MAX:
                self._heads.clear()
            tags = {tag_bytes(name): name for name in reversed(names[:METRICS_MAX]) if name.strip()}
            known = self._heads[names] = [(name, _head(tag)) for tag, name in reversed(tags.items())]
        return known


def text_record(step: int, time_s: float, tag: str, text: str) -> bytes:
    """Markdown for the text dashboard."""
    words = printable(text).encode()[:TEXT_BYTES_MAX].decode(errors="ignore").encode()
    return record(_event(step, time_s, _strings(tag, "text", words, shape=part(2, b"\x08\x01"))))


def layout_record(time_s: float, categories: Mapping[str, Sequence[tuple[str, Sequence[str]]]]) -> bytes:
    """The layout of the dashboard "custom scalars": category → (title, regular expressions of tags) of each chart, in order."""
    layout = b""
    for category, charts in categories.items():
        drawn = b""
        for title, tags in charts:
            lines = b"".join(part(1, tag.encode()) for tag in tags)
            drawn += part(2, part(1, title.encode()) + part(2, lines))
        layout += part(2, part(1, category.encode()) + drawn)
    return record(_event(0, time_s, _strings(LAYOUT_TAG, "custom_scalars", layout, shape=b"")))


def single(value: float) -> bytes:
    """As float32."""
    try:
        return FLOAT.pack(value)
    except OverflowError:
        return FLOAT.pack(float("inf") if value > 0 else float("-inf"))


def part(number: int, data: bytes) -> bytes:
    """A protobuf field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag_bytes(name: str) -> bytes:
    return printable(name.strip()[:LONGEST_TAG]).encode()


def _event(step: int, time_s: float, summary: bytes) -> bytes:
    return b"\x09" + DOUBLE.pack(time_s) + b"\x10" + varint(step) + b"\x2a" + varint(len(summary)) + summary


def _head(tag: bytes) -> bytes:
    named = part(1, tag) + b"\x15"
    return b"\x0a" + varint(len(named) + 4) + named


def _strings(tag: str, plugin: str, words: bytes, shape: bytes) -> bytes:
    """A summary of one tensor of one string, with the plugin that shows it."""
    tensor = b"\x08" + varint(STRING_TYPE) + part(2, shape) + part(8, words)
    metadata = part(1, part(1, plugin.encode())) + b"\x20" + varint(TENSOR_CLASS)
    return part(1, part(1, tag_bytes(tag)) + part(8, tensor) + part(9, metadata))


@lru_cache(maxsize=4096)
def _header(size: int) -> bytes:
    return HEADER.pack(size, masked(crc32c(_SIZE.pack(size))))
