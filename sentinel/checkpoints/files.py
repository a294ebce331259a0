"""Checkpoints as files: which are there, and what their manifests say.

A directory `checkpoints/step-N` with a readable manifest.json of that step is a checkpoint; anything else is an unfinished
save. It judges no training, chooses no checkpoint (`sentinel.plan` does), compares no bytes (`verification.py`) and moves none
(`quarantine.py` and `pruning.py`).

    for found in list_checkpoints(run_dir):
        ok, reason, digest = verify_checkpoint(run_dir / found.path)
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.checkpoints.manifest import MANIFEST, NotACheckpoint, cursor_of, listed_files, read_manifest, whole
from sentinel.client.regular_file import NotRegular
from sentinel.client.run_layout import CHECKPOINTS
from sentinel.client.strict_json import as_float
from sentinel.filesystem import may_pass

PRUNED = ".pruned-"  # prefix of a checkpoint that is being deleted
ENTRIES_MAX = 100_000
NUMBERS_MAX = 256  # of a manifest that are looked at
NAME_CHARS_MAX = 200  # of a file's name, in a sentence
_NAME = re.compile(r"step-(\d{1,15})")


@dataclass(frozen=True, slots=True)
class CheckpointFound:
    """A checkpoint with a readable manifest; `path` is relative to the run directory, `digest` the manifest's sha256,
    `bytes` of all its files, 0 where the manifest does not tell."""

    step: int
    path: str
    attempt: int
    samples_end: int
    digest: str
    bytes: int = 0


def list_checkpoints(run_dir: Path) -> list[CheckpointFound]:
    """Every checkpoint of the run by rising step. Unreadable ones are left out; OSError only for the directory itself."""
    found = (read_checkpoint(run_dir, name) for name in list_entries(run_dir) if step_of_name(name) is not None)
    return sorted((checkpoint for checkpoint in found if checkpoint is not None), key=lambda checkpoint: checkpoint.step)


def list_entries(run_dir: Path) -> list[str]:
    """Names of the directories in checkpoints/, sorted; empty when there is none yet. OSError when it cannot be read."""
    try:
        with os.scandir(run_dir / CHECKPOINTS) as entries:
            names = [entry.name for _, entry in zip(range(ENTRIES_MAX), entries, strict=False) if _is_directory(entry)]
    except FileNotFoundError:
        return []
    return sorted(names)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """A link that leads in a circle is none, and keeps nobody from the others."""
    try:
        return entry.is_dir()
    except OSError as error:
        if not is_damage(error):
            raise
        return False


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
        if error.errno == errno.ENOENT or not is_damage(error):
            raise
        raise NotACheckpoint(f"{path / MANIFEST}: cannot be read ({error.strerror})") from None
    step, named = whole(manifest.get("step")), step_of_name(name)
    if step is None or step != named:
        raise NotACheckpoint(f"{path / MANIFEST}: is of step {shown(manifest.get('step'))}, and the directory of step {named}")
    attempt, size = whole(manifest.get("attempt")) or 0, 0
    with suppress(ValueError):
        size = sum(file.size for file in listed_files(manifest))
    return CheckpointFound(step, f"{CHECKPOINTS}/{name}", attempt, cursor_of(manifest), digest, size)


def is_damage(error: OSError) -> bool:
    """Whether it says something about the checkpoint, and not only that it cannot be seen now."""
    return isinstance(error, NotRegular) or error.errno == errno.ENOENT or not may_pass(error)


def is_there(path: Path) -> bool:
    """As os.path.lexists, but a look that failed is no answer: OSError. A good checkpoint is not moved for a stale handle."""
    try:
        os.lstat(path)
    except OSError as error:
        if not is_damage(error):
            raise
        return False
    return True


def shown(value: object) -> str:
    """A value that somebody else wrote, for a sentence."""
    text = repr(value)
    return text if len(text) <= NAME_CHARS_MAX else f"{text[:NAME_CHARS_MAX]}… ({len(text)} characters)"


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
        sizes = [file.size for file in listed_files(read_manifest(path)[0])]
    except (OSError, ValueError):
        return None
    return sum(sizes), len(sizes) + 1


def read_taken(path: Path) -> tuple[int, int] | None:
    """Bytes and files that a checkpoint takes: of each file what its manifest says, and no more than the file holds, so that a
    manifest which promises more measures nothing. None where it cannot be read."""
    taken = []
    try:
        for file in listed_files(read_manifest(path)[0]):
            with suppress(FileNotFoundError, NotADirectoryError):
                taken.append(min(file.size, os.stat(path / file.name).st_size))
    except (OSError, ValueError):
        return None
    return sum(taken), len(taken) + 1


def read_size(path: Path) -> int | None:
    """Bytes of all files, as the manifest says; None when it cannot be read."""
    extent = read_extent(path)
    return None if extent is None else extent[0]
