"""Faults around the parts of a run: loader, optimizer, saver and schedule are wrapped, and the loop calls them as before.

The loop asks the loader for each step's batch, so faults of a step are injected there, before its forward pass. The optimizer's
update comes after backward, the saver writes manifests and reports commits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch

from ..checkpoint import Verified
from ..checkpoint.saving import Saved, Saver
from ..config import Config
from ..data import Batch
from ..data_order import Position
from ..faults import STEP_KINDS, Fault
from ..loss import ForwardStatistics
from ..optim import ShardedAdamW
from ..optim.statistics import UpdateStatistics
from ..run import Run
from ..saves import await_saves
from ..schedule import Schedule
from .data import PoisonedLoader
from .process import due_faults, inject_fault
from .tensors import Damage, corrupt_byte


def install_faults(run: Run, faults: tuple[Fault, ...]) -> None:
    """Wrap the parts of a run that has not begun; without faults nothing is wrapped. Faults of step 0 are injected here, before
    anything is restored. An inspection trains no step and gets none. Raises ConfigError for a fault that this run cannot have,
    and the errors of injected faults."""
    if not faults:
        return
    damage = Damage(faults, run.world.rank, run.config.numerics.precision)
    injector = Injector(run, faults)
    original = Position.first(run.config.data_seed)
    run.schedule = UnstableSchedule(run.config, faults)
    run.loader = FaultyLoader(run, original, injector, damage)
    run.optimizer = cast(ShardedAdamW, FaultyOptimizer(run.optimizer, run, damage))
    run.saver = cast(Saver, FaultySaver(run.saver, injector, damage))
    if run.session is None or run.session.spec.inspect is None:
        for fault in injector.due(0):
            inject_fault(fault, 0, run.root)


@dataclass(frozen=True)
class Injector:
    """Which faults of this rank and attempt are due, with their records under the run's root."""

    run: Run
    faults: tuple[Fault, ...]

    @property
    def attempt(self) -> int:
        return self.run.session.attempt if self.run.session is not None else 1

    def due(self, step: int, kinds: tuple[str, ...] = STEP_KINDS) -> list[Fault]:
        """Those due now; each is recorded."""
        return due_faults(
            faults=self.faults, step=step, rank=self.run.world.rank, run_dir=self.run.root, attempt=self.attempt, kinds=kinds
        )


class UnstableSchedule(Schedule):
    """`unstable` multiplies the learning rate from its step on."""

    def __init__(self, config: Config, faults: tuple[Fault, ...]) -> None:
        super().__init__(config)
        self._factors = [(fault.step or 0, fault.number("times")) for fault in faults if fault.kind == "unstable"]

    def peak_lr(self, step: int) -> float:
        return super().peak_lr(step) * math.prod(times for first, times in self._factors if step >= first)


class FaultyLoader(PoisonedLoader):
    """Poisoned data, and the faults of a step when its batch is asked for."""

    def __init__(self, run: Run, original: Position, injector: Injector, damage: Damage) -> None:
        super().__init__(run.loader.corpus, original, injector.faults, run.loader.device)
        self._run, self._injector, self._damage = run, injector, damage

    def batch(
        self, indices: tuple[int, ...], position: Position, rank: int, world_size: int, seq_len: int | None = None
    ) -> Batch:
        step = self._run.step + 1
        due = self._injector.due(step)
        if due:
            await_saves(self._run)  # what was saved before a fault is there after it, in every drill alike
        for fault in due:
            inject_fault(fault, step, self._run.root)
        self._damage.begin(due, step, self._run.optimizer)
        return super().batch(indices, position, rank, world_size, seq_len)


class FaultyOptimizer:
    """The optimizer, with its gradients and its state damaged around each update. Everything else is the optimizer's own."""

    def __init__(self, optimizer: ShardedAdamW, run: Run, damage: Damage) -> None:
        self._optimizer, self._run, self._damage = optimizer, run, damage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)

    def update(self, forward: ForwardStatistics, scale: torch.Tensor) -> UpdateStatistics:
        step = self._run.step + 1
        self._damage.after_backward(step, self._optimizer)
        statistics: UpdateStatistics = self._optimizer.update(forward, scale)
        self._damage.after_update(step, self._optimizer)
        return statistics


class FaultySaver:
    """The saver. Its manifests record lasting damage, and its checkpoints may rot once they are committed."""

    def __init__(self, saver: Saver, injector: Injector, damage: Damage) -> None:
        self._saver, self._injector, self._damage = saver, injector, damage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)

    def save(self, step: int, state: dict[str, Any], details: dict[str, Any], began_s: float | None = None) -> None:
        self._saver.save(step, state, details | self._damage.state(), began_s)
        rots = [fault for fault in self._injector.faults if fault.kind == "bit_rot"]
        if any(fault.is_due(step, self._injector.attempt) for fault in rots):
            self._saver.wait()  # it rots before the next step, whose own fault may be the end of this process

    def committed(self) -> list[Saved]:
        saves = self._saver.committed()
        for saved in saves:
            if self._injector.due(saved.step, ("bit_rot",)):
                corrupt_byte(self._injector.run.root / saved.path)
        return saves

    def continue_from(self, found: Verified) -> None:
        self._saver.continue_from(found)
        self._damage.restore(found.manifest)
