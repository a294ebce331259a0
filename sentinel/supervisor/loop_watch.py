"""A person is paged when the supervisor itself stands still.

A write or a sync on a filesystem that does not answer holds up the loop for as long as the filesystem likes. Nothing can be
decided then, because no decision can be written down; all that is left is to say so. A thread beside the loop does that. It reads
and writes nothing of the run directory. It counts its own seconds and asks no clock: a process that was suspended stood still as
a whole, and that is no news to anybody (`loop.WasAway`).

    with LoopWatch(page) as watch:
        watch.turned()         # after every turn, and wherever the loop waits on purpose
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from sentinel.channels.opening import open_channel
from sentinel.launcher.process_waits import is_thread_runnable, read_kernel_place
from sentinel.model.amounts import time_words
from sentinel.policy.schema_paging import Paging
from sentinel.supervisor.own_pages import OwnPage, Say, Stage, send_own_page

STUCK_AFTER_S = 60  # a turn takes milliseconds; systemd ends a supervisor that stands still after three minutes
LOOK_EVERY_S = 1.0
WORDS = (
    "The supervisor has stood still for {still}{place}. Nothing is watched or repaired meanwhile; what trains, trains on. {why}"
)
BLOCKED = "Most likely the filesystem of the run directory does not answer."
RUNNABLE = "It is not blocked: it computes, or waits for a processor (load {load:.0f}, {count} processors)."
PACKAGE = Path(__file__).parent.parent

SendWords = Callable[[Stage, str], None]


class LoopWatch:
    """Watches the thread that made it.

    Args:
        send: Pages, and takes the page back. Called in the watch's own thread; None where nobody is to be called.
    """

    def __init__(self, send: SendWords | None) -> None:
        self.send = send
        self._loop = threading.current_thread()
        self._has_turned = False
        self._still_s = 0
        self._is_paged = False
        self._closing = threading.Event()

    def turned(self) -> None:
        """The loop goes on."""
        self._has_turned = True

    def look(self) -> None:
        """Once a second: pages when the loop has stood still for STUCK_AFTER_S, once, and takes it back when it goes on."""
        if self.send is None:
            return
        if self._has_turned:
            self._has_turned = False
            still_s, self._still_s = self._still_s, 0
            if self._is_paged:
                self._is_paged = False
                self.send("resolve", f"The supervisor goes on. It stood still for {time_words(still_s)}.")
            return
        self._still_s += 1
        if self._still_s >= STUCK_AFTER_S and not self._is_paged:
            self._is_paged = True
            self.send("trigger", WORDS.format(still=time_words(self._still_s), place=_place(self._loop), why=_why(self._loop)))

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="sentinel-loop-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_EVERY_S):
            self.look()


def page_about_loop(run_dir: Path, run: str, paging: Paging, wall_s: Callable[[], float], say: Say) -> SendWords:
    """What a `LoopWatch` sends with: every route, one after the other."""
    title, answers = f"{run}: the supervisor stands still", (f"sentinel status {run_dir}",)
    page = OwnPage("supervisor_stuck", "its supervisor", title, answers, topic="stuck")

    for route in paging.routes:
        open_channel(route, run_dir)  # now, while every filesystem answers: a channel may need a process of its own

    def send(stage: Stage, text: str) -> None:
        for route in paging.routes:
            send_own_page(run_dir, run, route, page, stage, text, wall_s(), say)

    return send


def _why(thread: threading.Thread) -> str:
    """As the kernel sees the thread: one that could run waits for no filesystem."""
    if thread.native_id is None or not is_thread_runnable(thread.native_id):
        return BLOCKED
    return RUNNABLE.format(load=os.getloadavg()[0], count=len(os.sched_getaffinity(0)))


def _place(thread: threading.Thread) -> str:
    """Where it stands: the innermost function of ours, and the wait in the kernel."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and PACKAGE not in Path(frame.f_code.co_filename).parents:
        frame = frame.f_back
    if frame is None:
        return ""
    name = Path(frame.f_code.co_filename).relative_to(PACKAGE)
    kernel = read_kernel_place(os.getpid(), thread.native_id)
    return f" in {frame.f_code.co_name} ({name}:{frame.f_lineno}{f', kernel: {kernel}' if kernel else ''})"
