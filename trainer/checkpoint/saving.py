"""Asynchronous saves: the training loop waits for a copy, and a thread writes, checks and commits it.

One thread a rank does the saves in the order in which they were asked for, over a gloo group that nothing else uses meanwhile
(torch's async_save on the group of training crashes there). So each knows what was committed before it, and what is in the
manifest is what was true when it was asked for.
"""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from sentinel.client import Session
from sentinel.client.file_digest import TREE, best_of

from ..config.sections import Checkpoint
from ..world import World
from .retention import Retention
from .verifying import Verified, name_of
from .writing import rng_streams, write

IN_FLIGHT_MAX = 2


@dataclass(frozen=True)
class Saved:
    """A commit. `path` is relative to the run's root; `seconds` from the request to the commit, `blocked_s` of them in which the
    training loop stood still; `pruned`: the steps deleted after it."""

    step: int
    path: str
    digest: str
    seconds: float
    blocked_s: float = 0.0
    pruned: tuple[int, ...] = ()


class HostCopy:
    """Room for one state in the host's memory, kept from save to save: pages are mapped, and pinned, once. (Measured on a CPU: a
    copy into mapped pages takes a third to a tenth of a fresh clone.)

    As large as this rank's part of parameters and both moments: 12 bytes for each of its parameters.
    """

    def __init__(self, device: torch.device) -> None:
        self._pinned = device.type == "cuda"
        self._held: dict[str, torch.Tensor] = {}
        self._copied: torch.cuda.Event | None = None

    @torch.no_grad()
    def fill(self, state: dict[str, Any]) -> None:
        """Copy in the order of the device's stream. Work queued later may change `state` in place; the host does not wait."""
        for name, value in state.items():
            if name not in self._held:
                self._held[name] = torch.empty_like(value, device="cpu", pin_memory=self._pinned)
            _local(self._held[name]).copy_(_local(value), non_blocking=self._pinned)
        if self._pinned:
            self._copied = torch.cuda.Event(blocking=True)
            self._copied.record()

    def state(self) -> dict[str, torch.Tensor]:
        """The copy, once it is there: on a GPU this waits for the device, so it is for the thread that writes."""
        if self._copied is not None:
            self._copied.synchronize()
        return self._held


@dataclass
class _Pending:
    """A save under way. `blocked_s`: how long the training loop stood still for it."""

    future: Future[Saved]
    host_copy: HostCopy | None
    blocked_s: float = 0.0


