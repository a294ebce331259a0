"""The processes of one simulated attempt: ranks below torchrun below a keeper, with the habits of the real ones.

Measured habits, pinned by tests/conformance: every worker has a session of its own; torchrun looks at its workers every 0.1 s, on
the first failure (or its own SIGTERM) sends SIGTERM to the rest and waits 30 s, and returns 1 whenever a worker left with
anything but 0; a stopped process hears SIGKILL only. The keeper gives survivors 2 s and kills what is left; it owns no
judgement of what an exit means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals
from typing import Literal, Protocol

from sentinel.model.attempts import ExitReport, RankExit
from sentinel.sim.machine import Machine

TORCHRUN_POLL_S = 0.1
TORCHRUN_CLOSE_S = 30.0
KEEPER_GRACE_S = 2.0
KEEPER_REPORT_S = 0.2
ORDERLY = (0, 6)

Record = tuple[int, str | None]  # a rank's own: its exit code, and its error


class Program(Protocol):
    """What runs in the ranks of an attempt."""

    def begin(self, job: Job) -> None: ...
    def on_signal(self, rank: int, number: int) -> bool:
        """A signal other than KILL, STOP and CONT. False: no handler, the default (death) applies."""
        ...

    def on_death(self, rank: int) -> None:
        """A rank is gone, this instant: nothing it was doing happens any more."""
        ...

    def on_peer_lost(self, rank: int) -> None:
        """What `rank`, still living, notices after a peer died: the collective it is in fails."""
        ...


class NoProgram:
    """In the place of a program that could not be started."""

    def begin(self, job: Job) -> None: ...

    def on_signal(self, rank: int, number: int) -> bool:
        del rank, number
        return False

    def on_death(self, rank: int) -> None: ...

    def on_peer_lost(self, rank: int) -> None: ...


@dataclass(slots=True)
class SimProcess:
    """`value` is the exit value once dead: a code, or a negative signal."""

    pid: int
    role: Literal["command", "rank", "helper"]
    rank: int = -1
    is_stopped: bool = False
    value: int | None = None

    @property
    def is_living(self) -> bool:
        return self.value is None


@dataclass
class Job:
    """One attempt's keeper and everything below it. `version` counts what a look from outside could see. `printed`: the end of
    the launcher's log. `elsewhere`: ranks that live on other machines, where nobody sees them, and which. `outlives_stop`: what
    happens when it is stopped."""

    world: Machine
    attempt: int
    program: Program
    ranks: int
    helpers_per_rank: int = 0
    keeper_pid: int = 0
    is_keeper_living: bool = True
    is_keeper_stopped: bool = False
    processes: dict[int, SimProcess] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)
    beating: set[int] = field(default_factory=set)
    command_status: int | None = None
    report: ExitReport | None = None
    can_start: bool = True
    printed: tuple[str, ...] = ()
    elsewhere: dict[int, str] = field(default_factory=dict)
    outlives_stop: Callable[[], None] | None = None
    version: int = 0

    def __post_init__(self) -> None:
        self._failed: list[int] = []
        self._cause = ""
        self._killed = 0
        self._is_closing = False
        self._command_pid = 0
        self._living = 0
        self._ranks: dict[int, SimProcess] = {}

    def start(self) -> None:
        """Keeper, command, ranks and helpers come up; a single rank is the command itself."""
        self.keeper_pid = self.world.next_pid()
        if self.ranks > 1:
            self._command_pid = self._spawn("command").pid
        for rank in range(self.ranks):
            pid = self._spawn("rank", rank).pid
            self._command_pid = self._command_pid or pid
            for _ in range(self.helpers_per_rank):
                self._spawn("helper", rank)
        self.program.begin(self)

    def _spawn(self, role: Literal["command", "rank", "helper"], rank: int = -1) -> SimProcess:
        process = SimProcess(self.world.next_pid(), role, rank)
        self.processes[process.pid] = process
        if role == "rank":
            self._ranks[rank] = process
        self._living += 1
        self.world.living.add(self.attempt)
        self.version += 1
        return process

    # What can be seen.

    @property
    def is_living(self) -> bool:
        return self._living > 0

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes.values() if process.is_living)

    def rank_process(self, rank: int) -> SimProcess:
        return self._ranks[rank]

    @property
    def living_ranks(self) -> tuple[int, ...]:
        return tuple([rank for rank, process in self._ranks.items() if process.value is None])

    @property
    def running_ranks(self) -> tuple[int, ...]:
        """Living, and not stopped."""
        return tuple([rank for rank, process in self._ranks.items() if process.value is None and not process.is_stopped])

    def is_stuck(self, rank: int) -> bool:
        return self.rank_process(rank).is_stopped

    # What befalls processes.

    def leave(self, rank: int, code: int, error: str | None = None, *, records: bool = True) -> None:
        """A rank exits by itself, its record written first."""
        process = self.rank_process(rank)
        if not process.is_living or process.is_stopped:
            return
        if records:
            self.records[rank] = (code, error)
        self._die(process, code)

    def send(self, pid: int, number: int) -> bool:
        """A signal to one process; whether it was there to be sent to."""
        process = self.processes.get(pid)
        if process is None or not process.is_living:
            return False
        if number == SIGKILL:
            self._die(process, -SIGKILL)
        elif number == SIGSTOP:
            process.is_stopped = True
        elif number == SIGCONT:
            process.is_stopped = False
        elif process.is_stopped:
            return True  # pending until SIGCONT, which nobody here ever sends
        elif process.role == "command":
            self._close() if number == SIGTERM else self._die(process, -number)
        elif process.role != "rank" or not self.program.on_signal(process.rank, number):
            self._die(process, -number)
        return True

    def signal_keeper(self, number: int) -> None:
        if number == SIGKILL:
            self.is_keeper_living = False
        elif number == SIGSTOP:
            self.is_keeper_stopped = True
        self.version += 1
        self.world.wake()

    def _die(self, process: SimProcess, value: int) -> None:
        if not process.is_living:
            return
        process.value = value
        self._living -= 1
        if self._living == 0:
            self.world.living.discard(self.attempt)
        self.version += 1
        if process.role == "rank":
            self.program.on_death(process.rank)
            code = self.records.get(process.rank, (value, None))[0]
            if (code not in ORDERLY) and not self._killed:
                self._failed.append(process.rank)
                self._ends(f"rank {process.rank} {how(code)}", KEEPER_GRACE_S)
            if value != 0:
                self.world.after(TORCHRUN_POLL_S, self._close)
            for rank in self.living_ranks:
                self.world.after(0.0, partial(self._report_lost, rank))
        if process.pid == self._command_pid:
            self.command_status = value
            self._ends(f"the command {how(value)}", KEEPER_GRACE_S)
        self.world.after(TORCHRUN_POLL_S, self._poll)

    def _report_lost(self, rank: int) -> None:
        process = self.rank_process(rank)
        if process.is_living and not process.is_stopped:
            self.program.on_peer_lost(rank)

    # torchrun.

    def _close(self) -> None:
        """SIGTERM to the workers; 30 s later SIGKILL to those that are left."""
        if self._is_closing or self.ranks == 1 or not self._is_command_living:
            return
        self._is_closing = True
        for rank in self.living_ranks:
            self.send(self.rank_process(rank).pid, SIGTERM)
        self.world.after(TORCHRUN_CLOSE_S, self._close_hard)

    def _close_hard(self) -> None:
        if self._is_command_living:
            for rank in self.living_ranks:
                self._die(self.rank_process(rank), -SIGKILL)

    @property
    def _is_command_living(self) -> bool:
        process = self.processes.get(self._command_pid)
        return process is not None and process.is_living

    def _poll(self) -> None:
        """torchrun's look at its workers, and the keeper's at everything."""
        if self.ranks > 1 and self._is_command_living and not self.living_ranks:
            values = [process.value for process in self._ranks.values()]
            status = 0 if not self._is_closing and all(value == 0 for value in values) else 1
            self._die(self.processes[self._command_pid], status)
        if not self.is_living and self.is_keeper_living and not self.is_keeper_stopped:
            self.world.after(KEEPER_REPORT_S, self._write_report)

    # The keeper.

    def _ends(self, cause: str, grace_s: float) -> None:
        if not self._cause:
            self._cause = cause
            self.world.after(grace_s, self._keeper_kills)

    def _keeper_kills(self) -> None:
        if self.is_keeper_living and not self.is_keeper_stopped:
            self._kill_all()

    def lose_client(self, elsewhere: Mapping[int, str]) -> None:
        """The launcher's client is gone, and whatever lives on its machine; the ranks `elsewhere` hang, out of sight."""
        self.elsewhere = {rank: host for rank, host in elsewhere.items() if rank in self.living_ranks}
        for rank in self.elsewhere:
            self.rank_process(rank).is_stopped = True
        self._kill_all()

    def release(self) -> None:
        """The ranks out of sight notice that they were left, and say so in their records."""
        ranks, self.elsewhere = self.elsewhere, {}
        for rank in ranks:
            self.rank_process(rank).is_stopped = False
            self.leave(rank, 1, "RuntimeError: connection closed by peer")

    def _kill_all(self) -> None:
        for process in list(self.processes.values()):
            if process.is_living and process.rank not in self.elsewhere:
                self._killed += 1
                self._die(process, -SIGKILL)

    def stop_all(self) -> int:
        """The launcher's ensure_stopped: everything is killed and accounted for; how many processes that took."""
        living = len(self.pids)
        self._cause = self._cause or "stopped by request"
        self._killed += 1 if living else 0
        self._kill_all()
        self.is_keeper_stopped = False
        self._write_report()
        return living

    def _write_report(self) -> None:
        """exit.json: records first, then what the keeper saw; a dead keeper saw nothing."""
        if self.report is not None or self.is_living:
            return
        ranks = sorted((process for process in self.processes.values() if process.role == "rank"), key=lambda p: p.rank)
        kept = self.is_keeper_living
        exits = tuple(rank_exit(p.rank, p.value, self.records.get(p.rank), was_kept=kept) for p in ranks)
        killed = f"; {self._killed} of its processes were killed" if self._killed else ""
        reason = f"{self._cause}{killed}" if kept else f"its keeper (pid {self.keeper_pid}) died without a report"
        first = self._failed[0] if self._failed and kept else None
        self.report = ExitReport(self.command_status if kept else None, exits, first, reason)
        self.version += 1
        self.world.wake()


def rank_exit(rank: int, value: int | None, record: Record | None, *, was_kept: bool) -> RankExit:
    """A rank's own record first, then what the keeper saw, else 'unknown'.

    `value`: the exit value, negative for a signal. `was_kept` False: the keeper was dead and saw nothing.
    """
    if record is not None:
        return RankExit(rank, record[0], None, "record", record[1])
    if not was_kept:
        return RankExit(rank, None, None, "unknown")
    assert value is not None, "a report is written when nothing lives"
    if value < 0:
        return RankExit(rank, None, -value, "reaped", how(value))
    return RankExit(rank, value, None, "reaped")


def how(value: int) -> str:
    """An exit value in words, to follow a subject."""
    return f"ended with code {value}" if value >= 0 else f"was ended by signal {-value} ({Signals(-value).name})"
