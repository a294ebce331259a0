"""Checkpoints that are either whole and provably unchanged, or not there.

torch.distributed.checkpoint writes the shards; around it stands the commit order of PROTOCOL.md: unique temporary directory →
write → fsync files and directory → manifest with size and sha256 of every file → rename → fsync parent. A directory without a
valid manifest is not a checkpoint. Reading verifies first and falls back to older ones, never to newer.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter

from sentinel.client import Resume, as_float, dumps, ensure_directory, fsync_directory, loads, write_atomically
from trainer.exits import DataError, LeaseLostError
from trainer.parallel import World

NAME = re.compile(r"step-(\d{8,})")
SAME = 1e-6  # relative: a number computed again from what was loaded


@dataclass(frozen=True)
class Verified:
    """A checkpoint whose every file matches its manifest. `digest` is the sha256 of manifest.json."""

    path: Path
    step: int
    digest: str
    manifest: dict[str, Any]


def name_of(step: int) -> str:
    return f"step-{step:08d}"


def digest_of(path: Path) -> str:
    """sha256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path, digest: str | None = None) -> Verified:
    """Check a checkpoint's every byte. Raises DataError that says what does not match."""
    try:
        text = (path / "manifest.json").read_bytes()
    except OSError as error:
        raise DataError(f"{path}: manifest.json cannot be read ({error.strerror})") from None
    own = hashlib.sha256(text).hexdigest()
    if digest is not None and own != digest:
        raise DataError(f"{path}: manifest.json has sha256 {own[:12]}…, expected {digest[:12]}…")
    try:
        manifest = loads(text)
        files = {str(name): (int(entry["bytes"]), str(entry["sha256"])) for name, entry in manifest["files"].items()}
        step = int(manifest["step"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: manifest.json is not a manifest ({type(error).__name__}: {error})") from None
    for name, (size, sha256) in files.items():
        try:
            actual = (path / name).stat().st_size
            if actual != size or digest_of(path / name) != sha256:
                raise DataError(f"{path}: {name} does not match its digest ({actual} bytes, {size} expected)")
        except OSError as error:
            raise DataError(f"{path}: {name} cannot be read ({error.strerror})") from None
    return Verified(path, step, own, manifest)


def list_steps(folder: Path) -> list[int]:
    """Steps that have a directory of a checkpoint's name, rising; nothing is said about what is in it."""
    if not folder.is_dir():
        return []
    return sorted(int(match[1]) for entry in folder.iterdir() if (match := NAME.fullmatch(entry.name)))


def discard_unfinished(root: Path) -> None:
    """Remove what saves left behind that never committed. Only for a run that nobody else can be writing to."""
    for leftover in (root / "checkpoints").glob(".step-*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)


def choose_resume(root: Path, asked: Resume | None, below: int | None = None) -> tuple[Verified | None, list[dict[str, Any]]]:
    """The checkpoint to continue from and why others were passed over: what was asked for, else the newest verified older one.

    `asked` None means the newest there is (a run without a supervisor), and then nothing at all is fine. Raises DataError if a
    checkpoint was asked for and none at or before it can be trusted. `below`: only older than that step, which was refused.
    """
    refused: list[dict[str, Any]] = []
    candidates = [(root / "checkpoints" / name_of(step), step, None) for step in reversed(list_steps(root / "checkpoints"))]
    if asked is not None:
        older = [entry for entry in candidates if entry[1] < asked.step]
        candidates = [(root / asked.path, asked.step, asked.digest), *older]
    if below is not None:
        candidates = [entry for entry in candidates if entry[1] < below]
    for path, step, digest in candidates:
        try:
            found = verify(path, digest)
            if found.step != step:
                raise DataError(f"{path}: its manifest is of step {found.step}")
            return found, refused
        except DataError as error:
            refused.append({"step": step, "reason": str(error)})
    if asked is None and below is None and not refused:
        return None, refused
    why = f"; the first refusal: {refused[0]['reason']}" if refused else f": none is older than step {below}, which was refused"
    raise DataError(
        f"no checkpoint under {root / 'checkpoints'} can be trusted{why}. Restore one, or start from scratch (resume null)"
    )


def save(
    root: Path, step: int, world: World, state: dict[str, Any], details: dict[str, Any], may_commit: Callable[[], bool]
) -> str:
    """Write and commit `checkpoints/step-N` under `root`; every rank calls it, every rank gets its digest.

    `details` goes into the manifest. Raises LeaseLostError instead of committing when `may_commit` says no on rank 0.
    """
    folder = root / "checkpoints"
    aside: list[Any] = [None]
    if world.rank == 0:
        aside[0] = str(folder / f".{name_of(step)}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        ensure_directory(Path(aside[0]))
    dist.broadcast_object_list(aside, src=0, group=world.storage)
    here = Path(aside[0])
    dcp.save(state, storage_writer=FileSystemWriter(here, sync_files=True), process_group=world.storage)
    streams = _rng_streams(world)
    for kind, stream in streams.items():
        write_atomically(here / _rng_name(kind, world.rank), stream.numpy().tobytes())
    mine = _own_files(here, world.rank, streams)
    entries = {path.name: {"bytes": _synced_size(path), "sha256": digest_of(path)} for path in mine}
    gathered: list[Any] = [None] * world.size
    dist.all_gather_object(gathered, entries, group=world.storage)
    outcome: list[Any] = [None]
    if world.rank == 0:
        files = {name: entry for part in gathered for name, entry in sorted(part.items())}
        manifest = {"v": 1, "step": step, **details, "files": files}
        outcome[0] = _commit(here, folder / name_of(step), manifest, may_commit)
    dist.broadcast_object_list(outcome, src=0, group=world.storage)
    if outcome[0] is None:
        raise LeaseLostError(f"lease.json names a later attempt, so {folder / name_of(step)} is not committed; this one must end")
    return outcome[0]


def load(found: Verified, world: World, state: dict[str, Any]) -> None:
    """Fill `state` in place, each rank its shards whatever their number was, and restore this rank's random streams."""
    dcp.load(state, storage_reader=FileSystemReader(found.path), process_group=world.storage)
    if found.manifest["world_size"] != world.size:
        return  # there is no stream to continue; nothing in the model draws from it while training
    for kind in _rng_streams(world):
        path = found.path / _rng_name(kind, world.rank)
        if path.name in found.manifest["files"]:
            stream = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
            torch.set_rng_state(stream) if kind == "cpu" else torch.cuda.set_rng_state(stream)


def compare_numbers(found: Verified, loaded: dict[str, float]) -> None:
    """What was loaded against what its manifest says was saved. Raises DataError naming the first number that differs, or how
    many elements are not finite.

    Both are sums of the same float32 values in float64, over another number of ranks perhaps: the order of the sum moves them by
    parts in 10**10 at most, and SAME is far above that and far below anything that matters. A manifest without numbers (of an
    older version) is believed by its digests alone.
    """
    if loaded["nonfinite"]:
        raise DataError(f"{found.path}: {loaded['nonfinite']:.0f} elements of what was loaded are not finite")
    saved = found.manifest.get("metrics")
    for name, actual in loaded.items() if isinstance(saved, dict) else ():
        try:
            expected = as_float(saved.get(name, actual))
        except ValueError as error:
            raise DataError(f"{found.path}: manifest.json: metrics.{name}: {error}") from None
        if not math.isclose(actual, expected, rel_tol=SAME):
            raise DataError(f"{found.path}: {name} of what was loaded is {actual:.9g}, its manifest says {expected:.9g}")


def _commit(here: Path, target: Path, manifest: dict[str, Any], may_commit: Callable[[], bool]) -> str | None:
    """Turn a finished directory into a checkpoint; the digest of its manifest, or None if the lease is lost."""
    fsync_directory(here)
    text = (dumps(manifest) + "\n").encode()
    write_atomically(here / "manifest.json", text)
    if not may_commit():
        return None
    if target.exists():
        _move_aside(target)
    os.rename(here, target)
    fsync_directory(target.parent)
    return hashlib.sha256(text).hexdigest()


def _move_aside(target: Path) -> None:
    """Make room for a checkpoint of this lineage where one of an abandoned lineage stands: into quarantine, never deleted."""
    try:
        attempt = int(loads((target / "manifest.json").read_bytes())["attempt"])
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


def _rng_streams(world: World) -> dict[str, torch.Tensor]:
    streams = {"cpu": torch.get_rng_state()}
    return streams | {"cuda": torch.cuda.get_rng_state()} if world.device.type == "cuda" else streams


def _rng_name(kind: str, rank: int) -> str:
    return f"rng-{kind}-{rank:05d}.bin"


def _own_files(folder: Path, rank: int, kinds: Iterable[str]) -> list[Path]:
    """What this rank answers for: its shards and streams; rank 0 also the index. Other ranks may still be writing theirs."""
    own = sorted(folder.glob(f"__{rank}_*.distcp")) + [folder / _rng_name(kind, rank) for kind in kinds]
    return [*own, folder / ".metadata"] if rank == 0 else own


def _synced_size(path: Path) -> int:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)
