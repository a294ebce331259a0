"""What a rank's process is doing, as the kernel of this machine shows it, and the request for its Python stack.

No signal is sent to a process that has no handler for it, since that would end it: the kernel itself says which signals a process
catches (`SigCgt` in /proc/PID/status).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.launcher.process_tree import is_marked, read_process, signal_exactly
from sentinel.model.readings import Doing

STACK_BYTES_MAX = 256 * 1024
FRAMES_MAX = 64
_STATES: dict[str, Doing] = {"T": "stopped", "D": "blocked"}  # `t` is a debugger's, which lets go again
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+")
_FRAME = re.compile(r'^  File "([^"]{1,400})", line (\d{1,9}) in (\S{1,200})')
ENTRY = ("<module>", "_run_module_as_main")  # outermost in the main thread
_TORCH = re.compile(r"/torch/[^/]+|/torch/.+/")
# In native code a rank that waits for its GPU, or for the others in a gradient's all-reduce, looks like one that works
_UNTOLD = (("/torch/cuda/", "synchronize"), ("/torch/autograd/", "_engine_run_backward"))
_MEETING = ("/torch/distributed/", "/deepspeed/comm/", "/horovod/")


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of a Python stack."""

    file: str
    line: int
    function: str

    @property
    def words(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}"


def read_state(pid: int, marks: Mapping[str, str]) -> tuple[Doing, str] | None:
    """What the process does and the kernel function it stands in. None where it is gone, cannot be seen, or carries other
    `marks` (variables of its environment): its pid belongs to somebody else."""
    try:
        process = read_process(pid)
    except OSError:  # no file is left to open
        return None
    if process is None or not process.is_living or not is_marked(pid, marks):
        return None
    try:
        where = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        where = ""
    return _STATES.get(process.state, "runs"), "" if where == "0" else where[:64]


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for this signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    found = re.search(r"^SigCgt:\s*([0-9a-f]{1,16})$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def ask_for_stack(pid: int, number: int, marks: Mapping[str, str]) -> bool:
    """Ask for the Python stack; False where the process would not survive the signal, or is none of this attempt."""
    if not 0 < number < 65:
        return False
    with contextlib.suppress(OSError):
        return signal_exactly(pid, lambda: is_marked(pid, marks) and catches(pid, number), number)
    return False


def read_stack(path: Path, from_byte: int = 0) -> tuple[Frame, ...]:
    """The stack of the main thread in the newest dump behind `from_byte`, innermost frame first; empty where there is none. A
    dump names no main thread: it is the one whose outermost frame is a program's."""
    try:
        with open(path, "rb", opener=regular) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(from_byte, size - STACK_BYTES_MAX))
            text = file.read(STACK_BYTES_MAX).decode("utf-8", errors="replace")
    except OSError:
        return ()
    main: tuple[Frame, ...] = ()
    thread: list[Frame] = []
    for line in [*text.splitlines(), "Thread 0x0"]:
        if _THREAD.match(line):
            if thread and thread[-1].function in ENTRY:
                main = tuple(thread[:FRAMES_MAX])
            thread = []
        elif (found := _FRAME.match(line)) is not None:
            thread.append(Frame(found[1], int(found[2]), found[3]))
    return main


def judge_stack(stack: tuple[Frame, ...]) -> tuple[Doing, str]:
    """`waits` where the innermost frames, as far as they are torch's own, go through its collectives; else `works`. A rank that
    waits for its GPU shows its own line of code (`loss.item()`), and so does one that works: where every rank shows that, nobody
    is told apart. `runs` where the innermost frame is a call that may do either."""
    assert stack
    if any(part in stack[0].file and stack[0].function == function for part, function in _UNTOLD):
        return "runs", stack[0].words
    for frame in stack:
        if any(part in frame.file for part in _MEETING):
            return "waits", frame.words
        if not _TORCH.search(frame.file):
            break
    return "works", stack[0].words
