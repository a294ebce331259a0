"""Files and links in checkpoints/ that name the newest checkpoint, set right after later ones were moved to quarantine.

Our contract has no such pointer: `resume` of spec.json says where an attempt begins. But trainers that keep the contract may
keep one too, for people and for their own tools: DeepSpeed's `latest`, Megatron's `latest_checkpointed_iteration.txt`. One
that names a step above the resume step names nothing any more. It is then written anew, atomically, with the resume step in
the form it had (`step-00001200`, `global_step1200`, `1200`); where nothing of that name lies beside it, or the run begins from
scratch, it is taken away. What it said is kept in quarantine. Whatever else it says (`release`) is not ours, and stays.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sentinel.checkpoints.quarantine import quarantine_folder
from sentinel.client.atomic_file import fsync_directory, write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import CHECKPOINTS

POINTERS = ("latest", "latest_checkpointed_iteration.txt")
BYTES_MAX = 4096  # a longer file is no pointer
_NAMED = re.compile(r"(?P<folder>(?:.*/)?)(?P<prefix>[A-Za-z_.-]*?)(?P<step>\d{1,15})")


def fix_pointers(run_dir: Path, step: int, attempt: int) -> list[str]:
    """Make the pointers that name a checkpoint above `step` name that of `step`; one sentence for each. Done twice, it changes
    nothing. Call it when the checkpoints are moved. One that cannot be written is reported, and holds no relaunch up: the attempt
    resumes by its spec.json."""
    messages = []
    for name in POINTERS:
        try:
            messages.append(_fix(run_dir, name, step, attempt))
        except OSError as error:
            messages.append(f"{name} names a step above {step} and cannot be set right: {error.strerror}")
    return [words for words in messages if words]


def _fix(run_dir: Path, name: str, step: int, attempt: int) -> str:
    pointer = run_dir / CHECKPOINTS / name
    content = _read(pointer)
    match = _NAMED.fullmatch(content.strip()) if content is not None else None
    if content is None or match is None or int(match["step"]) <= step or (pointer.parent / content.strip()).exists():
        return ""
    if not content.strip().isprintable() or os.path.realpath(pointer.parent / match["folder"]) != os.path.realpath(
        pointer.parent
    ):
        return ""  # it names something elsewhere, or no place at all
    prefix, digits = match["folder"] + match["prefix"], match["step"]
    target = prefix + str(step).rjust(len(digits) if digits.startswith("0") else 1, "0")
    _keep(quarantine_folder(run_dir, attempt), name, content)
    if step == 0 or (prefix and not (pointer.parent / target).is_dir()):
        pointer.unlink(missing_ok=True)
        done = f"{name} named {content.strip()} and was taken away"
    elif pointer.is_symlink():
        _link(pointer, target)
        done = f"{name} now leads to {target}"
    else:
        write_atomically(pointer, content.replace(match[0], target).encode())
        done = f"{name} now names {target}"
    fsync_directory(pointer.parent)
    return done


def _read(pointer: Path) -> str | None:
    """What the pointer says: a link its target's name, a file its text; None where there is none that could be ours."""
    try:
        if pointer.is_symlink():
            return os.readlink(pointer).rstrip("/")
        if not pointer.is_file() or pointer.stat().st_size > BYTES_MAX:
            return None
        return read_regular(pointer).decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _keep(folder: Path, name: str, content: str) -> None:
    """The old text in quarantine, once: another text under the same name gets a number."""
    for number in range(1, 1000):
        place = folder / (name if number == 1 else f"{name}.{number}")
        try:
            if read_regular(place) == content.encode():
                return
        except FileNotFoundError:
            write_atomically(place, content.encode())
            return


def _link(pointer: Path, target: str) -> None:
    aside = pointer.with_name(f".{pointer.name}.{os.getpid()}.tmp")
    aside.unlink(missing_ok=True)
    os.symlink(target, aside)
    os.rename(aside, pointer)
