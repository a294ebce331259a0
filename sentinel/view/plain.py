"""Plain lines, one per thing that happened, for logs and for terminals that are none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from sentinel.engine import Engine
from sentinel.model.facts import Entry
from sentinel.model.readings import StepReading


class PlainNarrator:
    def __init__(self, stream: TextIO | None = None, every_steps: int = 50) -> None:
        self._out = stream if stream is not None else sys.stdout
        self._every = every_steps

    def facts(self, entries: Sequence[Entry], engine: Engine) -> None:
        for entry in entries:
            print(f"  {entry.at_s:.1f} {entry.fact}", file=self._out, flush=True)

    def step(self, reading: StepReading) -> None:
        if reading.step % self._every == 0:
            print(f"  step {reading.step} loss {reading.metrics.get('loss', float('nan')):.4f}", file=self._out, flush=True)

    def turn(self, now_s: float, engine: Engine) -> None: ...
