"""manifest.json of a checkpoint: what it lists and says, read whole and believed in nothing.

manifest, digest = read_manifest(run_dir / "checkpoints" / "step-00001000")
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from sentinel.client.file_digest import FileDigest, listed_digest
from sentinel.client.regular_file import regular
from sentinel.client.strict_json import loads

MANIFEST = "manifest.json"
MANIFEST_BYTES_MAX = 64 << 20
LARGEST_INT = 2**53  # beyond it JSON numbers are not whole in every language
_CURSOR_KEYS = ("samples_end", "cursor", "data_cursor", "samples", "samples_consumed")


class NotACheckpoint(ValueError):
    """The manifest was seen, and makes no checkpoint of its directory: a verdict about the file as it lies there."""


class TooLarge(NotACheckpoint):
    """Judged by its size, without reading a byte of it."""


def read_manifest(path: Path) -> tuple[dict[str, Any], str]:
    """The manifest of the checkpoint at `path`, and its sha256.

    Raises OSError; NotACheckpoint, with place and reason, for what is no JSON object or larger than MANIFEST_BYTES_MAX.
    """
    place = path / MANIFEST
    with open(place, "rb", opener=regular) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(MANIFEST_BYTES_MAX + 1) if size <= MANIFEST_BYTES_MAX else b""
    if max(size, len(data)) > MANIFEST_BYTES_MAX:
        raise TooLarge(f"{place}: is not a manifest ({max(size, len(data))} bytes, and at most {MANIFEST_BYTES_MAX} are read)")
    try:
        manifest = loads(data)
    except ValueError as error:
        raise NotACheckpoint(f"{place}: is not a manifest ({error})") from None
    if not isinstance(manifest, dict):
        raise NotACheckpoint(f"{place}: is not a manifest (not a JSON object)")
    return manifest, hashlib.sha256(data).hexdigest()


class ListedFile(NamedTuple):
    """A file as the manifest lists it."""

    name: str
    size: int
    digest: FileDigest


def listed_files(manifest: Mapping[str, Any]) -> Iterator[ListedFile]:
    """Every file. ValueError for an entry that says less, or that points out of the checkpoint."""
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise ValueError("files: is not an object of names")
    for name, entry in sorted(files.items()):
        size = whole(entry.get("bytes", entry.get("size"))) if isinstance(entry, dict) else None
        digest = listed_digest(entry) if isinstance(entry, dict) else None
        if size is None or digest is None:
            raise ValueError(f"files: {name!r}: needs 'bytes' and 'sha256' or 'sha256_tree'")
        where = PurePosixPath(name)
        if where.is_absolute() or ".." in where.parts or "\0" in name:
            raise ValueError(f"files: {name!r} lies outside the checkpoint")
        yield ListedFile(name, size, digest)


def find_missing_files(path: Path) -> str:
    """What of the checkpoint at `path` is not there, by names and sizes alone, in a sentence; empty where all is."""
    try:
        for file in listed_files(read_manifest(path)[0]):
            size = os.stat(path / file.name).st_size
            if size != file.size:
                return f"{path / file.name} has {size} bytes, and its manifest says {file.size}"
    except OSError as error:
        return f"{error.filename or path} cannot be looked at ({error.strerror or error})"
    except ValueError as error:
        return f"{path / MANIFEST} lists no files ({error})"
    return ""


def cursor_of(manifest: Mapping[str, Any]) -> int:
    """The data cursor under whatever name the trainer gives it; 0 when it says nothing."""
    nested = manifest.get("data")
    for fields in (manifest, nested if isinstance(nested, dict) else {}):
        for key in _CURSOR_KEYS:
            value = whole(fields.get(key))
            if value is not None:
                return value
    return 0


def whole(value: object) -> int | None:
    """A whole number that is not negative, and exact in every language; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_INT else None
