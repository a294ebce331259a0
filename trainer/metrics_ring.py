"""A ring of buffers that carries each step's numbers from the device to the writer, in order, without blocking the loop.

On a GPU: a ring of pinned host buffers. The loop enqueues a copy and an event and goes on; a thread waits for the events one
after another and hands over what has arrived. The loop waits only when the ring is full, that is when the device (or the disk
behind the thread) is DEPTH steps behind; that also bounds how far the host runs ahead. On a CPU the numbers are there once they
are computed, and a thread would only take a core from the training: everything is handed over at once, by the training thread.

What has no numbers (an event, the end) goes the same way, so that the order is that of the calls.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import torch

DEPTH = 8  # steps a device may be behind the host: 2 s of a disk that hesitates at 0.25 s a step
CLOSE_TIMEOUT_S = 1.0  # on the way out of an error: a device that hangs never answers, and a keeper waits 2 s

OnArrival = Callable[[list[float], float], None]
"""The numbers of a step, and the seconds from its beginning to its end by the device's own clock."""


class TimingEvent(Protocol):
    """A point in the work of the device, as torch.cuda.Event is."""

    def record(self) -> None: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, end: Any) -> float: ...


class WallClockEvent:
    """On a CPU: work is done when the call returns. Milliseconds, as torch.cuda.Event has them."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def record(self) -> None:
        self.at_s = time.perf_counter()

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: WallClockEvent) -> float:
        return (end.at_s - self.at_s) * 1e3


def device_event() -> TimingEvent:
    """Blocking: the thread that waits for it sleeps, and leaves the processor to the loop."""
    event: TimingEvent = torch.cuda.Event(enable_timing=True, blocking=True)
    return event


class Slot:
    """A host buffer for the numbers of one step, and when that step began and ended."""

    def __init__(self, event: Callable[[], TimingEvent], is_pinned: bool) -> None:
        self.began, self.done = event(), event()
        self._is_pinned = is_pinned
        self._host = torch.empty(0, dtype=torch.float64)

    def fill(self, values: torch.Tensor) -> None:
        """Enqueue the copy of `values`, float64 (count,), behind the work that computes them."""
        if self._host.numel() != values.numel():
            self._host = torch.empty(values.numel(), dtype=torch.float64, pin_memory=self._is_pinned)
            self._array = self._host.numpy()
        self._host.copy_(values, non_blocking=True)
        self.done.record()

    def read(self) -> tuple[list[float], float]:
        """Wait for the copy; the numbers and the step's seconds."""
        self.done.synchronize()
        return self._array.tolist(), self.began.elapsed_time(self.done) / 1e3


class MetricsRing:
    """One of each rank; every rank's has the same lag, so that what is decided from its numbers is decided alike everywhere.

    `begin`, `fill`, `send` once a step from the loop's thread; `post` from any. An error of a callback (a folder that may not be
    written) is raised by the next call, and no callback runs after it.
    """

    def __init__(self, device: torch.device, depth: int = DEPTH, event: Callable[[], TimingEvent] | None = None) -> None:
        """`event`: for tests, of a simulated device; a thread then runs the callbacks as on a GPU."""
        on_gpu = device.type == "cuda"
        threaded = on_gpu or event is not None
        self.lag = depth if threaded else 0  # at the end of step N everything up to step N - lag has been handed over
        new_event = event or (device_event if on_gpu else WallClockEvent)
        self._device = device
        self._slots = [Slot(new_event, is_pinned=on_gpu) for _ in range(max(1, self.lag))]
        self._sent = self._arrived = self._posted = self._done = 0
        self._queue: deque[tuple[Slot | None, Callable[..., None]]] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="telemetry", daemon=True) if threaded else None
        if self._thread is not None:
            self._thread.start()

    def begin(self) -> None:
        """A step begins. Waits while the ring is full."""
        if self._thread is not None:
            with self._changed:
                self._changed.wait_for(lambda: self._error is not None or self._sent - self._arrived < len(self._slots))
                self._check()
        self._slot.began.record()

    def fill(self, values: torch.Tensor) -> None:
        """The step's device work is enqueued up to here, and these are its numbers: float64 (count,)."""
        self._slot.fill(values)

    def send(self, on_arrival: OnArrival) -> None:
        """Call `on_arrival` with the step's numbers once they have arrived."""
        slot = self._slot
        self._sent += 1
        self._hand_over(slot, on_arrival)

    def post(self, action: Callable[[], None]) -> None:
        """Do this behind everything that was sent or posted before."""
        self._hand_over(None, action)

    def drain(self) -> None:
        """Wait for the device and until every callback has run."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._done == self._posted)
            self._check()

    def close(self) -> None:
        """Run the remaining callbacks, and end."""
        self.drain()
        self.abandon()

    def abandon(self) -> None:
        """End without an error, even where the device hangs: what arrives within CLOSE_TIMEOUT_S is handed over, the rest is
        lost."""
        if self._thread is None or self._is_closing:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._done == self._posted, CLOSE_TIMEOUT_S)
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(CLOSE_TIMEOUT_S)

    @property
    def _slot(self) -> Slot:
        return self._slots[self._sent % len(self._slots)]

    def _hand_over(self, slot: Slot | None, action: Callable[..., None]) -> None:
        with self._changed:
            self._check()
            self._posted += 1
            if self._thread is None:
                self._do(slot, action)
                self._count(slot)
                self._check()
            else:
                self._queue.append((slot, action))
                self._changed.notify_all()

    def _do(self, slot: Slot | None, action: Callable[..., None]) -> None:
        try:
            action() if slot is None else action(*slot.read())
        except BaseException as error:  # noqa: BLE001 - raised by the loop's next call, whichever thread this is
            self._error = error

    def _count(self, slot: Slot | None) -> None:
        self._done += 1
        self._arrived += slot is not None

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)  # else this thread would open a context of its own on the first GPU
        while self._error is None:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing or self._queue)
                if self._is_closing:
                    return
                slot, action = self._queue.popleft()
            self._do(slot, action)
            with self._changed:
                self._count(slot)
                self._changed.notify_all()
