"""Waits for a delivery no longer than it may take. What cannot be cut short (a resolver, a library that hangs) is left behind
in its thread; there is one such thread for a route at most, and while it hangs the route says so."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from sentinel.channels.contract import AGAIN_S
from sentinel.errors import RetryLater
from sentinel.model.amounts import time_words


class Patience:
    """Of one route; called from few threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._late: threading.Thread | None = None

    def within(self, seconds: float, work: Callable[[], str]) -> str:
        """What `work` returns or raises. Raises RetryLater when that takes longer, or when the time before still hangs."""
        if self._late is not None and self._late.is_alive():
            raise RetryLater("the delivery before this one still hangs", AGAIN_S)
        ends: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()

        def run() -> None:
            try:
                ends.put(work())
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                ends.put(error)

        thread = threading.Thread(target=run, name=f"sentinel-delivery-{self._name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no processes left, which may pass
            raise RetryLater(f"nothing can be sent now: {error}", AGAIN_S) from None
        try:
            end = ends.get(timeout=seconds)
        except queue.Empty:
            self._late = thread
            raise RetryLater(f"nothing came of it within {time_words(seconds)}", AGAIN_S) from None
        if isinstance(end, BaseException):
            raise end
        return end
