"""What the form of a checkpoint's files says of whether its trainer is done with it: no file is loaded, and few bytes are read.

A zip of torch.save ends with its directory, which is written last. A safetensors file begins with the place of its last byte.
torch.distributed.checkpoint writes `.metadata` behind all else. Other forms say nothing, and neither does a folder of several
files that are whole each: the next one may not be begun.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from sentinel.checkpoints.tensors.archives import COMMENT_BYTES_MAX, END, END_BYTES, MAGIC, ArchiveWindow, read_entries
from sentinel.checkpoints.tensors.safetensors_file import is_safetensors_whole
from sentinel.checkpoints.tensors.stretches import UncountableNumbers
from sentinel.client.regular_file import regular

Shown = Literal["whole", "torn", "nothing"]
SHARDED_MARK, SHARDED_ENDING = ".metadata", ".distcp"


def look(path: Path, names: Iterable[str]) -> Shown:
    """Of a checkpoint with these files below its path; of a single file the only name is empty. Raises OSError."""
    files = list(names)
    if files == [""]:
        return _look_at(path)
    if find_torn(path, files) is not None:
        return "torn"
    is_sharded = SHARDED_MARK in files and all(name == SHARDED_MARK or name.endswith(SHARDED_ENDING) for name in files)
    return "whole" if is_sharded else "nothing"


def missing_metadata(names: Iterable[str]) -> tuple[str, ...]:
    """Of the files of a checkpoint: the `.metadata` that shards of torch.distributed.checkpoint lack; nobody can load them.
    A folder has one for all; where ranks save without collectives, each writes one of its own."""
    shards, there = dict[str, set[str]](), set[str]()
    for name in names:
        folder, _, file = name.rpartition("/")
        if file.endswith(SHARDED_ENDING):
            shards.setdefault(folder, set()).add(file.removeprefix("__").partition("_")[0])
        elif file.endswith(SHARDED_MARK):
            there.add(name)
    lacking = []
    for folder, ranks in sorted(shards.items()):
        below = f"{folder}/" if folder else ""
        own = {f"{below}__{rank}{SHARDED_MARK}" for rank in ranks}
        if f"{below}{SHARDED_MARK}" not in there and not own <= there:
            lacking.append(f"{below}{SHARDED_MARK}")
    return tuple(lacking)


def find_torn(path: Path, names: Iterable[str]) -> Path | None:
    """The first of these files that ends too early, or could be loaded by nobody. Raises OSError."""
    places = (path / name if name else path for name in names)
    return next((place for place in places if _look_at(place) == "torn"), None)


def _look_at(path: Path) -> Shown:
    with open(path, "rb", opener=regular) as file:
        size = file.seek(0, 2)
        file.seek(0)
        is_zip = file.read(len(MAGIC)) == MAGIC
        try:
            if path.suffix == ".safetensors":
                return "whole" if is_safetensors_whole(file, size) else "torn"
            if is_zip:
                read_entries(ArchiveWindow(file, 0, size))
                return "whole"
        except UncountableNumbers:
            file.seek(max(0, size - END_BYTES - COMMENT_BYTES_MAX))
            tail = file.read()
            is_ended = 0 <= tail.rfind(END) <= len(tail) - END_BYTES
            return "nothing" if is_ended else "torn"  # a zip of another kind says nothing here
    return "nothing"
