"""One attempt's stream as curves: every metric it reports, lowest and highest of neighbouring steps, and its newest line. All of
the stream, or its newest steps alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sentinel.client.run_layout import stream_path
from sentinel.model.readings import Receipt, StepReading
from sentinel.run_files.rising_steps import RisingSteps
from sentinel.run_files.stream import StreamPieces
from sentinel.run_files.stream_end import find_newest
from sentinel.run_files.stream_lines import parse_line
from sentinel.streams.curve import Curve

METRICS_MAX = 512  # of different names: a trainer that makes up a name a step must not fill the memory
BUCKETS_MAX = 512


class DrawnAttempt:
    """Attributes: curves, by metric; newest and newest_step, the metrics of the newest step line and its step (None before there
    is one); newest_s, when that was by the trainer's clock; last, the last value of each metric that is drawn; after_step, what
    it began from; steps, how many are drawn; changes, which only grows."""

    def __init__(self, run_dir: Path, attempt: int, newest_steps: int | None = None) -> None:
        """`newest_steps`: begin with so many of the newest steps, and read nothing before them: not the receipt either."""
        self.attempt = attempt
        self.changes = 0
        self._newest_steps = newest_steps
        self._is_placed = newest_steps is None  # the stream stands where the first piece begins
        self._buckets_max = BUCKETS_MAX
        self._stream = StreamPieces(stream_path(run_dir, attempt))
        self._is_complete = False  # nobody writes it any more, and all of it is drawn
        self._begin()

    def advance(self, is_over: bool) -> bool:
        """Read the next piece; whether there is more to read at once. `is_over`: a last line without its newline counts. A stream
        that cannot be read is looked at again next time."""
        if self._is_complete:
            return False
        try:
            if not self._is_placed and self._newest_steps is not None:
                self._stream.taken, self._is_placed = find_newest(self._stream.path, self._newest_steps), True
            piece = self._stream.read(is_over)
        except OSError:
            return False
        if piece.is_anew:
            self._begin()
            self.changes += 1
            if self._newest_steps is not None:
                self._is_placed = False
                return True  # of what was written anew the end counts, too
        for line in piece.lines:
            self._take(line)
        self._is_complete = is_over and piece.is_end
        return piece.has_more

    @property
    def buckets(self) -> int:
        """Of all its curves together: the memory they take."""
        return sum(len(curve.buckets) for curve in self.curves.values())

    def coarsen(self) -> None:
        """The longest of its curves keep half their buckets, and no other one more than they."""
        longest = max((len(curve.buckets) for curve in self.curves.values()), default=0)
        self._buckets_max = max(1, (longest + 3) // 4)
        for curve in self.curves.values():
            curve.coarsen(self._buckets_max)
        self.changes += 1

    def _begin(self) -> None:
        self.curves: dict[str, Curve] = {}
        self._rising = RisingSteps()
        self.newest: Mapping[str, float] = {}
        self.last: dict[str, float] = {}
        self.newest_step: int | None = None
        self.newest_s = 0.0
        self.after_step = 0
        self.steps = 0
        self._is_complete = False

    def _take(self, line: bytes) -> None:
        try:
            reading = parse_line(line, self.attempt) if line else None
        except ValueError:
            return  # telemetry tells of damaged lines
        if isinstance(reading, Receipt):
            self.after_step = reading.resume_step
        if not isinstance(reading, StepReading) or (row := self._rising.take(reading)) is None:
            return
        self.changes += 1
        is_another = row.step != self.newest_step
        self.steps += is_another
        self.newest = row.metrics if is_another else {**self.newest, **row.metrics}
        self.newest_step, self.newest_s = row.step, row.time_s
        for name, value in row.metrics.items():
            curve = self.curves.get(name)
            if curve is None:
                if len(self.curves) >= METRICS_MAX:
                    continue
                curve = self.curves[name] = Curve(self._buckets_max)
            curve.add(row.step, value)
            self.last[name] = value
