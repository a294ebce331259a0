"""The tensors of what `torch.save` wrote: a zip archive whose `data.pkl` names storages, each an entry of raw bytes.

The functions that `data.pkl` names are known by name, and none is called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from typing import Any

from sentinel.checkpoints.tensors.archives import ArchiveEntry, ArchiveWindow, read_entries, read_entry
from sentinel.checkpoints.tensors.floats import FORMATS, Format
from sentinel.checkpoints.tensors.pickles import PICKLE_BYTES_MAX, Call, Name, Pairs, RefusedPickle, Stored, walk_pickle
from sentinel.checkpoints.tensors.stretches import NAME_CHARS_MAX, Stretch, UncountableNumbers, shown

SIZES_MAX = 64  # dimensions
VALUES_MAX = 2**62
VISITS_MAX = 6_000_000
# Types of storages and of tensors that hold floating-point numbers, by torch's names.
_TYPES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "ComplexFloatStorage": "C64", "ComplexDoubleStorage": "C128",
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "complex64": "C64", "complex128": "C128",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
_WHOLE = {
    *("LongStorage", "IntStorage", "ShortStorage", "CharStorage", "ByteStorage", "BoolStorage"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"),
}
# (storage, offset, sizes, strides, …): version 3 has the type of the tensor behind two more.
_REBUILDS = {f"torch._utils._rebuild_tensor{version}" for version in ("", "_v2", "_v3")}
_UNTYPED = "UntypedStorage"


def read_torch_zip(window: ArchiveWindow, prefix: str = "") -> tuple[list[Stretch], list[str]]:
    """The tensors, and why others are not counted. Raises UncountableNumbers, OSError."""
    entries = read_entries(window)
    folder = next((name[: -len("data.pkl")] for name in entries if name == "data.pkl" or name.endswith("/data.pkl")), None)
    if folder is None:
        raise UncountableNumbers("its archive has no data.pkl")
    # Before torch 2.1 there was no such entry; torch then takes the order of the machine.
    byte_order = entries.get(f"{folder}byteorder")
    if (sys.byteorder.encode() if byte_order is None else read_entry(window, byte_order, 16)) != b"little":
        raise UncountableNumbers("its values are not little-endian")
    try:
        value = walk_pickle(read_entry(window, entries[f"{folder}data.pkl"], PICKLE_BYTES_MAX))
    except RefusedPickle as error:
        raise UncountableNumbers(f"its data.pkl cannot be read: {error}") from None
    storages = {name[len(folder) + 5 :]: entry for name, entry in entries.items() if name.startswith(f"{folder}data/")}
    return _Tensors(storages).of(value, prefix)


class _Tensors:
    """Those of one archive. A storage of floating-point numbers that no tensor was found for is told, not passed over."""

    def __init__(self, storages: dict[str, ArchiveEntry]) -> None:
        self._storages = storages
        self._stretches: list[Stretch] = []
        self._why: list[str] = []
        self._seen: set[str] = set()  # keys of storages with a tensor
        self._others: dict[str, str] = {}  # storages that something else refers to, with where

    def of(self, value: Any, prefix: str) -> tuple[list[Stretch], list[str]]:
        for path, found in walk_values(value, prefix):
            if isinstance(found, Call) and found.name in _REBUILDS:
                self._add(path, found.arguments)
            elif isinstance(found, Stored) and (storage := _storage_of(found)) is not None and storage[0] not in _WHOLE:
                self._others.setdefault(storage[1], path)
        left = [path for key, path in self._others.items() if key not in self._seen]
        self._why += [f"{shown(path)} is no plain tensor" for path in left]
        return self._stretches, self._why

    def _add(self, path: str, arguments: Any) -> None:
        name = shown(path) or "its tensor"
        try:
            (stored, offset, sizes, strides), more = arguments[:4], arguments[4:]
            kind, key = _storage_of(stored) or ("", "")
            if kind == _UNTYPED:
                kind = more[2].text.rpartition(".")[2]
            dense, values, is_exact = _extent(sizes, strides)
            entry = self._storages[key]
            start = entry.start + _whole(offset) * width_of(kind)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            self._why.append(f"{name}: it is no tensor of a kind that is known")
            return
        self._seen.add(key)
        if kind in _WHOLE or not dense:
            return
        if kind not in _TYPES:
            self._why.append(f"{name}: values of {shown(kind)} are not known")
            return
        form: Format = FORMATS[_TYPES[kind]]
        end = start + values * form.value_bytes
        if end > entry.start + entry.size:
            self._why.append(f"{name}: it reaches outside its storage")
            return
        self._stretches.append(Stretch(start, end, form, name, is_exact))


def _storage_of(stored: Any) -> tuple[str, str] | None:
    """(type, key) of a persistent id of torch, which is ("storage", type, key, device, how many values)."""
    value = stored.value if isinstance(stored, Stored) else None
    if not isinstance(value, tuple) or len(value) < 3 or not isinstance(value[1], Name) or not isinstance(value[2], str):
        return None
    return value[1].text.rpartition(".")[2], value[2]


def width_of(kind: str) -> int:
    return FORMATS[_TYPES[kind]].value_bytes if kind in _TYPES else 0


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= VALUES_MAX:
        raise ValueError
    return value


def _extent(sizes: Any, strides: Any) -> tuple[int, int, bool]:
    """How many values a tensor has, how many lie between its first and its last, and whether these are the same ones. A dimension
    of stride 0 repeats one value. Raises ValueError, TypeError."""
    dimensions = [(_whole(size), _whole(stride)) for size, stride in zip(sizes, strides, strict=True)]
    if len(dimensions) > SIZES_MAX:
        raise ValueError
    if prod(size for size, _ in dimensions) > VALUES_MAX:
        raise ValueError
    if any(size == 0 for size, _ in dimensions):
        return 0, 0, True
    own = [(size, stride) for size, stride in dimensions if stride]
    count, extent = prod(size for size, _ in own), 1 + sum((size - 1) * stride for size, stride in own)
    return count, extent, count == extent


def walk_values(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Everything within, each with its path of keys. A tensor is not looked into. Raises UncountableNumbers for too much."""
    waiting, seen, visits = [(prefix, value)], set[int](), 0
    while waiting:
        path, found = waiting.pop()
        visits += 1
        if visits > VISITS_MAX:
            raise UncountableNumbers("it refers to too many things")
        if not isinstance(found, (Pairs, list, tuple, Call, Stored)) or id(found) in seen:
            continue
        seen.add(id(found))
        yield path, found
        if isinstance(found, Call) and found.name in _REBUILDS:
            waiting += [(path, part) for part in found.arguments[4:]] if isinstance(found.arguments, tuple) else []
            continue
        inner = _inner(path, found)
        waiting += reversed(inner)


def _inner(path: str, found: Any) -> list[tuple[str, Any]]:
    if isinstance(found, Pairs):
        return [(_joined(path, key), value) for key, value in found.pairs]
    if isinstance(found, Call):
        pairs = [item for item in found.items if isinstance(item, tuple) and len(item) == 2]
        keyed = [(_joined(path, key), value) for key, value in pairs]
        others = [(path, item) for item in found.items if not (isinstance(item, tuple) and len(item) == 2)]
        return [(path, found.arguments), (path, found.state), *keyed, *others]
    if isinstance(found, Stored):
        return []
    is_long = isinstance(found, list)
    return [(_joined(path, number) if is_long else path, item) for number, item in enumerate(found)]


def _joined(path: str, key: Any) -> str:
    is_number = isinstance(key, int) and abs(key) < VALUES_MAX
    word = key if isinstance(key, str) else str(key) if is_number else "…"
    return f"{path}.{word}"[-NAME_CHARS_MAX:] if path else word[:NAME_CHARS_MAX]
