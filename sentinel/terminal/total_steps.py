"""How many steps a run is to train, as its receipt says; read beside the loop, which must not wait for a file."""

from __future__ import annotations

import threading
from pathlib import Path

from sentinel.run_files.stream import read_total_steps

WAIT_S = 0.25  # an ordinary disk answers within it, and then the first line says it already


class TotalSteps:
    """Asked from one thread. `run_dir` None: nothing is known."""

    def __init__(self, run_dir: Path | None) -> None:
        self._run_dir = run_dir
        self._asked: int | None = None
        self._known: int | None = None

    def of(self, attempt: int) -> int | None:
        """What is known by now. Each attempt is looked at once; one that says nothing leaves what the one before said."""
        run_dir = self._run_dir
        if run_dir is None or attempt == self._asked:
            return self._known
        self._asked = attempt

        def read() -> None:
            total = read_total_steps(run_dir, attempt)
            if total is not None and self._asked == attempt:
                self._known = total

        thread = threading.Thread(target=read, name="terminal: total steps", daemon=True)
        thread.start()
        thread.join(WAIT_S)
        return self._known
