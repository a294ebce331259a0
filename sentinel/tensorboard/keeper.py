"""The boards of a living run, kept by a thread of their own: a disk that hangs hangs them, and nobody else.

The thread looks at the run's newest state, which never changes but is replaced, and the loop passes on what it has to say. What
goes wrong with a board is remarked once, tried again a minute later, and never in the way of a recovery.

    boards = open_boards(run_dir, lambda: engine.state)
    boards.poll(now_s)             # a Source: remarks
    boards.close()
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sentinel.client.run_layout import TENSORBOARD
from sentinel.model.amounts import time_words
from sentinel.model.readings import Reading
from sentinel.model.state import RunState
from sentinel.remarks import Remarks
from sentinel.telemetry.source import describe_os_error
from sentinel.tensorboard.board import Board, begun_attempts

SOURCE = "tensorboard"
EVERY_S = 2.0
PAUSE_S = 0.02  # between two pieces of a long past: the loop needs the processor too
AGAIN_S = 60.0
CLOSE_S = 10.0


class BoardKeeper(Remarks):
    """`close` must be called before the run's lock is given back: two writers would undo each other's work."""

    def __init__(self, run_dir: Path, latest: Callable[[], RunState], every_s: float = EVERY_S) -> None:
        """`latest`: how the run stands; called from the thread."""
        super().__init__()
        self._run_dir = run_dir
        self._latest = latest
        self._every_s = every_s
        self._drawn: RunState | None = None
        self._closing = threading.Event()
        self._is_late = False
        self._has_complained = False
        self._thread = threading.Thread(target=self._work, name="sentinel-boards", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Draw what is left, for CLOSE_S at most, and report what is not drawn by then. Safe to call twice. A supervisor whose
        journal was blocked goes on in this process with another keeper, so a thread that is late leaves off after its piece."""
        self._closing.set()
        self._thread.join(CLOSE_S)
        self._is_late = True
        if self._thread.is_alive() or self._drawn is not self._latest():
            with suppress(OSError, ValueError):
                words = f"{self._run_dir}: its TensorBoard is not complete; `sentinel tensorboard {self._run_dir}` completes it"
                print(words, file=sys.stderr)

    def _work(self) -> None:
        """Until it is closed; then once more, so that the last steps are there."""
        board: Board | None = None
        wait_s, is_last = self._every_s, False
        while not (is_last or self._is_late):
            is_last = self._closing.wait(wait_s)
            state = self._latest()
            try:
                board = board or Board(self._run_dir)
                has_more = board.advance(begun_attempts(state), state.incidents, state.created_s)
            except OSError as error:
                self._complain(describe_os_error(error, self._run_dir / TENSORBOARD))
            except Exception as bug:  # noqa: BLE001 - a bug here may cost the charts, and must not end in silence
                self._complain(f"{type(bug).__name__}: {bug}")
            else:
                wait_s = PAUSE_S if has_more else self._every_s
                is_last = is_last and not has_more
                self._drawn = self._drawn if has_more else state
                continue
            if board is not None:
                board.close()
            board, wait_s = None, AGAIN_S
        if board is not None:
            board.close()

    def _complain(self, what: str) -> None:
        if self._has_complained:
            return
        self._has_complained = True
        again = f"tried again every {time_words(AGAIN_S)}, `sentinel tensorboard` mends them later"
        words = f"the charts cannot be kept up: {what}; {again}"
        self.say(SOURCE, words)


class NoBoards:
    """`sentinel run --no-tensorboard`."""

    has_more = False

    def poll(self, now_s: float) -> list[Reading]:
        del now_s
        return []

    def close(self) -> None: ...


def open_boards(run_dir: Path, latest: Callable[[], RunState], is_wanted: bool = True) -> BoardKeeper | NoBoards:
    return BoardKeeper(run_dir, latest) if is_wanted else NoBoards()
