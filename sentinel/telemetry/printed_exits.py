"""How ranks ended, as launchers print it: for a log that came without exit records.

torchrun's table and its agent's line, srun's tasks, mpirun, Lightning's launcher and torch.multiprocessing. Where torchrun runs
under srun, a task is a node and says nothing of a rank. A launcher that prints no rank gives none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.detectors.crash_labels import read_labels
from sentinel.launcher.torchrun_table import parse_failure_table
from sentinel.model.attempts import RankExit

SIGNALS = {"Killed": 9, "Segmentation fault": 11, "Bus error": 7, "Aborted": 6, "Illegal instruction": 4, "Terminated": 15}
NAMES = {"SIGKILL": 9, "SIGSEGV": 11, "SIGBUS": 7, "SIGABRT": 6, "SIGILL": 4, "SIGTERM": 15, "SIGFPE": 8, "SIGINT": 2}
TASKS_MAX = 65_536

_AGENT = re.compile(r"failed \(exitcode: ?(-?\d+)\) local_rank: (\d+) \(pid: \d+\)")
_ENTRY = re.compile(r"^\s*rank\s*:\s*(\d+)\s*\(local_rank: \d+\)")
_CODE = re.compile(r"^\s*exitcode\s*:\s*-?\d+\s*\(pid:")
_SRUN = re.compile(r"srun: error: [^:]+: tasks? ([\d,\- ]+): (?:Exited with exit code (\d+)|([A-Z][a-z]+(?: [a-z]+)?))")
_SRUN_ENDS = re.compile(r"srun: (?:Terminating|Job step aborted|Force Terminated)|CANCELLED AT|srun: launch/slurm: _step_signal")
_MPIRUN = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+)")
_LIGHTNING = re.compile(r"\[rank: (\d+)\] Child process with PID \d+ terminated with code (-?\d+)")
# MPICH and Intel MPI: "=   RANK 6 PID 3211 RUNNING AT node4", then "=   KILLED BY SIGNAL: 9 (Killed)" or "=   EXIT CODE: 1"
_MPICH_RANK = re.compile(r"^=\s+RANK (\d+) PID \d+ RUNNING AT ")
_MPICH_END = re.compile(r"^=\s+(?:KILLED BY SIGNAL: (\d+)|EXIT (?:CODE|STATUS): (\d+))")
# Open MPI and PRRTE: "  Process name: [[21713,1],3]" or "[prterun-gpu-a1-4412@1,5]", then "  Exit code:    7"
_OMPI_RANK = re.compile(r"^\s*Process name: \[(?:\[\d+,\d+\],|[^\]\s]{1,128}@\d+,)(\d+)\]")
_OMPI_END = re.compile(r"^\s*Exit code:\s+(\d+)")
# MosaicML Composer: "Rank 11 crashed with exit code -9."
_COMPOSER = re.compile(r"\bRank (\d+) crashed with exit code (-?\d+)")
_SPAWN = re.compile(r"\bprocess (\d+) terminated with (?:signal (SIG\w+)|exit code (\d+))")


@dataclass(frozen=True, slots=True)
class PrintedExits:
    """`places`: the index of the line that says how a rank ended. `first`: who failed first, where the launcher says it."""

    exits: tuple[RankExit, ...] = ()
    first: int | None = None
    places: tuple[tuple[int, int], ...] = ()

    def place_of(self, rank: int | None) -> int | None:
        return next((place for of, place in self.places if of == rank), None)


def read_printed_exits(lines: Sequence[str]) -> PrintedExits:
    """The exits of the last launch in a launcher's log. The surest source that is there counts alone."""
    texts = [read_labels(line).text for line in lines]
    return _of_table(lines, texts) or _of_agent(lines, texts) or _of_others(lines) or _of_srun(lines) or PrintedExits()


def _exit(rank: int, value: int) -> RankExit:
    return RankExit(rank, None, -value, "launcher") if value < 0 else RankExit(rank, value, None, "launcher")


