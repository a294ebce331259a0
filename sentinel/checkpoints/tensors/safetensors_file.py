"""The tensors of a safetensors file, by its header: eight bytes of length, JSON, then the values without a gap.

https://huggingface.co/docs/safetensors names the fields. The header is checked as its own library checks it: what that would
refuse is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, BinaryIO

from sentinel.checkpoints.tensors.floats import FORMATS
from sentinel.checkpoints.tensors.stretches import Stretch, UncountableNumbers, shown
from sentinel.client.strict_json import loads

HEADER_BYTES_MAX = 100_000_000  # the library's own limit
BYTES_A_BRACKET = 12  # at least: the shortest entry has three in 52, and 90 MB of empty lists became 2.4 GB of memory
# What holds no floating-point number, and how many bytes a value has.
WHOLE = {"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "U32": 4, "I32": 4, "U64": 8, "I64": 8}


def read_safetensors(file: BinaryIO, size: int) -> list[Stretch]:
    """Raises UncountableNumbers, OSError."""
    header, length = _read_header(file, size)
    placed = sorted(_tensors(header), key=lambda one: (one[0], one[1]))
    at = 0
    for start, end, _ in placed:
        if start != at:
            raise UncountableNumbers(f"its tensors overlap or leave a gap at byte {min(start, at):,}")
        at = end
    begin = 8 + length
    if begin + at != size:
        raise UncountableNumbers(f"its tensors end at byte {begin + at:,} of {size:,}")
    return [Stretch(begin + start, begin + end, FORMATS[kind], name) for start, end, (name, kind) in placed if kind in FORMATS]


def is_safetensors_whole(file: BinaryIO, size: int) -> bool:
    """Whether its last byte is there, by its header. Kinds of values that are not known here do not matter. Raises OSError."""
    try:
        header, length = _read_header(file, size)
        ends = [_whole(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
    except (UncountableNumbers, KeyError, IndexError, TypeError, ValueError):
        return False  # nobody could load it
    return 8 + length + max(ends, default=0) == size


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The header and its length. Raises UncountableNumbers, OSError."""
    file.seek(0)
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > min(HEADER_BYTES_MAX, size - 8):
        raise UncountableNumbers(f"its header would be of {length:,} bytes")
    text = file.read(length)
    if (text.count(b"[") + text.count(b"{")) * BYTES_A_BRACKET > max(length, 1000):
        raise UncountableNumbers("its header has more lists and objects than tensors have")
    try:
        header = loads(text)
    except (ValueError, RecursionError) as error:
        raise UncountableNumbers(f"its header is no JSON ({shown(str(error))})") from None
    if not isinstance(header, dict):
        raise UncountableNumbers("its header is no JSON object")
    return header, length


def _tensors(header: dict[str, Any]) -> Iterator[tuple[int, int, tuple[str, str]]]:
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        about = shown(name)
        try:
            kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            sizes = [*map(_whole, shape), _whole(start), _whole(end)]
        except (KeyError, TypeError, ValueError):
            raise UncountableNumbers(f"{about}: its header needs dtype, shape and data_offsets") from None
        width = None
        if isinstance(kind, str):
            width = FORMATS[kind].value_bytes if kind in FORMATS else WHOLE.get(kind)
        if width is None:
            raise UncountableNumbers(f"{about}: values of {shown(str(kind))} are not known")
        if len(sizes) > 66 or start > end or math.prod(sizes[:-2]) * width != end - start:
            raise UncountableNumbers(f"{about}: its offsets do not fit its shape")
        yield start, end, (about, kind)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError
    return value
