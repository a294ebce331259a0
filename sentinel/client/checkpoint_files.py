"""How a directory becomes a checkpoint (PROTOCOL.md 'Checkpoints'), and what one says of itself. Standard library only.

    here = make_aside(run_dir / "checkpoints", step)      # write into it
    files = describe_files(here, list_files(here))        # read back, synced
    digest = commit(here, run_dir / "checkpoints" / name_of(step), {"step": step, "files": files}, session.may_commit)
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import ensure_directory, fsync_directory, write_atomically
from sentinel.client.file_digest import SHA256, digest_of, listed_digest
from sentinel.client.regular_file import read_regular, regular
from sentinel.client.strict_json import dumps, loads

MANIFEST = "manifest.json"
NAME = re.compile(r"step-(\d{8,})")


class LeaseLost(RuntimeError):
    """A later attempt holds the run: this one must not commit a checkpoint."""


class NotWhole(ValueError):
    """A directory that is no checkpoint, or not the one that was meant; the message names the file and what is wrong."""


def name_of(step: int) -> str:
    return f"step-{step:08d}"


def list_steps(folder: Path) -> list[int]:
    """Steps that have a directory with a checkpoint's name, ascending. The contents are not checked."""
    if not folder.is_dir():
        return []
    return sorted(int(match[1]) for entry in folder.iterdir() if (match := NAME.fullmatch(entry.name)))


def leads_out(checkpoint: Path, name: str) -> str:
    """Where a file of a checkpoint really lies if a link takes it out of the directory; empty if it lies within. What lies
    elsewhere is not moved or deleted with the checkpoint, and changes without it."""
    real, root = os.path.realpath(checkpoint / name), os.path.realpath(checkpoint)
    return "" if real == root or real.startswith(root + os.sep) else real


def make_aside(folder: Path, step: int) -> Path:
    """A directory of its own to write into, under a name that no reader takes for a checkpoint."""
    aside = hidden_name(folder, step)
    ensure_directory(aside)
    return aside


def hidden_name(folder: Path, step: int) -> Path:
    return folder / f".{name_of(step)}.{os.getpid()}.{secrets.token_hex(4)}.tmp"


def list_files(here: Path) -> list[str]:
    """The names of every file below `here`, a manifest aside, sorted. Raises OSError."""
    names = (path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file())
    return sorted(name for name in names if name != MANIFEST)


def describe_files(here: Path, names: Iterable[str], algorithm: str = SHA256) -> dict[str, dict[str, Any]]:
    """These files below `here`, synced and read back: name → size and digest. Raises OSError."""
    found = {name: describe_file(here / name, algorithm) for name in names}
    for folder in sorted({(here / name).parent for name in found} - {here}):
        fsync_directory(folder)
    return found


def describe_file(path: Path, algorithm: str) -> dict[str, Any]:
    """One file, synced and read back, as a manifest lists it. Raises OSError."""
    return {"bytes": synced_size(path), algorithm: digest_of(path, algorithm)}


def synced_size(path: Path) -> int:
    """Sync a file; its size then."""
    handle = regular(os.fspath(path), os.O_RDONLY)
    try:
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def commit(here: Path, target: Path, manifest: Mapping[str, Any], may_commit: Callable[[], bool]) -> str:
    """Turn a finished directory into a checkpoint; the digest of its manifest. Raises LeaseLost, OSError: nothing is then
    changed but the directory aside."""
    fsync_directory(here)
    text = (dumps(manifest) + "\n").encode()
    write_atomically(here / MANIFEST, text)
    if not may_commit():
        raise LeaseLost(f"lease.json names a later attempt, so {target} is not committed; this one must end")
    if here != target:
        if target.exists():
            _move_aside(target)
        os.rename(here, target)
    fsync_directory(target.parent)
    return hashlib.sha256(text).hexdigest()


def _move_aside(target: Path) -> None:
    """Make room for a checkpoint of this lineage: move one of an abandoned lineage into quarantine. Nothing is deleted."""
    try:
        attempt = int(loads(read_regular(target / MANIFEST))["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        attempt = 0
    try:
        _move(target, target.parent.parent / "quarantine" / f"attempt-{attempt:04d}")
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move(target, target.parent / ".quarantine" / f"attempt-{attempt:04d}")  # checkpoints/ is a link to another filesystem


def _move(target: Path, folder: Path) -> None:
    ensure_directory(folder)
    place, number = folder / target.name, 1
    while place.exists():
        number += 1
        place = folder / f"{target.name}.{number}"
    os.rename(target, place)
    fsync_directory(folder)


def open_checkpoint(path: Path, step: int, digest: str | None, *, every_byte: bool) -> tuple[dict[str, Any], str]:
    """The manifest of a checkpoint and its sha256. `digest`: what that must be; None: whatever stands there. `every_byte`:
    compare all contents too, and not the sizes alone. Raises NotWhole."""
    try:
        text = read_regular(path / MANIFEST)
        manifest = loads(text)
    except (OSError, ValueError) as error:
        raise NotWhole(f"{path / MANIFEST}: cannot be read ({error})") from None
    found = hashlib.sha256(text).hexdigest()
    if digest is not None and found != digest:
        raise NotWhole(f"{path / MANIFEST}: has sha256 {found[:12]}…, expected {digest[:12]}…")
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or manifest.get("step") != step:
        raise NotWhole(f"{path / MANIFEST}: is no manifest of step {step}")
    for name, entry in files.items():
        try:
            listed = listed_digest(entry)
            if listed is None:
                raise KeyError("sha256")
            expected, actual = (entry["bytes"], listed.hex), ((path / name).stat().st_size, listed.hex)
            if every_byte and expected == actual:
                actual = (actual[0], digest_of(path / name, listed.algorithm))
        except (OSError, KeyError, TypeError, AttributeError) as error:
            raise NotWhole(f"{path / name}: cannot be compared with the manifest ({type(error).__name__}: {error})") from None
        if actual != expected:
            raise NotWhole(f"{path / name}: does not match the manifest ({actual[0]} bytes, {expected[0]} expected)")
    return manifest, found
