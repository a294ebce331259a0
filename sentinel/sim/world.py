"""The simulated world: a clock, what is going to happen, and what lies in the run directory.

Nothing here knows of the engine. Time passes only in `advance`, which lets things happen in order of their time and returns
early when something was written that would wake a real supervisor.

    world = World(seed=7)
    world.after(2.0, lambda: ...)
    world.advance(10.0)
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sentinel.model.environment import Environment
from sentinel.model.readings import HardwareReading, WishReading
from sentinel.model.records import SampleSeen
from sentinel.sim.environment import CHANGES, PROGRAM
from sentinel.sim.store import Store

if TYPE_CHECKING:
    from sentinel.sim.processes import Job

EPOCH_S = 1_000_000.0  # when the simulated session clock starts; any large number, so that a forgotten offset shows


class SupervisorKilled(BaseException):
    """SIGKILL to the supervisor at exactly this instruction. No handler of errors may catch it."""


@dataclass(slots=True)
class Happening:
    """Something that will happen, unless it is cancelled."""

    do: Callable[[], None] | None

    def cancel(self) -> None:
        self.do = None


@dataclass(frozen=True, slots=True)
class Deed:
    """A change somebody made to the world: `what` was done `to` what, under which action key (empty: not by the supervisor)."""

    at_s: float
    what: str
    to: str
    key: str = ""


@dataclass
class World:
    """One run directory on one machine.

    Attributes:
        jobs: the processes of each attempt that was ever started.
        overrides_file: content of overrides.json; `overrides_version` counts its writes.
        struck: RUN_DIR/faults, the faults that must not strike twice.
        living: attempts of which a process lives.
        blind: sources that cannot be read now.
        lease_attempt: the attempt named in lease.json.
        inbox: what people ask; a supervisor that has answered removes it.
        samples: what inspections wrote, by attempt.
        program: what the next attempt would run; `specs`: what each attempt was started with.
        hardware: what a look at the machines would tell; `sick`: which fault of them struck which attempt.
        deeds: what was changed, by whom: the truth that invariants are checked against.
        pages: what reached a person, by stage: trigger, update, acknowledge, resolve, message.
        routes: those on which pages are refused, or hang.
    """

    seed: int
    now_s: float = EPOCH_S
    jobs: dict[int, Job] = field(default_factory=dict)
    store: Store = field(default_factory=Store)
    overrides_file: Mapping[str, Any] | None = None
    overrides_version: int = 0
    struck: set[str] = field(default_factory=set)
    blind: set[str] = field(default_factory=set)
    lease_attempt: int = 0
    living: set[int] = field(default_factory=set)
    deeds: list[Deed] = field(default_factory=list)
    pages: list[Deed] = field(default_factory=list)
    routes: dict[str, str] = field(default_factory=dict)
    happened: int = 0
    inbox: list[WishReading] = field(default_factory=list)
    samples: dict[int, tuple[SampleSeen, ...]] = field(default_factory=dict)
    program: Environment = PROGRAM
    specs: dict[int, Environment] = field(default_factory=dict)
    hardware: list[HardwareReading] = field(default_factory=list)
    sick: set[tuple[int, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self._queue: list[tuple[float, int, Happening]] = []
        self._number = 0
        self._pids = 1000
        self._woken = False
        self.on_deed: Callable[[Deed], None] = lambda _: None

    def after(self, delay_s: float, do: Callable[[], None]) -> Happening:
        """Let `do` happen `delay_s` from now; things of the same moment happen in the order they were asked for."""
        assert delay_s >= 0.0, f"{delay_s} s from now is the past"
        happening = Happening(do)
        self._number += 1
        heapq.heappush(self._queue, (self.now_s + delay_s, self._number, happening))
        return happening

    def advance(self, seconds: float, *, wakes: bool = True) -> None:
        """Let time pass: at most `seconds`, and with `wakes` only until something is written that a supervisor hears."""
        end_s = self.now_s + seconds
        self._woken = False
        queue = self._queue
        while queue and queue[0][0] <= end_s:
            self.now_s, _, happening = heapq.heappop(queue)
            do, happening.do = happening.do, None
            if do is not None:
                self.happened += 1
                do()
                if self._woken and wakes:
                    return
        self.now_s = end_s

    def wake(self) -> None:
        """Something was written that inotify would tell a supervisor."""
        self._woken = True

    def ask(self, wish: WishReading) -> None:
        self.inbox.append(wish)
        self.wake()

    def runs(self, attempt: int) -> Environment:
        """What the attempt runs: as it lay there at its first launch."""
        return self.specs.setdefault(attempt, self.program)

    def change_program(self, what: str) -> None:
        """Somebody edits, installs, or takes away: what lives is not touched by it."""
        self.program = CHANGES[what]

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    def go_blind(self, source: str, seconds: float) -> None:
        self.blind.add(source)
        self.after(seconds, lambda: self.blind.discard(source))

    def spoil_route(self, name: str, does: str, seconds: float) -> None:
        """Pages on it are refused or hang, for good where `seconds` is 0."""
        self.routes[name] = does
        if seconds:
            self.after(seconds, lambda: self._mend_route(name))

    def _mend_route(self, name: str) -> None:
        self.routes.pop(name, None)

    def hide_checkpoints(self, seconds: float) -> None:
        """For so long no file in checkpoints/ can be read."""
        self.store.outages += 1
        self.after(seconds, self._show_checkpoints)

    def _show_checkpoints(self) -> None:
        self.store.outages -= 1

    def did(self, what: str, to: str, key: str = "") -> None:
        self.deeds.append(Deed(self.now_s, what, to, key))
        self.on_deed(self.deeds[-1])

    def write_overrides(self, value: Mapping[str, Any]) -> None:
        self.overrides_file = value
        self.overrides_version += 1
