"""The live view: one panel, drawn at most four times a second by a thread of its own, at home on 80 x 24.

The loop only hands over what it has (a lock, an append); drawing works on that copy, so a slow terminal never slows a
decision. What the ranks say of themselves, and what the run needs, is read by another thread: a filesystem that hangs costs those
rows and nothing else.
What is printed meanwhile, a page for instance, appears above the panel. `close` gives the terminal back and leaves the last
picture standing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from sentinel.clock import SystemClock
from sentinel.curves.blocks import Point
from sentinel.engine import Engine
from sentinel.model.facts import Entry, ReceiptSeen
from sentinel.model.readings import StepReading
from sentinel.model.state import RunState
from sentinel.run_files.gpu_standing import GpuSeen
from sentinel.run_files.heartbeats import RankBeats
from sentinel.run_files.stall import find_stall
from sentinel.terminal.panel import Picture, draw
from sentinel.terminal.picture import METRICS
from sentinel.terminal.total_steps import TotalSteps
from sentinel.terminal.words import Line, clock_words, describe

FRAMES_PER_S = 4
POINTS_KEPT = 240  # steps in the sparklines
LINES_KEPT = 24
FILES_EVERY_S, LAST_LOOK_S = 1.0, 1.0

Gpus = Callable[[], tuple[tuple[GpuSeen, ...], str]]
"""The GPUs as they were last seen, and why none is."""
Needs = Callable[[RunState, float], tuple[Mapping[str, Any] | None, tuple[str, ...]]]
"""What the run needs and what threatens it, as `Picture` has both. It may read files."""


class LiveNarrator:
    """Starts drawing with the first thing it gets."""

    def __init__(self, run_dir: Path, console: Console) -> None:
        self._run_dir = run_dir
        self._total = TotalSteps(run_dir)
        self._lock = threading.Lock()
        self._points: deque[Point] = deque(maxlen=POINTS_KEPT)
        self._times: deque[tuple[int, float]] = deque(maxlen=50)
        self._lines: deque[tuple[str, Line]] = deque(maxlen=LINES_KEPT)
        blocks = (console.encoding or "").lower().startswith("utf")
        self._picture = Picture(RunState(), 0.0, None, (), (), None, blocks)
        self._gpus: Gpus = lambda: ((), "")
        self._needs: Needs = _nothing_known
        self._live = Live(console=console, get_renderable=self._frame, refresh_per_second=FRAMES_PER_S, transient=False)
        self._files = threading.Thread(target=self._watch_files, name="live view: files", daemon=True)
        self._is_closed = False
        self._closing = threading.Event()

    def see_gpus(self, gpus: Gpus) -> None:
        """From now on the frames show these."""
        self._gpus = gpus

    def see_needs(self, needs: Needs) -> None:
        """From now on the frames show these."""
        self._needs = needs

    def facts(self, entries: Sequence[Entry], engine: Engine) -> None:
        total = self._picture.total
        lines = []
        for entry in entries:
            if isinstance(entry.fact, ReceiptSeen):
                total = self._total.of(entry.fact.attempt) or total
            line = describe(entry.fact, entry.at_s, engine.state)
            if line is not None:
                lines.append((clock_words(entry.at_s - engine.state.created_s), line))
        with self._lock:
            self._lines.extend(lines)
            self._picture = replace(self._picture, state=engine.state, total=total)
        self._start()

    def step(self, reading: StepReading) -> None:
        values = {name: reading.metrics[name] for name in METRICS if name in reading.metrics}
        with self._lock:
            if self._points and self._points[-1].attempt != reading.attempt:
                self._times.clear()
            self._points.append(Point(reading.attempt, reading.step, values))
            self._times.append((reading.step, reading.time_s))

    def turn(self, now_s: float, engine: Engine) -> None:
        total = self._picture.total
        if not total and self._points:
            total = self._total.of(self._points[-1].attempt) or 0  # 0: this trainer does not say
        stall = find_stall(engine.state, engine.detectors.step_times, now_s)
        with self._lock:
            self._picture = replace(self._picture, state=engine.state, now_s=now_s, total=total, stall=stall)
        self._start()

    def close(self) -> None:
        """Draw the last picture, show the cursor again. Safe to call twice."""
        if not self._is_closed:
            self._is_closed = True
            self._closing.set()
            if self._files.is_alive():
                self._files.join(LAST_LOOK_S)  # how it ended, and what is to be done, stays on the screen
            with suppress(OSError):  # the terminal went away
                self._live.stop()

    def _start(self) -> None:
        if not self._live.is_started and not self._is_closed:
            self._files.start()
            with suppress(OSError):
                self._live.start()

    def _watch_files(self) -> None:
        beats, clock = RankBeats(self._run_dir), SystemClock()
        is_last = False
        while not is_last:
            is_last = self._closing.is_set()
            self._look_at_files(beats, clock.wall_s())
            clock.wait(self._closing, FILES_EVERY_S)

    def _look_at_files(self, beats: RankBeats, wall_s: float) -> None:
        picture = self._picture
        attempt = picture.state.attempt
        ranks = beats.refresh(attempt.attempt, wall_s) if attempt is not None else ()
        try:
            needs, warnings = self._needs(picture.state, picture.now_s)
        except Exception as bug:  # noqa: BLE001 - what was true a while ago must not stay on the screen as if it were now
            needs, warnings = None, (f"what the run needs is not known here: {type(bug).__name__}; sentinel status says it",)
        with self._lock:
            self._picture = replace(self._picture, ranks=ranks, needs=needs, warnings=warnings)

    def _frame(self) -> RenderableType:
        """Called by the drawing thread."""
        gpus, why_not = self._gpus()
        with self._lock:
            points, lines, step_time_s = tuple(self._points), tuple(self._lines), step_time(self._times)
            picture = replace(self._picture, points=points, lines=lines, step_time_s=step_time_s)
        return draw(replace(picture, gpus=gpus, gpus_why_not=why_not))


def _nothing_known(state: RunState, now_s: float) -> tuple[None, tuple[str, ...]]:
    """Before anybody has said how it is found out."""
    del state, now_s
    return None, ()


def step_time(times: Sequence[tuple[int, float]]) -> float | None:
    """Seconds per step over the newest steps of this attempt, by the trainer's clock."""
    if len(times) < 2:
        return None
    (first, first_s), (last, last_s) = times[0], times[-1]
    return (last_s - first_s) / (last - first) if last > first and last_s > first_s else None
