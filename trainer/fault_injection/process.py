"""Faults of the process: which are due at a step, their durable records, and what they do to this process and its files."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from sentinel.client import dumps, loads, write_atomically
from sentinel.client.closed_files import closed

from ..exits import BAD_CONFIG, BAD_DATA, NON_FINITE, ConfigError, DataError, NonFiniteError, TrainerError
from ..faults import EVERY_RANK, STEP_KINDS, Fault

EDITED = "edited.txt"
FLOOD_LINE = "a warning that nobody reads, said again and again ".ljust(199, ".") + "\n"
FLOOD_AT_ONCE = 1000


class InjectedCrash(RuntimeError):
    """Raised by crash@step=N."""


def due_faults(
    faults: tuple[Fault, ...], step: int, rank: int, run_dir: Path, attempt: int = 1, kinds: tuple[str, ...] = STEP_KINDS
) -> list[Fault]:
    """This rank's faults of these kinds that are due now. Each is recorded, fsynced, before it is returned."""
    wanted = [fault for fault in faults if fault.kind in kinds and (fault.rank == rank or fault.kind in EVERY_RANK)]
    due = [fault for fault in wanted if fault.is_due(step, attempt) and not _was_injected(fault, run_dir, step, attempt)]
    for fault in due:
        if not fault.always:
            record = {"fault": fault.text, "step": step, "rank": rank, "pid": os.getpid(), "attempt": attempt}
            write_atomically(_record_path(fault, run_dir), dumps(record).encode())
    return due


def inject_fault(fault: Fault, step: int, run_dir: Path) -> None:
    """Kill, terminate, stop, crash, leave or delay this process, fill its log, or edit a file. Faults of tensors do nothing
    here: see `tensors`."""
    if fault.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.kind == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    elif fault.kind == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault.kind == "slow":
        time.sleep(fault.number("for"))
    elif fault.kind == "crash":
        raise InjectedCrash(f"--fault {fault.text}: crash at step {step}")
    elif fault.kind == "exit":
        raise _leaving(int(fault.number("code")), f"--fault {fault.text}: leaves at step {step}")
    elif fault.kind == "log_flood":
        _flood(int(fault.number("lines")))
    elif fault.kind == "edit":
        with open(run_dir / EDITED, "a", encoding="utf-8", opener=closed) as file:
            file.write(f"{fault.text} at step {step}\n")


def _leaving(code: int, words: str) -> TrainerError:
    error = {BAD_CONFIG: ConfigError, BAD_DATA: DataError, NON_FINITE: NonFiniteError}.get(code, TrainerError)(words)
    error.code = code
    return error


def _flood(lines: int) -> None:
    for begun in range(0, lines, FLOOD_AT_ONCE):
        sys.stderr.write(FLOOD_LINE * min(FLOOD_AT_ONCE, lines - begun))
    sys.stderr.flush()


def _record_path(fault: Fault, run_dir: Path) -> Path:
    return run_dir / "faults" / f"{fault.slug}.json"


def _was_injected(fault: Fault, run_dir: Path, step: int, attempt: int) -> bool:
    """Whether it is on record. A fault that every rank must know stays due for the ranks that reach the same step of the same
    attempt later."""
    if fault.always:
        return False
    try:
        record: Any = loads(_record_path(fault, run_dir).read_bytes())
    except FileNotFoundError:
        return False
    return fault.kind not in EVERY_RANK or (record.get("step"), record.get("attempt")) != (step, attempt)