def _of_table(lines: Sequence[str], texts: Sequence[str]) -> PrintedExits | None:
    table = parse_failure_table("\n".join(texts))
    if not table.exits:
        return None
    places: dict[int, int] = {}
    rank: int | None = None
    for at, text in enumerate(texts):
        if (entry := _ENTRY.match(text)) is not None:
            rank = int(entry[1])
        elif rank is not None and _CODE.match(text) is not None:
            places[rank], rank = at, None
    root = table.root
    agent = _of_agent(lines, texts)  # says it first
    if agent is not None and root is not None and agent.first == root:
        places |= dict(agent.places)
    exits = tuple(_exit(number, value) for number, value in sorted(table.exits.items()) if value != 0)
    return PrintedExits(exits, root, tuple(places.items()))


def _of_agent(lines: Sequence[str], texts: Sequence[str]) -> PrintedExits | None:
    """The agent names a place on its node: a rank only where one agent writes."""
    found = [(at, match) for at, text in enumerate(texts) if (match := _AGENT.search(text)) is not None]
    if not found:
        return None
    agents = {(read.host, read.number) for at, _ in found if (read := read_labels(lines[at]))}
    if len(agents) > 1:
        return None
    at, match = found[0] if len(found) == 1 else found[-1]
    rank = int(match[2])
    return PrintedExits((_exit(rank, int(match[1])),), rank, ((rank, at),))


def _of_others(lines: Sequence[str]) -> PrintedExits | None:
    named: int | None = None
    for at, line in enumerate(lines):
        if (match := _MPICH_RANK.match(line) or _OMPI_RANK.match(line)) is not None:
            named = int(match[1])
            continue
        if named is not None and (match := _MPICH_END.match(line)) is not None:
            rank, value = named, -int(match[1]) if match[1] else int(match[2])
        elif named is not None and (match := _OMPI_END.match(line)) is not None:
            rank, value = named, int(match[1])
        elif (match := _COMPOSER.search(line)) is not None:
            rank, value = int(match[1]), int(match[2])
        elif (match := _MPIRUN.search(line)) is not None:
            rank, value = int(match[1]), -int(match[2])
        elif (match := _LIGHTNING.search(line)) is not None:
            rank, value = int(match[1]), int(match[2])
        elif (match := _SPAWN.search(line)) is not None:
            rank = int(match[1])
            value = -NAMES.get(match[2], 9) if match[2] else int(match[3])
        else:
            continue
        return PrintedExits((_exit(rank, value),), rank, ((rank, at),))
    return None


def _of_srun(lines: Sequence[str]) -> PrintedExits | None:
    """Tasks in the order in which srun reports them, until it ends the others. A number of ranks in labels that is larger than
    any task says that tasks are nodes."""
    exits: dict[int, RankExit] = {}
    places: dict[int, int] = {}
    ends = False
    highest = -1
    first: int | None = None
    for at, line in enumerate(lines):
        read = read_labels(line)
        if (
            read.rank is not None and read.number is not None and read.rank != read.number
        ) or "torch/distributed/elastic" in line:
            return None
        highest = max(highest, read.rank if read.rank is not None else -1)
        ends = ends or _SRUN_ENDS.search(line) is not None
        match = _SRUN.search(line)
        if match is None:
            continue
        value = int(match[2]) if match[2] else -SIGNALS.get(match[3], 9 if match[3] == "Out" else 15)
        tasks = _tasks(match[1])
        is_ended = ends and value in (-9, -15)  # by srun: whose end is reported first says nothing
        first = tasks[0] if not exits and len(tasks) == 1 and not is_ended else first
        for task in tasks:
            if task not in exits and len(exits) < TASKS_MAX:
                exits[task] = _exit(task, -15 if ends and value == -9 else value)
                places[task] = at
    if not exits or highest > max(exits) + 8:
        return None
    return PrintedExits(tuple(exits.values()), first, tuple(places.items()))


def _tasks(text: str) -> list[int]:
    tasks: list[int] = []
    for part in text.replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not dash):
            tasks += range(int(first), min(int(last or first), int(first) + TASKS_MAX) + 1)
    return tasks[:TASKS_MAX]
