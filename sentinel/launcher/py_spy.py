"""The Python stack of a process that offers none itself, by `py-spy dump`, where that program is on PATH. It is never required.

py-spy reads the memory of the other process. `--nonblocking`: it does not stop it meanwhile, so that nobody takes the rank for
stopped, and one that hangs does not move. Without the right to read it (the kernel's ptrace_scope, another user, a container
without CAP_SYS_PTRACE) it fails, and there is no stack. Seen in its source: its JSON is a list of threads, each with its frames,
innermost first, and these with name, filename and line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.closed_files import closed
from sentinel.client.regular_file import regular
from sentinel.client.strict_json import loads
from sentinel.launcher.process_tree import is_marked
from sentinel.launcher.rank_processes import ENTRY, FRAMES_MAX, STACK_BYTES_MAX, Frame

PROGRAM = "py-spy"
DEADLINE_S = 10.0  # it takes some tenths of a second
NAME_CHARS = 400


@dataclass(slots=True)
class StackDump:
    """One that is under way. Its output stays in the file, beside the stacks that ranks write themselves."""

    process: subprocess.Popen[bytes]
    path: Path
    until_s: float

    def read(self, now_s: float) -> tuple[Frame, ...] | None:
        """The stack of the main thread; empty where there is none to be had, None while it is under way."""
        if self.process.poll() is None and now_s < self.until_s:
            return None
        self.close()
        return read_dump(self.path) if self.process.returncode == 0 else ()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)


def start_dump(pid: int, path: Path, marks: Mapping[str, str], now_s: float) -> StackDump | None:
    """None where there is no such program, the process is none of this attempt, or nothing can be started or written now."""
    program = shutil.which(PROGRAM)
    if program is None or not is_marked(pid, marks):
        return None
    words = [program, "dump", "--json", "--nonblocking", "--pid", str(pid)]
    environment = {"PATH": os.environ.get("PATH", os.defpath)}  # none of sentinel's own secrets
    try:
        ensure_directory(path.parent)
        with open(path, "wb", opener=closed) as out:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
            )
    except OSError:
        return None
    return StackDump(process, path, now_s + DEADLINE_S)


def read_dump(path: Path) -> tuple[Frame, ...]:
    """The stack of the main thread, innermost frame first; empty where the file shows none."""
    try:
        with open(path, "rb", opener=regular) as file:
            threads = loads(file.read(STACK_BYTES_MAX))
    except (OSError, ValueError):
        return ()
    for thread in threads if isinstance(threads, list) else ():
        frames = _frames(thread)
        if frames and frames[-1].function in ENTRY:
            return frames[:FRAMES_MAX]
    return ()


def _frames(thread: object) -> tuple[Frame, ...]:
    entries = thread.get("frames") if isinstance(thread, dict) else None
    frames: list[Frame] = []
    for entry in entries if isinstance(entries, list) else ():
        name, file, line = (entry.get(key) for key in ("name", "filename", "line")) if isinstance(entry, dict) else (None,) * 3
        if isinstance(name, str) and isinstance(file, str) and type(line) is int:
            frames.append(Frame(file[:NAME_CHARS], line, name[:NAME_CHARS]))
    return tuple(frames)
