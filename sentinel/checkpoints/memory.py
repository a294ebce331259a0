"""What is remembered of a checkpoint's files that were read whole: RUN_DIR/verified/step-00001000.json, one for each checkpoint.

A file that was read once need not be read again while nothing wrote to it. Nothing did if its size, its inode, its device and
both of its times are the same: whoever writes moves the time of change (ctime), and no call sets that back, as `touch` and
`os.utime` do with the time of modification. A disk that rots moves no time: only reading finds that.

So a memory holds for exactly those files of exactly that manifest. Any other (damaged, of another machine, of a copy of the run
directory, of an older layout) is none, and the files are read.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sentinel.checkpoints.files import list_entries
from sentinel.client.atomic_file import write_atomically
from sentinel.client.file_digest import RANGE_BYTES
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import REMEMBERED
from sentinel.client.strict_json import dumps, loads
from sentinel.model.saved import SAMPLE_SHARE, BadTensor, SavedValues

VERSION = 1
STRETCH_BYTES = RANGE_BYTES  # what is read for one digest has one CRC
YOUNG_S = 2.0  # a filesystem's clock is coarse: what changed so shortly before may change again under the same time
MEMORY_BYTES_MAX = 64 << 20


class Stamp(NamedTuple):
    """What changes when somebody writes to a file, or puts another in its place."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)

    def is_young(self, wall_s: float) -> bool:
        return self.ctime_ns / 1e9 > wall_s - YOUNG_S


@dataclass(frozen=True, slots=True)
class FileMemory:
    """A file as it was read at wall time `at_s`: `crcs` of each STRETCH_BYTES of it, `values` where they were counted.
    `sha256` is `FileDigest.text`."""

    stamp: Stamp
    sha256: str
    crcs: tuple[int, ...]
    at_s: float
    values: SavedValues | None = None


@dataclass(frozen=True, slots=True)
class RememberedFiles:
    """Of the files of the checkpoint whose manifest has this digest; empty: nothing is remembered."""

    digest: str = ""
    files: Mapping[str, FileMemory] = field(default_factory=dict)


def memory_path(run_dir: Path, name: str) -> Path:
    """`name`: of the checkpoint's directory."""
    return run_dir / REMEMBERED / f"{name}.json"


def read_memory(place: Path, digest: str) -> RememberedFiles:
    """What is remembered of the checkpoint with this manifest. Empty for whatever is no such memory; never raises."""
    try:
        with open(place, "rb", opener=regular) as file:
            data = file.read(MEMORY_BYTES_MAX + 1)
        check, _, text = data.partition(b"\n")
        if len(data) > MEMORY_BYTES_MAX or check.decode() != hashlib.sha256(text).hexdigest():
            return RememberedFiles()
        document = loads(text)
        if document["v"] != VERSION or document["stretch"] != STRETCH_BYTES or document["digest"] != digest:
            return RememberedFiles()
        return RememberedFiles(digest, {str(name): _file_from_json(one) for name, one in document["files"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return RememberedFiles()


def write_memory(place: Path, memory: RememberedFiles) -> None:
    """Raises OSError."""
    files = {name: _file_to_json(one) for name, one in memory.files.items()}
    text = dumps({"v": VERSION, "digest": memory.digest, "stretch": STRETCH_BYTES, "files": files}).encode() + b"\n"
    write_atomically(place, hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def forget_gone(run_dir: Path) -> None:
    """Remove the memories of checkpoints that were deleted or moved away. Raises OSError."""
    there = set(list_entries(run_dir))
    try:
        kept = sorted(os.listdir(run_dir / REMEMBERED))
    except FileNotFoundError:
        return
    for name in kept:
        if name.endswith(".json") and name.removesuffix(".json") not in there:
            (run_dir / REMEMBERED / name).unlink(missing_ok=True)


def count_stretches(size: int) -> int:
    return -(-size // STRETCH_BYTES)


def draw_stretches(size: int, seed: str) -> list[int]:
    """The first, the last, and a drawn share of those between; the same ones for the same seed."""
    count = count_stretches(size)
    between = range(1, count - 1)
    drawn = random.Random(seed).sample(between, math.ceil(len(between) / SAMPLE_SHARE)) if between else []
    return sorted({*range(min(count, 1)), *drawn, *range(max(count - 1, 0), count)})


def _file_to_json(one: FileMemory) -> dict[str, Any]:
    values = one.values
    document: dict[str, Any] = {"stamp": one.stamp, "sha256": one.sha256, "crcs": one.crcs, "at_s": one.at_s}
    return document | {"values": None if values is None else values_to_json(values)}


def _file_from_json(document: Mapping[str, Any]) -> FileMemory:
    """Raises ValueError, KeyError, TypeError for what is no such thing."""
    size, mtime_ns, ctime_ns, inode, device = map(_whole, document["stamp"])
    stamp, crcs = Stamp(size, mtime_ns, ctime_ns, inode, device), tuple(map(_whole, document["crcs"]))
    if len(crcs) != count_stretches(stamp.size):
        raise ValueError("a file has as many stretches as its size makes")
    values = None if document["values"] is None else values_from_json(document["values"])
    return FileMemory(stamp, str(document["sha256"]), crcs, float(document["at_s"]), values)


def values_to_json(values: SavedValues) -> dict[str, Any]:
    bad = [[b.file, b.name, b.values, b.nan, b.infinite, b.has_number] for b in values.bad]
    nonfinite = sum(b.nan + b.infinite for b in values.bad)
    document = {"files": values.files, "counted": values.values, "nonfinite": nonfinite, "bad": bad}
    return document | {"more_bad": values.more_bad, "unread": values.unread}


def values_from_json(document: Mapping[str, Any]) -> SavedValues:
    """Raises ValueError, KeyError, TypeError for what is no such thing."""
    bad = tuple(
        BadTensor(str(file), str(name), _whole(values), _whole(nan), _whole(infinite), bool(has_number))
        for file, name, values, nan, infinite, has_number in document["bad"]
    )
    unread = tuple(str(reason) for reason in document["unread"])
    return SavedValues(_whole(document["files"]), _whole(document["counted"]), bad, _whole(document["more_bad"]), unread)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value
