"""The stream of an attached run, written by a thread: training waits neither for a disk nor for a device.

The loop hands over what it knows and goes on. The thread waits for a step's numbers to leave the device, writes lines in the
order of the calls, and looks for overrides.json. A disk that fails costs lines, and is told on stderr once; it ends nothing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from sentinel.client.logged import SHOWN_CHARS, LeftOut, NoNumber, number_of
from sentinel.client.overrides import OverridesError
from sentinel.client.session import Session
from sentinel.client.stream import Stream

LINES_MAX = 4096  # behind a disk that stands still; then step lines are dropped
LOOK_S = 0.25  # for a change, where steps take longer
LOOK_GAP_S = 0.02
SLOTS_MAX = 64


class Slot:
    """Pinned room on the host for the numbers of one step."""

    def __init__(self) -> None:
        self._rooms: dict[str, Any] = {}
        self._event = torch.cuda.Event(blocking=True)

    def copy(self, numbers: Mapping[str, Any]) -> None:
        """Enqueue the copies behind the work that computes the numbers."""
        for name, tensor in numbers.items():
            room = self._rooms.get(name)
            if room is None or room.dtype != tensor.dtype:
                room = self._rooms[name] = torch.empty((), dtype=tensor.dtype, pin_memory=True)
            room.copy_(tensor.detach().reshape(()), non_blocking=True)
        self._event.record()

    def read(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for the copies."""
        self._event.synchronize()
        return {name: self._rooms[name].item() for name in names}


class Reporter:
    """Of rank 0. `session` None: the stream alone, and nobody asks for anything."""

    def __init__(self, stream: Stream, session: Session | None) -> None:
        self._stream, self._session = stream, session
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        self._slots = 0
        self._sent = self._done = self.dropped = 0
        self._looked_s = 0.0
        self._left_out = LeftOut()
        self._pid = os.getpid()
        self.change: dict[str, Any] | None = None  # found by the thread, taken by the loop
        self.is_broken = False
        self._device = torch.cuda.current_device() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
        self._thread = threading.Thread(target=self._work, name="sentinel-report", daemon=True)
        self._thread.start()

    # -- the loop's side -----------------------------------------------------------------------------------------------

    def post(self, write: Callable[[Stream], None]) -> None:
        """Write this behind everything before it."""
        if os.getpid() == self._pid:
            self._sent += 1
            self._queue.put(lambda: write(self._stream))

    def step(self, step: int, samples: Callable[[], list[list[int]] | None], metrics: Mapping[str, Any]) -> None:
        """One step is done. Numbers on a device are copied behind the work that computes them, without waiting for it."""
        known: dict[str, Any] = {}
        later: dict[str, Any] = {}
        for name, value in metrics.items():
            kind = type(value)
            if kind is float or kind is int:
                known[name] = value
                continue
            try:
                if not isinstance(value, (torch.Tensor, NotGathered)):
                    known[name] = number_of(value)
                elif (one := _scalar(value)).is_cuda:
                    later[name] = one
                else:
                    known[name] = number_of(one)
            except NoNumber as error:
                self.leave_out(step, name, str(error))
        if self._sent - self._done >= LINES_MAX:
            self.dropped += 1
            return
        slot = self._slot() if later else None
        if later and slot is None:
            self.dropped += 1
            return
        if slot is not None and not self._begin_copy(slot, step, later):
            slot, later = None, {}
        if self.dropped:
            self._tell_dropped(step)
        order = {name: None for name in metrics if name in known or name in later}
        done_s = time.time()

        def write() -> None:
            arrived = known
            if slot is not None:
                arrived = order | known | slot.read(later)
                self._free.put(slot)
            self._stream.step(step, samples=samples(), **arrived | {"time_s": done_s})

        self._sent += 1
        self._queue.put(write)

    def _begin_copy(self, slot: Slot, step: int, later: Mapping[str, Any]) -> bool:
        """False where a tensor cannot be copied (a sparse one): then none of them is written."""
        try:
            slot.copy(later)
        except (RuntimeError, TypeError) as error:
            self._free.put(slot)
            for name in later:
                self.leave_out(step, name, f"cannot be copied from its device ({error})")
            return False
        return True

    def leave_out(self, step: int, name: str, reason: str) -> None:
        """Say so once. Told apart here already: behind a disk that stands still nothing may wait for each step."""
        if self._left_out.is_new(name):
            self.post(lambda stream: stream.leave_out(step, name, reason))

    def _tell_dropped(self, step: int) -> None:
        count, self.dropped = self.dropped, 0
        self.post(lambda stream: stream.event("lines_dropped", step=step, count=count))

    def take_change(self) -> dict[str, Any] | None:
        change = self.change
        if change is not None:  # the thread finds another only where there is none
            self.change = None
        return change

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything before this was written, and so long at most."""
        if os.getpid() != self._pid:
            return False
        done = threading.Event()
        self._queue.put(done.set)
        return done.wait(timeout_s)

    def close(self, timeout_s: float) -> None:
        if os.getpid() == self._pid:
            self._queue.put(None)
            self._thread.join(timeout_s)

    def _slot(self) -> Slot | None:
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait()
        if self._slots >= SLOTS_MAX:
            return None
        self._slots += 1
        return Slot()

    # -- the thread's side ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        if self._device is not None:
            torch.cuda.set_device(self._device)  # else this thread would use the first GPU
        while True:
            try:
                write = self._queue.get(timeout=LOOK_S if self._session is not None else None)
                if write is None:
                    return
                try:
                    write()
                except (OSError, ValueError, TypeError, RuntimeError) as error:
                    self._complain(error)
                self._done += 1
            except queue.Empty:
                pass
            self._look()

    def _look(self) -> None:
        now_s = time.monotonic()
        if self._session is None or self.change is not None or now_s - self._looked_s < LOOK_GAP_S:
            return
        self._looked_s = now_s
        try:
            overrides = self._session.poll_overrides()
        except OverridesError as error:
            self.change = {"complaint": str(error)}
            return
        if overrides is not None:
            self.change = {"overrides": dict(overrides.raw)}

    def _complain(self, error: Exception) -> None:
        if not self.is_broken:
            self.is_broken = True
            with contextlib.suppress(OSError, ValueError):
                print(f"sentinel: a line of {self._stream.path} could not be written: {error}; training goes on", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class NotGathered:
    """In the place of a sharded tensor that could not be put together: asked again, rank 0 would wait for the others alone."""

    reason: str


def whole(value: Any) -> Any:
    """A sharded tensor put together, by all its ranks; anything else as it is."""
    try:
        return value.full_tensor() if hasattr(value, "full_tensor") else value
    except Exception as error:  # noqa: BLE001 - it is said where its number is read, and ends no training
        return NotGathered(f"cannot be put together from its ranks ({type(error).__name__}: {str(error)[:SHOWN_CHARS]})")


def _scalar(value: Any) -> Any:
    """The tensor of one number, where it is. Raises NoNumber."""
    value = whole(value)
    if isinstance(value, NotGathered):
        raise NoNumber(value.reason)
    if value.numel() != 1:
        raise NoNumber(f"is a tensor of shape {tuple(value.shape)}; reduce it to one number")
    return value
