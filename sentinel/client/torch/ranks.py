"""How all ranks of an attached run learn the same at the same step.

Rank 0 hears of changes. Once a step every rank starts a reduction of a few flags on a gloo group of its own, and collects the one
that it started a step before: the exchange overlaps a whole step, and nobody waits for it. What was found is sent to the others
only when there is something. The flags of step N are therefore acted upon at the end of step N + 1, on all ranks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from sentinel.client.torch.tuning import AttachError


@dataclass(frozen=True)
class Agreed:
    """What every rank knows now. `change`: overrides.json as it was written, or the complaint about it. `doubted`: on one of them
    what is read inside of `settings` proves nothing (steps_seen.py)."""

    change: dict[str, Any] | None = None
    stop: bool = False
    lost: bool = False
    doubted: bool = False


class Alone:
    """One rank: what is known is known to all."""

    rank, size = 0, 1

    def meet(self, change: dict[str, Any] | None, stop: bool, lost: bool, doubted: bool) -> Agreed:
        return Agreed(change, stop, lost, doubted)

    def last(self) -> Agreed:
        """What is still under way at the end."""
        return Agreed()

    def from_first(self, value: Any) -> Any:
        """Rank 0's value, on all."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """Everybody's, by rank. A barrier as well."""
        return [value]

    def add_up(self, values: list[float]) -> list[float]:
        return values


class Together(Alone):
    """Several. Every rank makes the same calls in the same order."""

    def __init__(self) -> None:
        self._dist = torch.distributed
        self.rank, self.size = self._dist.get_rank(), self._dist.get_world_size()
        self._group = self._dist.new_group(backend="gloo")
        self._flags = torch.zeros(4, dtype=torch.int64)
        self._values = self._flags.numpy()  # the same memory
        self._change: dict[str, Any] | None = None
        self._pending: Any = None

    def meet(self, change: dict[str, Any] | None, stop: bool, lost: bool, doubted: bool) -> Agreed:
        agreed = self.last()
        if change is not None:
            self._change = change
        self._values[:] = (self._change is not None, stop, lost, doubted)
        self._pending = self._dist.all_reduce(self._flags, self._dist.ReduceOp.MAX, group=self._group, async_op=True)
        return agreed

    def last(self) -> Agreed:
        pending, self._pending = self._pending, None
        if pending is None:
            return Agreed()
        pending.wait()
        changed, stop, lost, doubted = map(bool, self._values.tolist())
        change = None
        if changed:
            change, self._change = self.from_first(self._change), None
        return Agreed(change, stop, lost, doubted)

    def from_first(self, value: Any) -> Any:
        held = [value]
        self._dist.broadcast_object_list(held, src=0, group=self._group)
        return held[0]

    def gather(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        self._dist.all_gather_object(found, value, group=self._group)
        return found

    def add_up(self, values: list[float]) -> list[float]:
        sums = torch.tensor(values, dtype=torch.float64)
        self._dist.all_reduce(sums, group=self._group)
        return [float(value) for value in sums.tolist()]


def meet_ranks() -> Alone:
    """The ranks of torch.distributed where it is initialised; every rank calls it. Raises AttachError where there are others that
    nobody can reach."""
    is_up = torch.distributed.is_available() and torch.distributed.is_initialized()
    if is_up and torch.distributed.get_world_size() > 1:
        return Together()
    rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if (rank, size) != ("0", "1"):
        raise AttachError(
            f"attach(): RANK={rank}, WORLD_SIZE={size}, and torch.distributed is not initialised: every rank would take itself "
            "for the only one. Call torch.distributed.init_process_group first"
        )
    return Alone()
