"""One attempt's stream as curves: every metric it reports, lowest and highest of neighbouring steps, and its newest line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sentinel.client.run_layout import stream_path
from sentinel.model.readings import Receipt, StepReading
from sentinel.streams.curve import Curve
from sentinel.telemetry.stream_lines import parse_line

PIECE_BYTES = 256 << 10  # some hundred lines of the bundled trainer
LINE_BYTES_MAX = 1 << 20  # a longer line is none
METRICS_MAX = 512  # of different names: a trainer that makes up a name a step must not fill the memory
BUCKETS_MAX = 512


class DrawnAttempt:
    """Attributes: curves, by metric; newest and newest_step, the metrics of the newest step line and its step (None before there
    is one); newest_s, when that was by the trainer's clock; last, the
    last value of each metric that is drawn; after_step, what it began from; changes, which only grows."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self.attempt = attempt
        self.changes = 0
        self._buckets_max = BUCKETS_MAX
        self._path = stream_path(run_dir, attempt)
        self._is_complete = False  # nobody writes it any more, and all of it is drawn
        self._begin()

    def advance(self, is_over: bool) -> bool:
        """Read the next piece; whether there is more to read at once. `is_over`: a last line without its newline counts. A stream
        that cannot be read is looked at again next time."""
        if self._is_complete:
            return False
        try:
            piece, size = self._read(PIECE_BYTES)
            end = piece.rfind(b"\n") + 1
            if end == 0 and len(piece) == PIECE_BYTES:
                piece, size = self._read(LINE_BYTES_MAX)
                end = piece.rfind(b"\n") + 1 or (len(piece) if len(piece) == LINE_BYTES_MAX else 0)
        except OSError:
            return False
        if is_over and self._taken + len(piece) >= size:
            end = len(piece)
        for line in piece[:end].split(b"\n"):
            self._take(line)
        self._taken += end
        self._is_complete = is_over and self._taken >= size > 0
        return end > 0 and self._taken < size

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
        self.newest: Mapping[str, float] = {}
        self.last: dict[str, float] = {}
        self.newest_step: int | None = None
        self.newest_s = 0.0
        self.after_step = 0
        self._taken = 0
        self._is_complete = False

    def _read(self, bytes_max: int) -> tuple[bytes, int]:
        """The next bytes, and the stream's size. One that was cut or written anew is drawn anew."""
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._taken:
                    self._begin()
                    self.changes += 1
                file.seek(self._taken)
                return file.read(bytes_max), size
        except FileNotFoundError:
            return b"", 0

    def _take(self, line: bytes) -> None:
        try:
            reading = parse_line(line, self.attempt) if line else None
        except ValueError:
            return  # telemetry tells of damaged lines
        if isinstance(reading, Receipt):
            self.after_step = reading.resume_step
        if not isinstance(reading, StepReading) or (self.newest_step is not None and reading.step <= self.newest_step):
            return
        self.changes += 1
        self.newest_step, self.newest, self.newest_s = reading.step, reading.metrics, reading.time_s
        for name, value in reading.metrics.items():
            curve = self.curves.get(name)
            if curve is None:
                if len(self.curves) >= METRICS_MAX:
                    continue
                curve = self.curves[name] = Curve(self._buckets_max)
            curve.add(reading.step, value)
            self.last[name] = value
