"""The tensors of a checkpoint of torch.distributed.checkpoint: `.metadata`, a pickle, says which part of which `*.distcp` file is
which. Each part is an archive of `torch.save`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, BinaryIO

from sentinel.checkpoints.tensors.archives import MAGIC, ArchiveWindow
from sentinel.checkpoints.tensors.pickles import Call, Pairs, RefusedPickle, walk_pickle
from sentinel.checkpoints.tensors.stretches import Stretch, UncountableNumbers, shown
from sentinel.checkpoints.tensors.torch_zip import read_torch_zip

REASONS_MAX = 20


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """One entry of a file. `is_plain`: no tensor by `.metadata`, so that what is no archive is nothing to count."""

    offset: int
    length: int
    name: str
    is_plain: bool


@dataclass(slots=True)
class Layout:
    """The parts of each file, by its name."""

    files: dict[str, list[ShardEntry]] = field(default_factory=dict)


def read_layout(data: bytes) -> Layout:
    """What `.metadata` says. Raises UncountableNumbers."""
    try:
        whole = walk_pickle(data)
    except RefusedPickle as error:
        raise UncountableNumbers(f"its .metadata cannot be read: {error}") from None
    layout, plain = Layout(), set[str]()
    for name, about in _items(whole, "state_dict_metadata"):
        if isinstance(name, str) and isinstance(about, Call) and about.name.endswith("BytesStorageMetadata"):
            plain.add(name)
    for index, place in _items(whole, "storage_data"):
        name = _field(index, "fqn")
        file, offset, length = (_field(place, key) for key in ("relative_path", "offset", "length"))
        if not isinstance(name, str) or not isinstance(file, str) or type(offset) is not int or type(length) is not int:
            raise UncountableNumbers("its .metadata does not say where each part lies")
        if _field(place, "transform_descriptors"):
            raise UncountableNumbers("its parts are compressed or otherwise transformed")
        layout.files.setdefault(file, []).append(ShardEntry(offset, length, name, name in plain))
    if not layout.files:
        raise UncountableNumbers("its .metadata names no file")
    return layout


def read_sharded(file: BinaryIO, size: int, parts: list[ShardEntry]) -> tuple[list[Stretch], list[str]]:
    """Raises UncountableNumbers, OSError."""
    stretches, why, at = list[Stretch](), list[str](), 0
    for part in sorted(parts, key=lambda one: (one.offset, one.length)):
        if part.offset < at or part.length < 0 or part.offset + part.length > size:
            raise UncountableNumbers(f"its parts overlap or lie outside it ({shown(part.name)})")
        at = part.offset + part.length
        file.seek(part.offset)
        if file.read(min(len(MAGIC), part.length)) != MAGIC:
            if not part.is_plain and len(why) < REASONS_MAX:
                why.append(f"{shown(part.name)}: it is not written by torch.save")
            continue
        try:
            found, reasons = read_torch_zip(ArchiveWindow(file, part.offset, at), part.name)
        except UncountableNumbers as error:
            found, reasons = [], [f"{shown(part.name)}: {error}"]
        stretches += found
        why += reasons[: REASONS_MAX - len(why)]
    return stretches, why


def _field(value: Any, name: str) -> Any:
    """Of a dataclass, as pickle writes one: its state is a dict, or a pair of which one is."""
    state = value.state if isinstance(value, Call) else None
    for one in state if isinstance(state, tuple) else (state,):
        if isinstance(one, Pairs) and (found := one.get(name)) is not None:
            return found
    return None


def _items(value: Any, name: str) -> list[tuple[Any, Any]]:
    found = _field(value, name)
    return found.pairs if isinstance(found, Pairs) else []
