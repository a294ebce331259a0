"""A look at one silent rank of this machine: its kernel state at every look, its Python stack once in a silence.

The stack is asked for where its heartbeat says by which signal (`stack_signal`, see client/stacks.py), else by py-spy if there is
one (launcher/py_spy.py). One that was asked and shows none for `MUTE_AFTER_S` is mute. Both the supervisor and the agent of a
node look in this way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.flight_pipe import PIPE_VARIABLES
from sentinel.client.run_layout import flight_recorder_pipe_prefix, flight_recorder_prefix, stack_path
from sentinel.launcher.process_tree import read_environment
from sentinel.launcher.py_spy import StackDump, start_dump
from sentinel.launcher.rank_processes import Frame, ask_for_stack, judge_stack, read_stack, read_state
from sentinel.model.readings import Doing
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.flight_recorder import PREFIX_VARIABLES

SPIES_MAX = 16  # py-spy processes at once on one machine, of ranks that offer no stack
MUTE_AFTER_S = 10.0  # far above what a stack takes on a busy machine, and its file through a shared filesystem's cache


@dataclass(slots=True)
class RankLook:
    """At one rank in one silence, which began with the heartbeat read at `since_s`. `is_blocked`: it was so at the last look,
    which may be a moment of a healthy read."""

    since_s: float
    reported: tuple[Doing, str] | None = None
    is_blocked: bool = False
    asked_from: int | None = None  # bytes of its file before it was asked; None: not asked yet
    due_s: float | None = None  # when its stack was asked for, or should have come by itself
    reads: int = 0
    dump: StackDump | None = None
    stack: tuple[Doing, str] | None = None

    def see(
        self, files: AttemptFiles, rank: int, pid: int, stack_signal: int | None, now_s: float, *, may_spy: bool
    ) -> tuple[Doing, str] | None:
        """What it does now; None where that cannot be seen. `may_spy`: py-spy may be started for it."""
        state = read_state(pid, files.environment)
        if state is None:
            return None
        doing, where = state
        was_blocked, self.is_blocked = self.is_blocked, doing == "blocked"
        if doing == "stopped" or (doing == "blocked" and was_blocked):
            return state
        path = stack_path(files.run_dir, files.attempt, rank)
        if self.asked_from is None:
            self.asked_from = -1
            size = mark_of(path)[1]
            if stack_signal is not None and ask_for_stack(pid, stack_signal, files.environment):
                self.asked_from, self.due_s = size, now_s
            elif may_spy:
                self.dump = start_dump(pid, path.with_suffix(".py-spy.json"), files.environment, now_s)
        elif self.stack is None:
            stack = read_stack(path, self.asked_from) if self.asked_from >= 0 else self._take(now_s)
            self.stack = judge_stack(stack) if stack else None
        if self.stack is not None:
            return self.stack
        return ("mute" if self.is_mute(now_s) else "runs", where)

    def is_mute(self, now_s: float) -> bool:
        return self.due_s is not None and now_s - self.due_s > MUTE_AFTER_S

    def close(self) -> None:
        if self.dump is not None:
            self.dump.close()

    def _take(self, now_s: float) -> tuple[Frame, ...]:
        stack = self.dump.read(now_s) if self.dump is not None else ()
        self.dump = self.dump if stack is None else None
        return stack or ()


def dump_places(files: AttemptFiles, pids: Sequence[int | None]) -> tuple[set[str], set[str]]:
    """The prefixes of the flight recorder's dumps and of its pipes: our own, and what the first process was started with."""
    prefixes = {str(flight_recorder_prefix(files.run_dir, files.attempt))}
    pipes = {str(flight_recorder_pipe_prefix(files.run_dir, files.attempt))}
    for pid in pids[:1]:
        for entry in read_environment(pid) if pid is not None else ():
            name, _, value = os.fsdecode(entry).partition("=")
            if value and name in PREFIX_VARIABLES:
                prefixes.add(value)
            elif value and name in PIPE_VARIABLES:
                pipes.add(value)
    return prefixes, pipes


def mark_of(path: Path) -> tuple[int, int]:
    """By which it is known that a file has changed: the time of that, and its size in bytes; zeros where there is none."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
