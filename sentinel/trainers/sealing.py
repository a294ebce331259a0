"""Seals a trainer's own checkpoints: what a rollback may need is kept under the run directory, with a digest of every byte.

A sealed checkpoint is `checkpoints/step-N` with a manifest, as one that was written for Sentinel. Its files are hard links to the
trainer's where these are replaced and never rewritten, else copies that share blocks where the filesystem can (reflink). The
trainer's own files are never changed. What it deletes to save room stays here for as long as a rollback may need it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sentinel.checkpoints.files import list_checkpoints
from sentinel.checkpoints.manifest import MANIFEST
from sentinel.checkpoints.pruning import prune_checkpoint
from sentinel.client.atomic_file import ensure_directory, fsync_directory, write_atomically
from sentinel.client.file_digest import BLOCK_BYTES, TREE, new_hasher
from sentinel.client.regular_file import read_regular, regular
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.client.strict_json import dumps, loads
from sentinel.trainers.found import ASIDE, FoundCheckpoint, read_signature
from sentinel.trainers.profile import CheckpointFiles

_FICLONE = 0x40049409  # linux/fs.h: share the blocks of another file
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES)
_NO_CLONE = (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.ETXTBSY)


@dataclass(frozen=True, slots=True)
class Sealed:
    """`how`: link, reflink or copy. `seconds`: that it took, with the digest."""

    step: int
    how: str
    size: int
    seconds: float


def seal_new(
    run_dir: Path,
    places: CheckpointFiles,
    there: Iterable[FoundCheckpoint],
    attempt: int,
    others: Collection[str] = (),
    wall_s: Callable[[], float] = time.time,
    algorithm: str = TREE,
) -> Iterator[Sealed]:
    """Seal every complete checkpoint of those that are there and not sealed yet, in their order. What is still being written,
    or is written anew meanwhile, is left for the next call. `others`: keys of checkpoints of other runs. `algorithm`: of the
    digests, one that whoever verifies them reads. Raises the OSError of the first that could not be sealed, when the others are.
    """
    failed: OSError | None = None
    for found in there:
        if found.key not in others and not is_sealed(run_dir, found) and _is_complete(found, places, wall_s()):
            try:
                sealed = _seal(run_dir, places, found, attempt, algorithm)
            except OSError as error:
                failed = failed or error
                continue
            if sealed is not None:
                yield sealed
    if failed is not None:
        raise failed


def _is_complete(found: FoundCheckpoint, places: CheckpointFiles, wall_s: float) -> bool:
    try:
        return found.is_complete(places, wall_s)
    except FileNotFoundError:
        return False  # the trainer is deleting it


def is_sealed(run_dir: Path, found: FoundCheckpoint) -> bool:
    """Whether this very state of the trainer's files is sealed."""
    try:
        manifest = loads(read_regular(sealed_path(run_dir, found.step) / MANIFEST))
        return bool(manifest["sealed"]["signature"] == signature_to_json(found))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def sealed_path(run_dir: Path, step: int) -> Path:
    return run_dir / CHECKPOINTS / f"step-{step:08d}"


def signature_to_json(found: FoundCheckpoint) -> list[list[object]]:
    return [list(entry) for entry in found.signature]


def drop_old(run_dir: Path, places: CheckpointFiles, there: Iterable[FoundCheckpoint]) -> list[int]:
    """Let go of sealed checkpoints that the trainer has deleted, that have `keep` newer ones and lie `keep_steps` behind; their
    steps. `there`: what the trainer still has."""
    sealed = list_checkpoints(run_dir)
    steps = {found.step for found in there}
    dropped = []
    newest = sealed[-1].step if sealed else 0
    for one in sealed[: -places.keep]:
        if one.step not in steps and newest - one.step > places.keep_steps and _is_ours(run_dir / one.path):
            prune_checkpoint(run_dir, one.path, one.step, one.digest)
            dropped.append(one.step)
    return dropped


def _is_ours(path: Path) -> bool:
    try:
        return "sealed" in loads(read_regular(path / MANIFEST))
    except (OSError, ValueError, TypeError):
        return False


