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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sentinel.checkpoints.manifest import MANIFEST, NotACheckpoint, cursor_of, listed_files, read_manifest, whole
from sentinel.checkpoints.tensors.counting import Counting
from sentinel.client.checkpoint_files import leads_out
from sentinel.client.regular_file import NotRegular, regular
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.client.strict_json import as_float
from sentinel.filesystem import may_pass

PRUNED = ".pruned-"  # prefix of a checkpoint that is being deleted
ENTRIES_MAX = 100_000
BLOCK_BYTES = 1 << 20
NUMBERS_MAX = 256  # of a manifest that are looked at
NAME_CHARS_MAX = 200  # of a file's name, in a sentence
_NAME = re.compile(r"step-(\d{1,15})")


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
        return read_committed(run_dir, name)
    except (OSError, NotACheckpoint):
        return None


def read_committed(run_dir: Path, name: str) -> CheckpointFound:
    """As read_checkpoint, with the reason: raises NotACheckpoint for what its manifest is as it lies there (TooLarge before a
    byte of it is read), OSError for what says nothing about it: there is none yet, or it cannot be seen now."""
    path = run_dir / CHECKPOINTS / name
    try:
        manifest, digest = read_manifest(path)
    except OSError as error:
        if error.errno == errno.ENOENT or not _is_damage(error):
            raise
        raise NotACheckpoint(f"{path / MANIFEST}: cannot be read ({error.strerror})") from None
    step, named = whole(manifest.get("step")), step_of_name(name)
    if step is None or step != named:
        raise NotACheckpoint(f"{path / MANIFEST}: is of step {_shown(manifest.get('step'))}, and the directory of step {named}")
    return CheckpointFound(step, f"{CHECKPOINTS}/{name}", whole(manifest.get("attempt")) or 0, cursor_of(manifest), digest)


def verify_checkpoint(
    path: Path, counting: Counting | None = None, progressed: Callable[[], None] = lambda: None
) -> Verification:
    """Compare size and sha256 of every file with the manifest. Reads all of it, once: seconds per gigabyte. `counting` sees every
    byte on the way, and counts the values that are not finite. `progressed` is called after every block.

    Raises OSError for what cannot be read now (a stale handle, an I/O error, no rights, too many open files): that says
    nothing about the checkpoint. A file that is absent, of another size, or of another digest is damage, and so are a link that
    leads out of the checkpoint and a name that no file can have.
    """
    try:
        manifest, digest = read_manifest(path)
    except OSError as error:
        if not _is_damage(error):
            raise
        return Verification(False, f"{path / MANIFEST}: cannot be read ({error.strerror})", None)
    except NotACheckpoint as no:
        return Verification(False, str(no), None)
    named, written = step_of_name(path.name), manifest.get("step")
    if named is None or written != named:
        return Verification(False, f"{path}: the manifest is of step {_shown(written)}, the directory is not", digest)
    count, size = 0, 0
    try:
        listed = tuple(listed_files(manifest))
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
    return isinstance(error, NotRegular) or error.errno == errno.ENOENT or not may_pass(error)


def is_there(path: Path) -> bool:
    """As os.path.lexists, but a look that failed is no answer: OSError. A good checkpoint is not moved for a stale handle."""
    try:
        os.lstat(path)
    except OSError as error:
        if not _is_damage(error):
            raise
        return False
    return True


def _check_file(
    path: Path, name: str, size: int, sha256: str, counting: Counting | None, progressed: Callable[[], None]
) -> str:
    """What is wrong with one file, empty when nothing is. Its name is a trainer's, or what a sick disk made of it: no
    terminal takes a command from it."""
    place = f"{path}/{name}" if name.isprintable() and len(name) <= NAME_CHARS_MAX else f"{path}/{_shown(name)}"
    try:
        if target := leads_out(path, name):
            return f"{place}: is a link out of the checkpoint, to {_shown(target)}"
        with open(path / name, "rb", opener=regular) as file:
            actual = os.fstat(file.fileno()).st_size
            if actual != size:
                return f"{place}: {actual} bytes, the manifest says {size}"
            digest = _digest(file, name, size, counting, progressed)
    except ValueError:  # a surrogate, or a NUL: no call was made
        return f"{place}: is no name of a file"
    except OSError as error:
        if not _is_damage(error):
            raise
        return f"{place}: cannot be read ({error.strerror})"
    return "" if digest == sha256.lower() else f"{place}: sha256 is {digest[:12]}…, the manifest says {sha256[:12]}…"


def _shown(value: object) -> str:
    """A value that somebody else wrote, for a sentence."""
    text = repr(value)
    return text if len(text) <= NAME_CHARS_MAX else f"{text[:NAME_CHARS_MAX]}… ({len(text)} characters)"


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
        metrics = read_manifest(path)[0].get("metrics")
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
        sizes = [size for _, size, _ in listed_files(read_manifest(path)[0])]
    except (OSError, ValueError):
        return None
    return sum(sizes), len(sizes) + 1


def read_taken(path: Path) -> tuple[int, int] | None:
    """Bytes and files that a checkpoint takes: of each file what its manifest says, and no more than the file holds, so that a
    manifest which promises more measures nothing. None where it cannot be read."""
    taken = []
    try:
        for name, size, _ in listed_files(read_manifest(path)[0]):
            with suppress(FileNotFoundError, NotADirectoryError):
                taken.append(min(size, os.stat(path / name).st_size))
    except (OSError, ValueError):
        return None
    return sum(taken), len(taken) + 1


def read_size(path: Path) -> int | None:
    """Bytes of all files, as the manifest says; None when it cannot be read."""
    extent = read_extent(path)
    return None if extent is None else extent[0]
