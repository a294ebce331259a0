"""The simulated world: a machine, the processes on it, and what lies in the run directory. Nothing here knows of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sentinel.model.environment import Environment
from sentinel.model.readings import HardwareReading, RequestReading
from sentinel.model.records import SampleSeen
from sentinel.sim.machine import Machine
from sentinel.sim.processes import Job
from sentinel.sim.program_changes import CHANGES, PROGRAM
from sentinel.sim.store import SimStore

PLENTY = 1e6  # checkpoints


class SupervisorKilled(BaseException):
    """SIGKILL to the supervisor at exactly this instruction. No handler of errors may catch it."""


@dataclass(frozen=True, slots=True)
class WorldChange:
    """A change somebody made to the world: `what` was done `to` what, under which action key (empty: not by the supervisor).
    `attempt`: that was started."""

    at_s: float
    what: str
    to: str
    key: str = ""
    attempt: int = 0


@dataclass
class World(Machine):
    """One run directory on one machine.

    Attributes:
        jobs: the processes of each attempt that was ever started.
        overrides_file: content of overrides.json; `overrides_version` counts its writes.
        faults_done: RUN_DIR/faults, the faults that must not happen twice.
        blind: sources that cannot be read now.
        lease_attempt: the attempt named in lease.json.
        inbox: what people ask; a supervisor that has answered removes it.
        samples: what inspections wrote, by attempt.
        program: what the next attempt would run; `specs`: what each attempt was started with.
        hardware: what can be read of the machines; `sick`: which fault of them came upon which attempt.
        room_left: checkpoints more that find room on the disk; None: nobody has looked.
        node_words: what the check of a node says, where it is not `healthy`.
        world_changes: what was changed, by whom: the truth that invariants are checked against.
        pages: what reached a person, by stage: trigger, update, acknowledge, resolve, message.
        routes: those on which pages are refused, or hang.
    """

    jobs: dict[int, Job] = field(default_factory=dict)
    store: SimStore = field(default_factory=SimStore)
    overrides_file: Mapping[str, Any] | None = None
    overrides_version: int = 0
    faults_done: set[str] = field(default_factory=set)
    blind: set[str] = field(default_factory=set)
    lease_attempt: int = 0
    world_changes: list[WorldChange] = field(default_factory=list)
    pages: list[WorldChange] = field(default_factory=list)
    routes: dict[str, str] = field(default_factory=dict)
    inbox: list[RequestReading] = field(default_factory=list)
    samples: dict[int, tuple[SampleSeen, ...]] = field(default_factory=dict)
    program: Environment = PROGRAM
    specs: dict[int, Environment] = field(default_factory=dict)
    hardware: list[HardwareReading] = field(default_factory=list)
    sick: set[tuple[int, str]] = field(default_factory=set)
    room_left: float | None = None
    node_words: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.on_change: Callable[[WorldChange], None] = lambda _: None

    def ask(self, request: RequestReading) -> None:
        self.inbox.append(request)
        self.wake()

    def runs(self, attempt: int) -> Environment:
        """What the attempt runs: as it lay there at its first launch."""
        return self.specs.setdefault(attempt, self.program)

    def change_program(self, what: str) -> None:
        """Somebody edits, installs, or takes away: what lives is not touched by it."""
        self.program = CHANGES[what]

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

    def fill_disk(self, left: float, seconds: float) -> None:
        """For so long the disk has room for no more than `left` checkpoints; then somebody makes plenty."""
        self.room_left = left
        self.after(seconds, self._make_room)

    def _make_room(self) -> None:
        self.room_left = PLENTY

    def hide_checkpoints(self, seconds: float) -> None:
        """For so long no file in checkpoints/ can be read."""
        self.store.outages += 1
        self.after(seconds, self._show_checkpoints)

    def _show_checkpoints(self) -> None:
        self.store.outages -= 1

    def record_change(self, what: str, to: str, key: str = "", attempt: int = 0) -> None:
        self.world_changes.append(WorldChange(self.now_s, what, to, key, attempt))
        self.on_change(self.world_changes[-1])

    def write_overrides(self, value: Mapping[str, Any]) -> None:
        self.overrides_file = value
        self.overrides_version += 1
