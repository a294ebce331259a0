"""Checkpoints as files: which are there, and whether every byte of one is as its manifest says.

A directory `checkpoints/step-N` with a readable manifest.json of that step is a checkpoint; anything else is an unfinished
save. It judges no training, chooses no checkpoint (`sentinel.plan` does) and moves none (`quarantine.py` and `pruning.py` do).

    for found in list_checkpoints(run_dir):
        ok, reason, digest = verify_checkpoint(run_dir / found.path)
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from sentinel.checkpoints.tensors.counting import Counting
from sentinel.client.regular_file import NotRegular, regular
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.client.strict_json import as_float, loads

MANIFEST = "manifest.json"
PRUNED = ".pruned-"  # prefix of a checkpoint that is being deleted
ENTRIES_MAX = 100_000
LARGEST_INT = 2**53  # beyond it JSON numbers are not whole in every language
MANIFEST_BYTES_MAX = 64 << 20
BLOCK_BYTES = 1 << 20
NUMBERS_MAX = 256  # of a manifest that are looked at
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)  # any other says only that it cannot be seen now
_NAME = re.compile(r"step-(\d{1,15})")
_CURSOR_KEYS = ("samples_end", "cursor", "data_cursor", "samples", "samples_consumed")


@dataclass(frozen=True, slots=True)
class CheckpointFound:
    """A checkpoint with a readable manifest; `path` is relative to the run directory, `digest` the manifest's sha256."""

    step: int
    path: str
    attempt: int
    samples_end: int
    digest: str


class Verification(NamedTuple):
    """What a check of every byte found. `digest` is the manifest's sha256, None when there is no manifest to speak of."""

    ok: bool
    reason: str
    digest: str | None


def list_checkpoints(run_dir: Path) -> list[CheckpointFound]:
    """Every checkpoint of the run by rising step. Unreadable ones are left out; OSError only for the directory itself."""
    found = (read_checkpoint(run_dir, name) for name in list_entries(run_dir) if step_of_name(name) is not None)
    return sorted((checkpoint for checkpoint in found if checkpoint is not None), key=lambda checkpoint: checkpoint.step)


