"""A daemon with doubles at every edge, for the tests of its rounds and of the loop that drives them."""

from __future__ import annotations

from sentinel.engine import Engine
from sentinel.model.attempts import Exited
from sentinel.model.events import SupervisorStarted
from sentinel.model.readings import Heartbeat, LauncherReading, Receipt, StepReading
from sentinel.supervisor.daemon import Daemon
from tests.builders import build_policy, read_step, report_of
from tests.fakes import GivenTelemetry, HeldRunner, ManualClock, MemoryLog

STARTED = SupervisorStarted(1, "here", 1, "run", ("train",), "/", "bench", "0", False)


INIT = Heartbeat(1, 0, 0, "init", 0.0)  # a trainer that speaks the contract


class Loop:
    """A daemon with doubles at every edge."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log = log or MemoryLog()
        self.runner, self.telemetry, self.clock = HeldRunner(), GivenTelemetry(), ManualClock()
        self.engine = Engine(build_policy())
        self.engine.restore(self.log.entries)
        self.daemon = Daemon(self.engine, self.log, self.telemetry, self.runner, 1)

    def with_paging(self, paging: dict[str, object]) -> Loop:
        self.engine = Engine(build_policy(paging=paging))
        self.daemon = Daemon(self.engine, self.log, self.telemetry, self.runner, 1)
        return self

    def start(self) -> Loop:
        self.daemon.start(self.clock.now_s(), STARTED)
        return self

    def turn(self) -> float:
        return self.daemon.turn(self.clock.now_s())

    def launched(self) -> Loop:
        self.start().runner.done("start/1")
        self.turn()
        self.telemetry.batches.append([Receipt(1, 0.0, 0, None, 2, {}, {})])
        self.turn()
        return self

    def crash(self) -> Loop:
        self.telemetry.batches.append([read_step(1, 1), LauncherReading(Exited(1, report_of(signal=9)))])
        self.turn()
        return self


class Story:
    """A narrator that remembers the steps it was told."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.turns = 0

    def facts(self, entries: object, engine: Engine) -> None: ...

    def step(self, reading: StepReading) -> None:
        self.steps.append(reading.step)

    def turn(self, now_s: float, engine: Engine) -> None:
        self.turns += 1
