"""Plain lines, one per thing that matters, for logs and for terminals that are none.

       0:41  step 150 of 600  loss 2.431  grad norm 0.71  goodput 91%

The time is the run's own, since it was created. Progress is printed every `every_steps` steps, or after `every_s` seconds; a
backlog that is read again after a restart is printed once. A thread of its own writes, so that a terminal somebody paused
(Ctrl-S, a full pipe) does not stop the supervision; what does not fit in the queue meanwhile is left out, and counted.
"""

from __future__ import annotations

import errno
import queue
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from sentinel.engine import Engine
from sentinel.engine.goodput import account
from sentinel.model.facts import Entry, ReceiptSeen
from sentinel.model.readings import StepReading
from sentinel.run_files.stall import find_stall
from sentinel.terminal.clean import clean
from sentinel.terminal.total_steps import TotalSteps
from sentinel.terminal.words import clock_words, describe

EVERY_STEPS = 50
EVERY_S = 10.0
LINES_WAITING_MAX = 10_000
CLOSE_S = 2.0  # how long the end of a run waits for a reader that has stopped reading


class PlainNarrator:
    """`run_dir` None: the total of steps is not known. `close` writes out what waits."""

    def __init__(
        self,
        run_dir: Path | None = None,
        stream: TextIO | None = None,
        every_steps: int = EVERY_STEPS,
        every_s: float = EVERY_S,
    ) -> None:
        self._total = TotalSteps(run_dir)
        self._writer = LineWriter(stream if stream is not None else sys.stdout)
        self._every_steps = every_steps
        self._every_s = every_s
        self._latest: StepReading | None = None
        self._printed: tuple[int, int] = (0, 0)  # attempt and step of the last progress line
        self._printed_s: float | None = None
        self._reported_stall_s: float | None = None

    def facts(self, entries: Sequence[Entry], engine: Engine) -> None:
        for entry in entries:
            if isinstance(entry.fact, ReceiptSeen):
                self._total.of(entry.fact.attempt)
            line = describe(entry.fact, entry.at_s, engine.state)
            if line is not None:
                self._say(entry.at_s - engine.state.created_s, line.text)

    def step(self, reading: StepReading) -> None:
        self._latest = reading
        if reading.attempt != self._printed[0]:
            self._printed = (reading.attempt, reading.step - 1)

    def turn(self, now_s: float, engine: Engine) -> None:
        latest, current = self._latest, engine.state.attempt
        if self._printed_s is None:
            self._printed_s = now_s
        self._say_stall(now_s, engine)
        is_news = latest is not None and current is not None and latest.attempt == current.attempt and not current.is_over
        if latest is None or not is_news or latest.step <= self._printed[1]:
            return
        crossed = latest.step // self._every_steps > self._printed[1] // self._every_steps
        if not crossed and now_s - self._printed_s < self._every_s:
            return
        self._printed, self._printed_s = (latest.attempt, latest.step), now_s
        total = self._total.of(latest.attempt)
        words = [f"step {latest.step}{f' of {total}' if total else ''}"]
        shown = [name for name in ("loss", "grad_norm") if name in latest.metrics]
        words += [f"{name.replace('_', ' ')} {latest.metrics[name]:.4g}" for name in shown]
        words.append(f"goodput {account(engine.state, now_s).goodput_ratio:.0%}")
        self._say(now_s - engine.state.created_s, "  ".join(words))

    def close(self) -> None:
        self._writer.close()

    def _say_stall(self, now_s: float, engine: Engine) -> None:
        """Once it has lasted as long as two lines are apart: shorter ones come and go, and no line can be taken back."""
        stall = find_stall(engine.state, engine.detectors.step_times, now_s)
        if stall is None or now_s - stall.since_s < self._every_s:
            self._reported_stall_s = None if stall is None else self._reported_stall_s
        elif self._reported_stall_s != stall.since_s:
            self._reported_stall_s = stall.since_s
            self._say(now_s - engine.state.created_s, stall.words(now_s))

    def _say(self, elapsed_s: float, text: str) -> None:
        self._writer.put(f"{clock_words(elapsed_s):>7}  {clean(text)}")


class LineWriter:
    """Writes lines from a thread, in order. A reader that went away (a closed pipe) ends the writing, not the run."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: queue.Queue[str | None] = queue.Queue(LINES_WAITING_MAX)
        self._left_out = 0
        self._thread = threading.Thread(target=self._write, name="plain view", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._left_out += 1

    def close(self) -> None:
        """Write what waits, for at most CLOSE_S. Safe to call twice."""
        if self._thread.is_alive():
            if self._left_out:
                self.put(f"({self._left_out} lines left out: nobody was reading)")
            try:
                self._lines.put(None, timeout=CLOSE_S)
            except queue.Full:
                return
            self._thread.join(CLOSE_S)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._print(line)
            except OSError as error:
                if error.errno in (errno.EPIPE, errno.EBADF):
                    return  # nobody reads; a disk that is full may have room for the next line
            except ValueError:  # the file object is closed
                return
        with suppress(OSError, ValueError):
            self._out.flush()

    def _print(self, line: str) -> None:
        try:
            print(f"{line}\n", end="", file=self._out, flush=self._lines.empty())  # in one write: others print here, too
        except UnicodeEncodeError:  # a terminal or a log that is not UTF-8: one word of it must not end the telling
            encoding = self._out.encoding or "ascii"
            print(line.encode(encoding, "backslashreplace").decode(encoding), file=self._out, flush=True)
