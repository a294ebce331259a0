"""Where the steps of a log fall back: somebody resumed the run from a checkpoint, and it went on writing into the same log.

A supervisor knows of a relaunch by its receipt; a log only shows steps that were there before. Three of them in rising order are
believed, fewer are rows out of order and go their way. Then a receipt is told as telemetry would: the step resumed from, and
the end of the surviving past, so that the senses are cut there and judge the repeated steps against their own past.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from sentinel.model.readings import Receipt, StepReading
from sentinel.telemetry.log_reader import ATTEMPT

BELIEVED_ROWS = 3
PAST_ROWS = 4096
TOLD_ROWS = 500  # as many as telemetry tells of a live run's lineage


class Rewind:
    """Passes readings through, and receipts where one is due."""

    def __init__(self) -> None:
        self._past: deque[StepReading] = deque(maxlen=PAST_ROWS)
        self._back: list[StepReading] = []
        self._newest = -1

    def follow(self, readings: Iterable[StepReading]) -> Iterator[StepReading | Receipt]:
        remember = self._past.append
        for reading in readings:
            if reading.step > self._newest:
                if self._back:
                    yield from self._back
                    self._back = []
                self._newest = reading.step
                remember(reading)
                yield reading
                continue
            back = self._back
            if back and reading.step <= back[-1].step:
                yield from back
                back.clear()
            back.append(reading)
            if len(back) >= BELIEVED_ROWS:
                yield self._resumed(back[0])
                yield from back
                self._past.extend(back)
                self._newest = back[-1].step
                self._back = []

    def _resumed(self, first: StepReading) -> Receipt:
        past = self._past
        while past and past[-1].step >= first.step:
            past.pop()
        return Receipt(ATTEMPT, first.time_s, max(0, first.step - 1), None, 1, {}, {}, tuple(past)[-TOLD_ROWS:])