def list_entries(run_dir: Path) -> list[str]:
    """Names of the directories in checkpoints/, sorted; empty when there is none yet. OSError when it cannot be read."""
    try:
        with os.scandir(run_dir / CHECKPOINTS) as entries:
            names = [entry.name for _, entry in zip(range(ENTRIES_MAX), entries, strict=False) if entry.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(names)


def step_of_name(name: str) -> int | None:
    """The step in `step-00001000`; None for any other name."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def read_checkpoint(run_dir: Path, name: str) -> CheckpointFound | None:
    """The checkpoint in checkpoints/`name`; None when it has no manifest of its own step that can be read."""
    try:
        manifest, digest = _read_manifest(run_dir / CHECKPOINTS / name)
    except (OSError, ValueError):
        return None
    step = _whole(manifest.get("step"))
    if step is None or step != step_of_name(name):
        return None
    return CheckpointFound(step, f"{CHECKPOINTS}/{name}", _whole(manifest.get("attempt")) or 0, _cursor(manifest), digest)


def verify_checkpoint(
    path: Path, counting: Counting | None = None, progressed: Callable[[], None] = lambda: None
) -> Verification:
    """Compare size and sha256 of every file with the manifest. Reads all of it, once: seconds per gigabyte. `counting` sees every
    byte on the way, and counts the values that are not finite. `progressed` is called after every block.

    Raises OSError for what cannot be read now (a stale handle, an I/O error, no rights, too many open files): that says
    nothing about the checkpoint. A file that is absent, of another size, or of another digest is damage.
    """
    try:
        manifest, digest = _read_manifest(path)
    except OSError as error:
        if not _is_damage(error):
            raise
        return Verification(False, f"{path / MANIFEST}: cannot be read ({error.strerror})", None)
    except ValueError as error:
        return Verification(False, f"{path / MANIFEST}: is not a manifest ({error})", None)
    named, written = step_of_name(path.name), manifest.get("step")
    if named is None or written != named:
        return Verification(False, f"{path}: the manifest is of step {written!r}, the directory is not", digest)
    count, size = 0, 0
    try:
        listed = tuple(_listed_files(manifest))
        if counting is not None:
            counting.expect(name for name, _, _ in listed)
        for name, bytes_expected, sha256 in listed:
            problem = _check_file(path, name, bytes_expected, sha256, counting, progressed)
            if problem:
                return Verification(False, problem, digest)
            count, size = count + 1, size + bytes_expected
    except ValueError as error:
        return Verification(False, f"{path / MANIFEST}: {error}", digest)
    if count == 0:
        return Verification(False, f"{path / MANIFEST}: lists no files", digest)
    return Verification(True, f"{count} files, {size} bytes match their digests", digest)


def _is_damage(error: OSError) -> bool:
    """Whether it says something about the checkpoint, and not only that it cannot be seen now."""
    return isinstance(error, NotRegular) or error.errno in _ABSENT


def is_there(path: Path) -> bool:
    """As os.path.lexists, but a look that failed is no answer: OSError. A good checkpoint is not moved for a stale handle."""
    try:
        os.lstat(path)
    except OSError as error:
        if not _is_damage(error):
            raise
        return False
    return True


def _read_manifest(path: Path) -> tuple[dict[str, Any], str]:
    """The manifest and its sha256. Raises OSError, or ValueError for what is no JSON object."""
    with open(path / MANIFEST, "rb", opener=regular) as file:
        data = file.read(MANIFEST_BYTES_MAX)
    manifest = loads(data)
    if not isinstance(manifest, dict):
        raise ValueError("not a JSON object")
    return manifest, hashlib.sha256(data).hexdigest()


def _listed_files(manifest: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """(name, bytes, sha256) of every file. ValueError for an entry that says less, or that points out of the checkpoint."""
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ValueError("files: is not an object of names")
    for name, entry in sorted(files.items()):
        size = _whole(entry.get("bytes", entry.get("size"))) if isinstance(entry, dict) else None
        sha256 = entry.get("sha256") if isinstance(entry, dict) else None
        if size is None or not isinstance(sha256, str):
            raise ValueError(f"files: {name!r}: needs 'bytes' and 'sha256'")
        where = PurePosixPath(name)
        if where.is_absolute() or ".." in where.parts or "\0" in name:
            raise ValueError(f"files: {name!r} lies outside the checkpoint")
        yield name, size, sha256


def _check_file(
    path: Path, name: str, size: int, sha256: str, counting: Counting | None, progressed: Callable[[], None]
) -> str:
    """What is wrong with one file, empty when nothing is. Its name is a trainer's, or what a sick disk made of it: no
    terminal takes a command from it."""
    place = str(path / name) if name.isprintable() else f"{path}/{name!r}"
    try:
        with open(path / name, "rb", opener=regular) as file:
            actual = os.fstat(file.fileno()).st_size
            if actual != size:
                return f"{place}: {actual} bytes, the manifest says {size}"
            digest = _digest(file, name, size, counting, progressed)
    except UnicodeEncodeError:
        return f"{place}: is no name of a file"
    except OSError as error:
        if not _is_damage(error):
            raise
        return f"{place}: cannot be read ({error.strerror})"
    return "" if digest == sha256.lower() else f"{place}: sha256 is {digest[:12]}…, the manifest says {sha256[:12]}…"


def _digest(file: BinaryIO, name: str, size: int, counting: Counting | None, progressed: Callable[[], None]) -> str:
    """The digest of an open file, whose values are counted as they are read."""
    count = None if counting is None else counting.begin(name, size)
    digest, offset = hashlib.sha256(), 0
    while block := file.read(BLOCK_BYTES):
        progressed()
        digest.update(block)
        if count is not None:
            count.feed(offset, block)
        offset += len(block)
    if counting is not None and count is not None:
        counting.end(name, count)
    return digest.hexdigest()


def read_numbers(path: Path) -> dict[str, float]:
    """What the manifest of a checkpoint holds under `metrics`, by name: an object of numbers, and anything else in it is the
    trainer's own. Empty where it holds none, or cannot be read."""
    try:
        metrics = _read_manifest(path)[0].get("metrics")
    except (OSError, ValueError):
        return {}
    found: dict[str, float] = {}
    for name, value in list(metrics.items())[:NUMBERS_MAX] if isinstance(metrics, dict) else ():
        with suppress(ValueError):
            found[str(name)] = as_float(value)
    return found


def read_extent(path: Path) -> tuple[int, int] | None:
    """Bytes of all files as the manifest says, and how many files with it; None when it cannot be read."""
    try:
        sizes = [size for _, size, _ in _listed_files(_read_manifest(path)[0])]
    except (OSError, ValueError):
        return None
    return sum(sizes), len(sizes) + 1


def read_size(path: Path) -> int | None:
    """Bytes of all files, as the manifest says; None when it cannot be read."""
    extent = read_extent(path)
    return None if extent is None else extent[0]


def _cursor(manifest: Mapping[str, Any]) -> int:
    """The data cursor under whatever name the trainer gives it; 0 when it says nothing."""
    nested = manifest.get("data")
    for fields in (manifest, nested if isinstance(nested, dict) else {}):
        for key in _CURSOR_KEYS:
            value = _whole(fields.get(key))
            if value is not None:
                return value
    return 0


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_INT else None
