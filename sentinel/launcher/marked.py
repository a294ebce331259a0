"""Living processes of this machine that carry a run's mark, of whatever attempt, by one walk through /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.machine import NODE_VARIABLE
from sentinel.launcher.process_tree import Process, read_environment, read_processes
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, LAUNCH_VARIABLE, RUN_DIR_VARIABLE, is_rank, is_same_host


@dataclass(frozen=True, slots=True)
class MarkedProcess:
    """`rank`: RANK of its environment, which a rank hands on to what it starts; None where there is none."""

    process: Process
    attempt: int
    launch: str | None
    rank: int | None


def find_marked(run_dir: Path, node: str) -> dict[int, MarkedProcess]:
    """By pid; this process is left out, and so is what its launcher has told to be on another machine than `node`. `run_dir`:
    resolved, as the mark has it."""
    mark = os.fsencode(f"{RUN_DIR_VARIABLE}={run_dir}")
    found = {}
    for pid, process in read_processes().items():
        is_asked = process.is_living and not process.is_kernels and pid != os.getpid()
        entries = read_environment(pid) if is_asked else frozenset()
        if mark not in entries:
            continue
        variables = _variables(entries)
        attempt, rank = variables.get(ATTEMPT_VARIABLE, ""), variables.get("RANK", "")
        is_here = is_same_host(variables.get(NODE_VARIABLE) or node, node)
        if is_here and attempt.isdecimal() and len(attempt) < 10:
            number = int(rank) if rank.isdecimal() and len(rank) < 10 and is_rank(int(rank)) else None
            found[pid] = MarkedProcess(process, int(attempt), variables.get(LAUNCH_VARIABLE), number)
    return found


def choose_rank_processes(marked: Mapping[int, MarkedProcess]) -> dict[tuple[int, int], Process]:
    """By attempt and rank, the uppermost process that has the RANK: loaders and shells below a rank have inherited it."""
    chosen = {}
    for one in marked.values():
        above = marked.get(one.process.parent)
        if one.rank is not None and (above is None or (above.attempt, above.rank) != (one.attempt, one.rank)):
            chosen[one.attempt, one.rank] = one.process
    return chosen


def _variables(entries: frozenset[bytes]) -> dict[str, str]:
    split = (os.fsdecode(entry).partition("=") for entry in entries)
    return {name: value for name, _, value in split}
