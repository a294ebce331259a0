"""Live changes: the settings in force, and how all ranks make the same decision at the same step.

Rank 0 polls overrides.json at most once a step. Flags (a change was found, a rank got SIGTERM, a save failed) are reduced over a
gloo group of their own. The reduction starts behind the backward pass and is collected at the start of the next step, so it
overlaps the update. Rank 0 broadcasts the change itself only where there is one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
import torch.distributed as dist

from sentinel.client import LAPSING, Overrides, OverridesError, Session

from .config import Config
from .optim import Hyperparameters
from .schedule import Schedule
from .world import World


@dataclass(frozen=True)
class LiveSettings:
    """The settings that can change live, a field each, named as in `sentinel/client/settings.py`. To add one: its field, its
    value in `configured`, its use where it acts, and a reason in `idle_settings` where it acts on nothing. `until`: key → first
    step at which it is the configured one again."""

    lr_scale: float
    clip_norm: float
    weight_decay: float | None  # None: the schedule's
    betas: tuple[float, float]
    eps: float
    embed_grad_scale: float
    checkpoint_interval: int
    until: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def configured(cls, config: Config) -> LiveSettings:
        optim = config.optim
        return cls(
            lr_scale=1.0,
            clip_norm=optim.clip_norm,
            weight_decay=None,
            betas=optim.betas,
            eps=optim.eps,
            embed_grad_scale=config.stability.embedding_grad_shrink,
            checkpoint_interval=config.checkpoint.every,
        )

    def overridden(self, overrides: Overrides, configured: LiveSettings, idle: Collection[str] = ()) -> LiveSettings:
        """A missing key leaves its setting, null makes it the configured one. `idle`: keys that are left as they are."""
        able = [key for key in LIVE if key not in idle]
        named = [key for key in able if key in overrides.given]
        values = {key: getattr(overrides, key) for key in named}
        values = {key: getattr(configured, key) if value is None else value for key, value in values.items()}
        until = {key: step for key, step in self.until.items() if key not in named}
        until |= {key: step for key, step in overrides.until.items() if key in able}
        return replace(self, **values, until=until)

    def at(self, step: int, configured: LiveSettings) -> LiveSettings:
        """Those in force at a step: lapsed ones replaced by the configured ones."""
        lapsed = {key: getattr(configured, key) for key, end in self.until.items() if step >= end}
        return replace(self, **lapsed, until={key: end for key, end in self.until.items() if step < end})

    def differing(self, other: LiveSettings) -> list[str]:
        """Names of the settings that are not equal, `until` aside."""
        return [key for key in LIVE if getattr(self, key) != getattr(other, key)]

    def hyperparameters(self, schedule: Schedule, step: int) -> Hyperparameters:
        decay = schedule.weight_decay(step) if self.weight_decay is None else self.weight_decay
        return Hyperparameters(
            lr=schedule.lr(step) * self.lr_scale, clip_norm=self.clip_norm, weight_decay=decay, betas=self.betas, eps=self.eps
        )


LIVE = tuple(entry.name for entry in fields(LiveSettings) if entry.name != "until")


def unknown_settings(overrides: Overrides) -> list[str]:
    """Settings that are asked for and that this trainer does not have: those of a newer `sentinel.client`."""
    return [key for key in LAPSING if key not in LIVE and getattr(overrides, key) is not None]


def idle_settings(config: Config) -> dict[str, str]:
    """Settings that act on nothing under this configuration, and why. A live change of one is refused; it reads back as null."""
    precision = config.numerics.precision
    return {} if precision == "fp16" else {"loss_scale": f"{precision} has no loss scale"}


@dataclass(frozen=True)
class Decision:
    """What all ranks do before the next step."""

    overrides: Overrides | None = None
    unreadable: str | None = None  # why a changed overrides.json cannot be applied
    stop_signal: bool = False
    save_failed: bool = False  # a save behind training has failed on one rank at least


class Control:
    """One per rank. Call `offer` once a step and `decide` before the next one, on every rank alike."""

    def __init__(self, world: World, session: Session | None, save_failed: Callable[[], bool] = lambda: False) -> None:
        self._world = world
        self._save_failed = save_failed
        self._session = session
        self._signalled = False
        self._offered: list[Any] = [None, None]  # overrides.json as it was written, or the complaint about it
        self._flags = torch.zeros(3, dtype=torch.int64)
        self._flag_values = self._flags.numpy()  # the same host memory: reading it waits for no device
        self._pending: dist.Work | None = None
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, *_: object) -> None:
        self._signalled = True

    def offer(self) -> None:
        """Poll for a change (rank 0), and start the reduction of the flags in the background."""
        assert self._pending is None
        if self._world.rank == 0 and self._session is not None and self._offered == [None, None]:
            try:
                overrides = self._session.poll_overrides()
                self._offered = [None if overrides is None else dict(overrides.raw), None]
            except OverridesError as error:
                self._offered = [None, str(error)]
        self._flags[0] = self._offered != [None, None]
        self._flags[1] = self._signalled
        self._flags[2] = self._save_failed()
        self._pending = dist.all_reduce(self._flags, dist.ReduceOp.MAX, group=self._world.control, async_op=True)

    def decide(self) -> Decision:
        """Collect what `offer` started. The same answer on every rank."""
        assert self._pending is not None
        self._pending.wait()
        self._pending = None
        changed, stop, failed = map(bool, self._flag_values.tolist())
        if not changed:
            return Decision(stop_signal=stop, save_failed=failed)
        dist.broadcast_object_list(self._offered, src=0, group=self._world.control)
        raw, complaint = self._offered
        self._offered = [None, None]
        overrides = None if raw is None else Overrides.from_json(raw, "overrides.json")
        return Decision(overrides, complaint, stop, failed)
