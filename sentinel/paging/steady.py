"""Something done again and again beside the loop, in a thread of its own: what hangs there delays nobody. What goes wrong is
remarked once, and again when it has been well meanwhile.

    thread = Steady("dead man", 60.0, call)
    thread.poll(now_s)        # a Source: remarks
    thread.close()            # in bounded time
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from sentinel.errors import SentinelError
from sentinel.remarks import Remarks

CLOSE_S = 8.0


class Steady(Remarks):
    """`work` is called every `every_s`, at once to begin with; `farewell` once, when it is closed."""

    def __init__(
        self, name: str, every_s: float, work: Callable[[], None], farewell: Callable[[], None] | None = None
    ) -> None:
        super().__init__()
        self.name = name
        self._every_s = every_s
        self._work = work
        self._farewell = farewell
        self._is_well = True
        self._closing = threading.Event()
        self._has_parted = farewell is None
        self._thread = threading.Thread(target=self._run, name=f"sentinel-{name.replace(' ', '-')}", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Come to an end, without being waited for."""
        self._closing.set()

    def close(self, within_s: float | None = None) -> bool:
        """Come to an end within CLOSE_S, or so long; whether the farewell went well, where there is one. Safe to call twice."""
        self._closing.set()
        self._thread.join(CLOSE_S if within_s is None else within_s)
        return self._has_parted

    def _run(self) -> None:
        while True:
            self._do(self._work)
            if self._closing.wait(self._every_s):
                break
        if self._farewell is not None:
            self._has_parted = self._do(self._farewell)

    def _do(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except (SentinelError, OSError) as error:
            self._complain(str(error))
        except Exception as bug:  # noqa: BLE001 - a bug here must not end the thread without a word
            self._complain(f"internal error: {type(bug).__name__}: {bug}")
        else:
            self._is_well = True
            return True
        return False

    def _complain(self, what: str) -> None:
        if self._is_well:
            self.say(self.name, what)
        self._is_well = False