def _seal(run_dir: Path, places: CheckpointFiles, found: FoundCheckpoint, attempt: int, algorithm: str) -> Sealed | None:
    began = time.monotonic()
    target = sealed_path(run_dir, found.step)
    aside = target.parent / f".{target.name}.tmp-{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    ensure_directory(aside)
    try:
        how, files = _take(places, found, aside, algorithm)
        if read_signature(found.path) != found.signature:
            return None  # written anew while it was read
        manifest = {
            "step": found.step,
            "attempt": attempt,
            "cursor": found.step,
            "files": files,
            "sealed": {"path": str(found.path), "how": how, "signature": signature_to_json(found)},
        }
        write_atomically(aside / MANIFEST, dumps(manifest).encode() + b"\n")
        if target.exists():  # the trainer wrote this step again: what was sealed before is another checkpoint
            shutil.rmtree(target)
        os.rename(aside, target)
        fsync_directory(target.parent)
        return Sealed(found.step, how, sum(size for _, size, _ in found.signature), time.monotonic() - began)
    except FileNotFoundError:
        return None  # the trainer deleted it meanwhile
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _take(
    places: CheckpointFiles, found: FoundCheckpoint, aside: Path, algorithm: str
) -> tuple[str, dict[str, dict[str, object]]]:
    hows: set[str] = set()
    files: dict[str, dict[str, object]] = {}
    for name, size, _ in found.signature:
        source = found.path / name if name else found.path
        stored = f"files/{name or found.path.name}"
        ensure_directory((aside / stored).parent)
        hows.add(_bring(source, aside / stored, places.files == "replaced"))
        files[stored] = {"bytes": size, algorithm: _digest(aside / stored, algorithm)}
    return next(how for how in ("copy", "reflink", "link") if how in hows), files


def _bring(source: Path, target: Path, may_link: bool) -> str:
    if may_link:
        try:
            os.link(source, target, follow_symlinks=True)
            return "link"
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
    with open(source, "rb", opener=regular) as here, open(target, "wb") as there:
        try:
            fcntl.ioctl(there, _FICLONE, here.fileno())
            how = "reflink"
        except OSError as error:
            if error.errno not in _NO_CLONE:
                raise
            shutil.copyfileobj(here, there, BLOCK_BYTES)
            how = "copy"
        there.flush()
        os.fsync(there.fileno())
    status = os.stat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))  # by which it is known again
    return how


def _digest(path: Path, algorithm: str) -> str:
    """What was read is dropped from the page cache again: training needs the memory more."""
    hasher = new_hasher(algorithm)
    with open(path, "rb", opener=regular) as file:
        while block := file.read(BLOCK_BYTES):
            hasher.update(block)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return hasher.hexdigest()


def put_back(run_dir: Path, places: CheckpointFiles, step: int) -> Path:
    """Make sure that the trainer finds the checkpoint of this step as it was sealed; its path. What lies in that place and is
    another is moved aside. Raises OSError, or ValueError where nothing of that step is sealed."""
    sealed = sealed_path(run_dir, step)
    manifest = loads(read_regular(sealed / MANIFEST))
    if not isinstance(manifest, dict) or "sealed" not in manifest:
        raise ValueError(f"{sealed}: not sealed by Sentinel")
    target = Path(manifest["sealed"]["path"])
    stored = sealed / "files"
    names = [name.removeprefix("files/") for name in manifest["files"]]
    is_file = names == [target.name] and not target.is_dir()
    if _is_as_sealed(target, manifest):
        return target
    ensure_directory(target.parent)
    aside = target.with_name(f".sentinel-{target.name}.tmp-{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    for name in names:
        place = aside if is_file else aside / name
        ensure_directory(place.parent)
        _bring(stored / name, place, places.files == "replaced")
    if target.exists():
        move_aside(target, target.parent, "replaced")
    os.rename(aside, target)
    fsync_directory(target.parent)
    return target


def _is_as_sealed(target: Path, manifest: dict[str, object]) -> bool:
    try:
        now = [list(entry) for entry in read_signature(target)]
    except OSError:
        return False
    return bool(now == manifest["sealed"]["signature"])  # type: ignore[index]


def move_aside(path: Path, root: Path, why: str) -> Path:
    """Into a folder of its own beside the trainer's checkpoints; nothing is deleted. Raises OSError."""
    folder = root / ASIDE / why
    ensure_directory(folder)
    target = folder / path.name
    number = 1
    while target.exists():
        number += 1
        target = folder / f"{path.name}.{number}"
    os.rename(path, target)
    return target
