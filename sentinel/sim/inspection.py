"""The simulated trainer asked to look at samples (spec.json `inspect`): loss and gradient norm of each, nothing trained.

It takes its time, may be killed, hang or leave with a code (a fault of step 0 that names its attempt), and a `deaf` one trains
instead, as a trainer would that does not know the word.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from signal import SIGKILL, SIGSTOP

from sentinel.actions.inspection import SampleSource
from sentinel.errors import GiveUp
from sentinel.launcher.spec_file import overrides_to_json
from sentinel.model.attempts import AttemptSpec
from sentinel.model.records import SampleSeen
from sentinel.sim.data_order import sequence_of
from sentinel.sim.fault_injector import FaultInjector
from sentinel.sim.faults import SAMPLE
from sentinel.sim.learning import HEALTHY, noise
from sentinel.sim.machine import ScheduledEvent
from sentinel.sim.processes import Job
from sentinel.sim.settings import SimSettings
from sentinel.sim.shape import Shape
from sentinel.sim.trainer import INTERRUPTS, PEER_LOST_S, SimTrainer
from sentinel.sim.world import World

SAMPLE_S = 0.004
SAMPLE_NOISE, NORM_NOISE = 0.12, 0.3  # of single samples; a batch of 16 has a quarter of it, as `learning.Curve` says
POISON_NORM = 4.0

MakeJob = Callable[[AttemptSpec], Job | None]


class SimInspection:
    """One inspection's program. What it wrote lies in `world.samples`, under its attempt, once it is whole."""

    def __init__(self, world: World, shape: Shape, injector: FaultInjector, spec: AttemptSpec) -> None:
        self.world = world
        self.shape = shape
        self.spec = spec
        self._injector = injector
        self._pending: ScheduledEvent | None = None

    def begin(self, job: Job) -> None:
        self.job = job
        self._pending = self.world.after(self.shape.startup_s, self._inspect)

    def on_signal(self, rank: int, number: int) -> bool:
        del rank, number
        return False

    def on_death(self, rank: int) -> None:
        del rank
        if self._pending is not None:
            self._pending.cancel()
        self._pending = None

    def on_peer_lost(self, rank: int) -> None:
        self.world.after(PEER_LOST_S, lambda: self.job.leave(rank, 1, "RuntimeError: connection closed by peer"))

    def _inspect(self) -> None:
        for fault in self._injector.due(0, self.spec.attempt):
            rank = int(fault.options.get("rank", "0")) % self.shape.ranks
            if fault.kind in ("kill", "hang"):
                self.job.send(self.job.rank_process(rank).pid, SIGKILL if fault.kind == "kill" else SIGSTOP)
                return
            if fault.kind in INTERRUPTS:
                self.job.leave(rank, int(fault.options.get("code", "1")), f"InjectedCrash: {fault.text}")
                return
        seen = self._measure()
        self._pending = self.world.after(SAMPLE_S * len(seen), lambda: self._write(seen))

    def _write(self, seen: tuple[SampleSeen, ...]) -> None:
        self.world.samples[self.spec.attempt] = seen
        for rank in self.job.living_ranks:
            self.job.leave(rank, 0)

    def _measure(self) -> tuple[SampleSeen, ...]:
        """With the weights, the cursor and the skip list of the checkpoint, and the overrides of the launch."""
        asked, settings = self.spec.resume, SimSettings(self.shape.checkpoint_every)
        found = self.world.store.choose_resume(asked.step, asked.digest) if asked is not None else None
        step, cursor, weights = (found.step, found.cursor, found.weights) if found else (0, 0, HEALTHY)
        if found is not None:
            settings.skip, settings.orders = found.skip, found.orders
        settings.apply(overrides_to_json(self.spec.overrides, self.spec.attempt), cursor)
        wanted = (i for span in self.spec.inspect or () for i in range(max(span.start, cursor), span.end))
        indices = [index for index in wanted if not any(start <= index < end for start, end in settings.skip)]
        excess = weights.excess(step + 1)
        return tuple(self._seen(index, sequence_of(index, settings.orders), step + 1, excess) for index in indices)

    def _seen(self, index: int, sequence: int, step: int, excess: float) -> SampleSeen:
        curve = self.shape.curve
        level = curve.floor + curve.height / (1.0 + step / curve.halved_at)
        loss = level * (1.0 + SAMPLE_NOISE * noise(curve.seed + 3, sequence)) + excess
        norm = (0.5 + 1.0 / (1.0 + step / curve.halved_at)) * math.exp(NORM_NOISE * noise(curve.seed + 4, sequence))
        for fault in self._injector.faults:
            if fault.place == SAMPLE and fault.at <= sequence < fault.behind:
                loss, norm = max(loss, fault.number("loss") + excess), norm * POISON_NORM
        return SampleSeen(index, loss, norm, f"shard-{sequence // 1024:03d}", sequence % 1024)


def with_inspections(make_job: MakeJob, world: World, shape: Shape, injector: FaultInjector) -> MakeJob:
    """`make_job`, and inspections for specs that ask for them."""

    def make(spec: AttemptSpec) -> Job | None:
        if spec.inspect is None:
            return make_job(spec)
        deaf = any(fault.kind == "deaf" and fault.attempt == spec.attempt for fault in injector.faults)
        program = SimTrainer(world, shape, injector, spec) if deaf else SimInspection(world, shape, injector, spec)
        return Job(world, spec.attempt, program, shape.ranks)

    return make


def sample_source(world: World) -> SampleSource:
    """How a simulated supervisor sees what an inspection did."""

    def trains(attempt: int) -> bool:
        job = world.jobs.get(attempt)
        return job is not None and isinstance(job.program, SimTrainer) and bool(job.program.output.stream)

    def samples(attempt: int) -> tuple[SampleSeen, ...]:
        if attempt not in world.samples:
            raise GiveUp(f"attempts/{attempt:04d}/samples.jsonl: cannot be read: the trainer wrote nothing about the samples")
        return world.samples[attempt]

    return SampleSource(trains, samples)
