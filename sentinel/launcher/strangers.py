"""Living processes of a run that nobody there knows of: they carry its mark and are of no attempt that is known to live.

A run directory that was put back to an earlier day, or deleted, leaves the trainers of before alone, with no folder and no fact
that names them. They write into the same checkpoints as whatever is launched beside them. Only this machine is looked at.

The mark is SENTINEL_RUN_DIR together with SENTINEL_ATTEMPT, in a process that sees this very directory under that path: a
container may have another at the same place. What has lost the mark is known by the logs that it writes (`log_writers`).
Nothing else of sentinel's carries it: helpers, trackers and keepers are started without. The commands of a launcher do, and they
are below the supervisor, which looks at nothing below itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sentinel.errors import RetryLater
from sentinel.launcher.log_writers import attempt_written_by
from sentinel.launcher.process_tree import (
    find_descendants,
    is_marked,
    read_environment,
    read_process,
    read_processes,
)
from sentinel.launcher.spec_file import read_launch
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, LAUNCH_VARIABLE, RUN_DIR_VARIABLE, AttemptFiles

RETRY_IN_S = 5.0  # a trainer that is leaving needs a moment
NAMED_MAX = 16
_DEPTH_MAX = 64  # of parents; a tree of processes is not deeper


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process that carries the mark. `attempt`: the number it carries, as it stands there."""

    pid: int
    attempt: str


def find_strangers(run_dir: Path, known: Collection[int] = ()) -> tuple[Stranger, ...]:
    """By pid, what lives with the run's mark on this machine and is of none of the attempts `known`.

    A process is of a known attempt if it carries its number and, where both name one, its launch. One without the mark that
    writes the logs of an attempt is of that. Raises OSError where a spec.json cannot be read.
    """
    mark = {RUN_DIR_VARIABLE: str(AttemptFiles.of(run_dir, 0).run_dir)}
    launches = {str(number): read_launch(AttemptFiles.of(run_dir, number)) for number in known}
    processes = read_processes()
    spared = _line_of(os.getpid())
    if os.getpid() != 1:  # in a container the supervisor may be who gets every orphan
        spared |= find_descendants(processes, [os.getpid()])
    found = []
    for pid in sorted(processes.keys() - spared):
        if not processes[pid].is_living or processes[pid].is_kernels:
            continue
        if not is_marked(pid, mark):
            written = attempt_written_by(pid, run_dir)
            if written is not None and str(written) not in launches:
                found.append(Stranger(pid, str(written)))
            continue
        variables = _variables(pid)
        attempt, launch = variables.get(ATTEMPT_VARIABLE), variables.get(LAUNCH_VARIABLE)
        is_known = attempt in launches and (launch is None or launches[attempt] in (None, launch))
        if attempt is not None and not is_known and _sees(pid, run_dir):
            found.append(Stranger(pid, attempt))
    return tuple(found)


def find_before_launch(run_dir: Path, attempt: int) -> tuple[Stranger, ...]:
    """What speaks against launching `attempt`; nothing where it was launched before, because then nothing is launched again: the
    launcher says how it stands. Raises OSError."""
    files = AttemptFiles.of(run_dir, attempt)
    if files.keeper.exists() or files.exit.exists():
        return ()
    return find_strangers(run_dir, (attempt,) if files.spec.exists() else ())


def refuse_strangers(strangers: Collection[Stranger], what: str) -> None:
    """Raises RetryLater where there are any. `what`: what is not done while they live."""
    if strangers:
        raise RetryLater(f"{what}: {describe_strangers(strangers)}", RETRY_IN_S)


def describe_strangers(strangers: Collection[Stranger]) -> str:
    """Who they are and the command that ends them."""
    attempts = ", ".join(sorted({f"{stranger.attempt:.20}" for stranger in strangers}))
    more = f" and {len(strangers) - NAMED_MAX} more" if len(strangers) > NAMED_MAX else ""
    pids = [str(stranger.pid) for stranger in strangers][:NAMED_MAX]
    return (
        f"processes of this run live on {socket.gethostname()} that it does not know of (SENTINEL_ATTEMPT={attempts}): "
        f"{', '.join(pids)}{more}. They write into its checkpoints; end them with: kill {' '.join(pids)}"
    )


def _variables(pid: int) -> dict[str, str]:
    entries = (os.fsdecode(entry).partition("=") for entry in read_environment(pid))
    return {name: value for name, _, value in entries}


def _line_of(pid: int) -> set[int]:
    """The process and its parents: a shell in which somebody set the variables by hand has started this, and trains nothing."""
    line: set[int] = set()
    process = read_process(pid)
    while process is not None and len(line) < _DEPTH_MAX:
        line.add(process.pid)
        process = read_process(process.parent)
    return line


def _sees(pid: int, run_dir: Path) -> bool:
    """Whether the run's directory is this one for the process, too. What cannot be asked is taken for yes."""
    try:
        theirs, ours = os.stat(f"/proc/{pid}/root{os.path.realpath(run_dir)}"), os.stat(run_dir)
    except OSError:
        return True
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)
