"""`.metadata`, the index of a checkpoint: which tensors it holds, and where the parts of each lie.

torch.distributed.checkpoint pickles it, and reads it with Python's unpickler. Here the classes that it writes are admitted by
name, nothing else is, and the index is built anew from the values after each was looked at.

torch's private names `_StorageInfo`, `_MEM_FORMAT_ENCODING` and `_get_layout` are compared as text; none of them is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from sentinel.client.regular_file import regular

from ..exits import DataError
from .pickled import Foreign, Inert, foreign_name, read_inert, refusal, shown

NAME = ".metadata"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part lies: as FileSystemReader asks for it (torch's own class of it is private)."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: None = None


class _Whole(Inert):
    __slots__ = ()


class _Tensor(Inert):
    __slots__ = ()


class _Properties(Inert):
    __slots__ = ()


class _Chunk(Inert):
    __slots__ = ()


class _Object(Inert):
    __slots__ = ()


class _Key(Inert):
    __slots__ = ()


class _Place(Inert):
    __slots__ = ()


class _Size(Inert):
    __slots__ = ()


class _Unused(Inert):
    """What torch writes and nothing here reads."""

    __slots__ = ()


_CLASSES = "torch.distributed.checkpoint.metadata"
ADMITTED: dict[tuple[str, str], Any] = {
    (_CLASSES, "Metadata"): _Whole,
    (_CLASSES, "TensorStorageMetadata"): _Tensor,
    (_CLASSES, "TensorProperties"): _Properties,
    (_CLASSES, "ChunkStorageMetadata"): _Chunk,
    (_CLASSES, "BytesStorageMetadata"): _Object,
    (_CLASSES, "MetadataIndex"): _Key,
    (_CLASSES, "StorageMeta"): _Unused,
    (_CLASSES, "_MEM_FORMAT_ENCODING"): _Unused,
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): _Place,
    ("torch.serialization", "_get_layout"): _Unused,
    ("torch", "Size"): _Size,
    **{(module, kind): _Unused for module in ("pathlib", "pathlib._local") for kind in ("PosixPath", "WindowsPath")},
    **{("torch", name): value for name, value in vars(torch).items() if isinstance(value, torch.dtype)},
}


def read_index(checkpoint: Path) -> Metadata:
    """The index of a checkpoint of this trainer, which holds tensors and nothing else. Raises DataError."""
    try:
        with open(checkpoint / NAME, "rb", opener=regular) as file:
            data = file.read()
    except OSError as error:
        raise DataError(f"{checkpoint}: {NAME} cannot be read ({error.strerror})") from None
    try:
        fields = _fields(read_inert(data, ADMITTED), _Whole)
        places = {_key(key): _place(place) for key, place in fields["storage_data"].items()}
        entries = fields["state_dict_metadata"].items()
        objects = [name for name, entry in entries if type(entry) is _Object]
        if not objects:
            tensors = {_text(name): _tensor(entry) for name, entry in entries}
    except Foreign as error:
        raise DataError(refusal(checkpoint, NAME, error.name)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{checkpoint}: {NAME} is not as torch.distributed.checkpoint writes it ({type(error).__name__}: "
            f"{shown(str(error))}). Continue from another checkpoint"
        ) from None
    if objects:
        raise DataError(_object_refusal(checkpoint, objects[0], places))
    return Metadata(tensors, storage_data=places, storage_meta=StorageMeta())


def part_of(checkpoint: Path, place: Place) -> bytes:
    """The bytes of one part. Raises OSError."""
    with open(checkpoint / place.relative_path, "rb", opener=regular) as file:
        file.seek(place.offset)
        return file.read(place.length)


def _object_refusal(checkpoint: Path, name: Any, places: dict[MetadataIndex, Place]) -> str:
    """torch unpickles an entry that is no tensor with everything allowed. This trainer saves none."""
    for key, place in places.items():
        if key.fqn != name:
            continue
        try:
            foreign = foreign_name(part_of(checkpoint, place))
        except OSError:
            continue
        if foreign is not None:
            return refusal(checkpoint, place.relative_path, foreign)
    return (
        f"{checkpoint}: {NAME} says that {shown(str(name))} is a Python object, and this trainer saves tensors alone. It was not "
        "loaded. Find out who wrote this checkpoint, and continue from one that this run saved by itself"
    )


def _fields(value: Any, kind: type[Inert]) -> dict[str, Any]:
    """The fields of a dataclass, as they were pickled."""
    if type(value) is not kind or type(value.state) is not dict:
        raise TypeError(f"a {type(value).__name__} in the place of {kind.__name__}")
    return value.state


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"a {type(value).__name__} for a name")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a place that is no count of bytes")
    return value


def _size(value: Any) -> torch.Size:
    if type(value) is not _Size:
        raise TypeError(f"a {type(value).__name__} for a size")
    (numbers,) = value.arguments
    size = torch.Size(numbers)
    if size and min(size) < 0:
        raise ValueError("a size below zero")
    return size


def _key(value: Any) -> MetadataIndex:
    fields = _fields(value, _Key)
    offset, index = fields.get("offset"), fields.get("index")
    return MetadataIndex(_text(fields["fqn"]), None if offset is None else _size(offset), index if type(index) is int else None)


def _place(value: Any) -> Place:
    """A file of the checkpoint itself: `verify` has compared every *.distcp in it, and nothing outside."""
    fields = _fields(value, _Place)
    file = _text(fields["relative_path"])
    if not file.endswith(".distcp") or "/" in file or "\\" in file or "\0" in file:
        raise ValueError(f"{shown(file)} is no file of this checkpoint")
    if fields.get("transform_descriptors"):
        raise ValueError(f"the parts of {file} are transformed")
    return Place(file, _count(fields["offset"]), _count(fields["length"]))


def _tensor(value: Any) -> TensorStorageMetadata:
    fields = _fields(value, _Tensor)
    properties = fields["properties"]
    if type(properties) is not _Properties:
        raise TypeError(f"a {type(properties).__name__} for the properties of a tensor")
    dtype = properties.state[0]
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"a {type(dtype).__name__} for a dtype")
    chunks = [_chunk(chunk) for chunk in fields["chunks"]]
    return TensorStorageMetadata(TensorProperties(dtype=dtype), _size(fields["size"]), chunks)


def _chunk(value: Any) -> ChunkStorageMetadata:
    fields = _fields(value, _Chunk)
    return ChunkStorageMetadata(_size(fields["offsets"]), _size(fields["sizes"]))
