"""Where the steps of a log fall back: somebody resumed the run from a checkpoint, and it went on writing into the same log.

A supervisor knows of a relaunch by its receipt; a log only shows steps that were there before. Three of them in rising order are
believed, fewer are rows out of order. Then a receipt is given, as for a live run: the step resumed from, and the end of the
surviving past, so that the detectors forget what came after it and judge the repeated steps against their own past.

Not a relaunch, and passed over: a row that says what its step said already (several ranks printing the same reduced loss, in
bursts where their output is buffered; a resumed run that repeats itself to the last digit is judged where it first differs), and
a row that was written before the newest one was (several writers side by side; only times since 1970 can tell).
Steps that begin again with each epoch, where the rows name the epoch, are counted on: no run was resumed there.
What cannot be told apart: ranks that print different losses in bursts, without their rank in front and without a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from sentinel.model.readings import Receipt, StepReading
from sentinel.telemetry.log_reader import ATTEMPT

BELIEVED_ROWS = 3
EPOCHS_MAX = 100_000
PAST_ROWS = 4096
HISTORY_ROWS = 500  # as many as telemetry tells of a live run's lineage
UNIX_TIMES_S = 1e9  # smaller ones count from a launch and begin again with it
FINGERPRINT = ("loss", "grad_norm")


class Rewind:
    """Passes readings through, and receipts where one is due. `repeated`: rows passed over."""

    def __init__(self) -> None:
        self.repeated = 0
        self._past: deque[StepReading] = deque(maxlen=PAST_ROWS)
        self._index: dict[int, StepReading] | None = None  # of the past by step, kept only while steps fall back
        self._back: list[StepReading] = []
        self._newest = -1
        self._first: int | None = None  # step of the log
        self._offsets: dict[int, int] = {}  # by epoch, where the steps begin again with each

    @property
    def counts_epochs(self) -> bool:
        """Do the steps begin again with each epoch, and were they counted on?"""
        return bool(self._offsets)

    def follow(self, readings: Iterable[StepReading]) -> Iterator[StepReading | Receipt]:
        remember = self._past.append
        for reading in readings:
            step, newest = reading.step, self._newest
            if self._offsets or (step < newest and step <= (self._first or 0)):
                reading = self._counted_on(reading)
                step = reading.step
            if step > newest:
                if self._first is None:
                    self._first = step
                if self._back:
                    self.repeated += len(self._back)
                    self._back = []
                self._newest = step
                remember(reading)
                if self._index is not None:
                    self._remember_by_step(reading)
                yield reading
            elif self._is_repeat(reading):
                self.repeated += 1
            elif self._is_resumed(reading):
                yield self._receipt(self._back[0])
                yield from self._back
                self._past.extend(self._back)
                self._newest = self._back[-1].step
                self._back, self._index = [], None

    def _counted_on(self, reading: StepReading) -> StepReading:
        """The reading at its step of the whole run, where the steps begin again at the first one and the epoch is a later one."""
        epoch = reading.metrics.get("epoch")
        if epoch is None or not 0.0 <= epoch < EPOCHS_MAX:
            return reading
        number, before = int(epoch), self._past[-1].metrics.get("epoch") if self._past else None
        if number not in self._offsets and before is not None and number > before and reading.step <= (self._first or 0):
            self._offsets[number] = self._newest + (reading.step == 0)
        offset = self._offsets.get(number, 0)
        if not offset:
            return reading
        return StepReading(ATTEMPT, reading.step + offset, reading.time_s, reading.samples, reading.metrics)

    def _is_resumed(self, reading: StepReading) -> bool:
        """Have enough steps come again, in rising order?"""
        back = self._back
        if back and reading.step <= back[-1].step:
            self.repeated += len(back)
            back.clear()
        back.append(reading)
        return len(back) >= BELIEVED_ROWS

    def _is_repeat(self, reading: StepReading) -> bool:
        past = self._past
        if past and UNIX_TIMES_S < reading.time_s < past[-1].time_s:
            return True
        if self._index is None:
            self._index = {known.step: known for known in past}
        known = self._index.get(reading.step)
        return known is not None and _says_the_same(known, reading)

    def _remember_by_step(self, reading: StepReading) -> None:
        assert self._index is not None
        self._index[reading.step] = reading
        if len(self._index) > 2 * PAST_ROWS:
            self._index = None

    def _receipt(self, first: StepReading) -> Receipt:
        past = self._past
        while past and past[-1].step >= first.step:
            past.pop()
        return Receipt(ATTEMPT, first.time_s, max(0, first.step - 1), None, 1, {}, {}, tuple(past)[-HISTORY_ROWS:])


def _says_the_same(one: StepReading, other: StepReading) -> bool:
    compared = False
    for name in FINGERPRINT:
        a, b = one.metrics.get(name), other.metrics.get(name)
        if a is None or b is None:
            continue
        if a != b and (a == a or b == b):
            return False
        compared = True
    return compared
