"""Starts the keeper of a reserve from a thread that has the priority and the processors of the ranks.

On Linux both belong to a thread, and what it starts inherits them. The supervisor's loop stands back behind the ranks; a reserve
that it started itself would stand back for ever, since nobody but root gets a priority back.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable

StartThread = Callable[[Callable[[], None], str], threading.Thread]  # what it runs, and its name
NAME = "reserve's starter"


def start_apart(words: list[str], environment: dict[str, str], kept: int, start_thread: StartThread | None) -> None:
    """`kept`: the open file that it inherits. `start_thread`: None starts a thread like this one. Raises OSError."""
    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            starter = subprocess.Popen(
                words, env=environment, pass_fds=[kept], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            outcome.put(error)
            return
        outcome.put(None)
        starter.wait()  # it leaves at once

    if start_thread is not None:
        start_thread(run, NAME)
    else:
        threading.Thread(target=run, name=NAME, daemon=True).start()
    if (error := outcome.get()) is not None:
        raise error
