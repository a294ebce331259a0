"""One attempt's stream as one event file: every step once, in rising order, block by block.

Where it stands is what the file holds. `Reached` only saves the way there: how far the stream was read when the file ended
where it ends. Without it both are read from their beginnings, and steps that are in the file already are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sentinel.model.readings import Receipt, StepReading
from sentinel.run_files.stream import StreamPieces
from sentinel.run_files.stream_lines import parse_line
from sentinel.tensorboard.charts import chart_name
from sentinel.tensorboard.event_bytes import RowEncoder
from sentinel.tensorboard.event_file import EventFileWriter, Place


@dataclass(frozen=True, slots=True)
class Reached:
    """How far an attempt's board is: bytes of its stream that are taken, and the file's size and newest step then."""

    stream: int = 0
    size: int = 0
    step: int = -1


class AttemptBoard:
    """Raises OSError; make it anew then, from what was last `reached`."""

    def __init__(self, stream: Path, path: Path, reached: Reached, encoder: RowEncoder) -> None:
        self.path = path
        self._encoder = encoder
        self._file = EventFileWriter(path, Place(reached.size, reached.step))
        place = self._file.place
        is_known = place.size >= reached.size > 0
        self._stream = StreamPieces(stream, reached.stream if is_known else 0)
        self._step = max(place.step, reached.step if is_known else -1)

    @property
    def reached(self) -> Reached:
        return Reached(self._stream.taken, self._file.place.size, self._step)

    def advance(self, is_over: bool) -> bool:
        """Take the next block of the stream; whether there is more to take at once. `is_over`: an unfinished last line counts."""
        piece = self._stream.read(is_over)
        self._take(piece.lines)
        return piece.has_more

    def close(self) -> None:
        self._file.close()

    def _take(self, lines: list[bytes]) -> None:
        out: list[bytes] = []
        began_s: float | None = None
        for line in lines:
            try:
                reading = parse_line(line, 0)
            except ValueError:
                continue  # telemetry tells of damaged lines
            if isinstance(reading, Receipt):
                self._step = max(self._step, reading.resume_step or -1)  # a row of the step resumed from is the parent's
            if not isinstance(reading, StepReading) or reading.step <= self._step:
                continue
            metrics = {chart_name(name): value for name, value in reading.metrics.items()}
            data = self._encoder.encode(reading.step, reading.time_s, metrics)
            if data:
                out.append(data)
                self._step = reading.step
                began_s = reading.time_s if began_s is None else began_s
        if out and began_s is not None:
            self._file.append(b"".join(out), self._step, began_s)