class Saver:
    """Of one rank; every rank calls `save` and `wait` at the same steps."""

    def __init__(
        self,
        root: Path,
        world: World,
        may_commit: Callable[[], bool],
        *,
        asynchronous: bool = True,
        retention: Retention | None = None,
        algorithm: str = TREE,
    ) -> None:
        """`may_commit` is asked on rank 0 before each commit. `retention` None: nothing is ever deleted. `algorithm`:
        of the digests in manifests."""
        self.newest: int | None = None  # step of the newest checkpoint of this lineage, in flight or committed
        self._root, self._world, self._may_commit, self._retention = root, world, may_commit, retention
        self._algorithm = algorithm
        self._parent: dict[str, Any] | None = None  # the newest committed one; the writing thread's own once there are saves
        self._free = [HostCopy(world.device) for _ in range(IN_FLIGHT_MAX)] if asynchronous else []
        self._pending: deque[_Pending] = deque()
        self._ended: list[Saved] = []
        self._broken: BaseException | None = None
        use_device = partial(torch.cuda.set_device, world.device) if world.device.type == "cuda" else None
        # A new thread would use the first GPU otherwise.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint", initializer=use_device)
        self._asynchronous = asynchronous

    @classmethod
    def for_run(cls, settings: Checkpoint, root: Path, session: Session | None, world: World) -> Saver:
        """Under a supervisor the lease is asked before each commit, and nothing is deleted."""
        if session is not None:
            algorithm = best_of(session.spec.reads_digests)
            return cls(root, world, session.may_commit, asynchronous=settings.asynchronous, algorithm=algorithm)
        retention = Retention(settings.keep_last, settings.keep_every)
        return cls(root, world, lambda: True, asynchronous=settings.asynchronous, retention=retention)

    def continue_from(self, found: Verified) -> None:
        """The run continues from this checkpoint: it is the parent of the next one."""
        self.newest = found.step
        self._parent = {"step": found.step, "path": f"checkpoints/{found.path.name}", "digest": found.digest}

    @property
    def parent(self) -> dict[str, Any] | None:
        """The newest checkpoint of this lineage that is committed. Ask when nothing is in flight."""
        assert not self._pending
        return self._parent

    def save(self, step: int, state: dict[str, Any], details: dict[str, Any], began_s: float | None = None) -> None:
        """Save `state` and this rank's random streams as they are now, with `details` in the manifest.

        Returns when training may go on: at once after a copy, or where two saves are in flight after the older one. `began_s`:
        on time.perf_counter, when the loop began to wait. Raises the error of an earlier save; without `asynchronous`, what
        ends this one.
        """
        began_s = time.perf_counter() if began_s is None else began_s
        details, streams = copy.deepcopy(details), rng_streams(self._world)
        while len(self._pending) >= IN_FLIGHT_MAX:
            self._end_oldest()
        host_copy = None
        if self._asynchronous:
            host_copy = self._free.pop()
            host_copy.fill(state)
        self.newest = step
        future = self._thread.submit(self._write, step, began_s, host_copy, state, details, streams)
        pending = _Pending(future, host_copy)
        self._pending.append(pending)
        if not self._asynchronous:
            future.exception()  # waits
        pending.blocked_s = time.perf_counter() - began_s
        if not self._asynchronous:
            self._end_oldest()

    @property
    def in_flight(self) -> bool:
        return bool(self._pending)

    @property
    def failed(self) -> bool:
        """Whether a save in flight is known to have failed. The ranks learn of it at different moments: let them agree, then
        `wait`."""
        return any(save.future.done() and save.future.exception() is not None for save in self._pending)

    def committed(self) -> list[Saved]:
        """Those committed since it was last asked, oldest first. Never waits, and leaves a failure to `wait`."""
        while self._pending and self._pending[0].future.done() and self._pending[0].future.exception() is None:
            self._end_oldest()
        ended, self._ended = self._ended, []
        return ended

    def wait(self) -> None:
        """Wait until no save is in flight. Raises SaveError, LeaseLostError, or the error of the oldest save that failed."""
        while self._pending:
            self._end_oldest()

    def _end_oldest(self) -> None:
        oldest = self._pending[0]
        saved = oldest.future.result()
        self._pending.popleft()
        if oldest.host_copy is not None:
            self._free.append(oldest.host_copy)
        # A small save may be committed before the loop has read its clock.
        self._ended.append(replace(saved, blocked_s=oldest.blocked_s, seconds=max(saved.seconds, oldest.blocked_s)))

    def _write(
        self,
        step: int,
        began_s: float,
        host_copy: HostCopy | None,
        state: dict[str, Any],
        details: dict[str, Any],
        streams: dict[str, torch.Tensor],
    ) -> Saved:
        """In the thread. After a failure nothing more is written: the lineage would have a gap, and on all ranks alike."""
        if self._broken is not None:
            raise self._broken
        try:
            whole = details | {"parent": self._parent}
            held = state if host_copy is None else host_copy.state()
            digest = write(self._root, step, self._world, held, streams, whole, self._may_commit, self._algorithm)
            path = f"checkpoints/{name_of(step)}"
            self._parent = {"step": step, "path": path, "digest": digest}
            seconds = time.perf_counter() - began_s
            pruned = self._prune(step)
        except BaseException as error:
            self._broken = error
            raise
        return Saved(step, path, digest, seconds, pruned=pruned)

    def _prune(self, step: int) -> tuple[int, ...]:
        if self._retention is None or self._world.rank != 0:
            return ()
        try:
            return tuple(self._retention.prune(self._root / "checkpoints", step))
        except OSError:  # what could not be deleted is tried again after the next commit
            return ()


def _local(value: torch.Tensor) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value
