"""Follows attempts/N/metrics.jsonl while it is written and turns each whole line into a reading, once and in order.

A damaged line is counted and reported, never in the way; many in a row mean that this is not our stream, and the source says that
it is blind. After a truncation lines come again (whoever consumes steps takes each only once). It judges nothing: a NaN loss is a
reading like any other.

    stream = MetricsStream(Path("runs/demo"), attempt=1)
    readings = stream.poll(now_s)       # at most LINES_PER_POLL lines; stream.has_more says whether to ask again at once
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sentinel.client.run_layout import stream_path
from sentinel.model.readings import EndReading, Reading, Receipt, StepReading, TrainerNote
from sentinel.run_files.stream_lines import StreamReading, parse_line
from sentinel.telemetry.lineage import HISTORY_LIMIT, read_history, read_world_size
from sentinel.telemetry.source import SourceHealth, describe_os_error
from sentinel.telemetry.tailed_file import TailedFile

LINES_PER_POLL = 250  # a turn of the loop that catches up takes milliseconds; with 5,000 it took up to 0.8 s on a busy machine
GARBLED_LINES = 50  # this many damaged lines in a row, and the source calls itself blind
EXCERPT_BYTES = 60


class MetricsStream:
    """The stream of one attempt. `damaged` counts the lines that could not be read."""

    def __init__(self, run_dir: Path, attempt: int, health: SourceHealth | None = None) -> None:
        self.path = stream_path(run_dir, attempt)
        self.attempt = attempt
        self.damaged = 0
        self._run_dir = run_dir
        self._health = health if health is not None else SourceHealth("metrics")
        self._file = TailedFile(self.path, self._health)
        self._damaged_in_row = 0
        self._last_step = 0

    @property
    def has_more(self) -> bool:
        return self._file.has_more

    def poll(self, now_s: float) -> list[Reading]:
        """The readings of the whole lines written since the last poll, at most LINES_PER_POLL lines."""
        lines = self._file.read_lines(now_s, LINES_PER_POLL)
        out: list[Reading] = []
        if self._file.trouble is None and self._file.is_there and self._damaged_in_row < GARBLED_LINES:
            out += self._health.regained()
        self._take(lines, out)
        if not self._file.is_there:
            out += self._health.lost(f"{self.path}: the file is gone")
        return out

    def finish(self) -> list[Reading]:
        """The attempt is over and nothing more will come: a last line without a newline is taken as it stands."""
        out: list[Reading] = []
        self._take(self._file.read_rest(), out)
        return out

    def look_again(self) -> None:
        """Open the file anew at the next poll: over a network only a fresh open is sure to see the newest bytes."""
        self._file.close()

    def close(self) -> None:
        self._file.close()

    def _take(self, lines: list[bytes], out: list[Reading]) -> None:
        out += self._file.remarks
        self._take_lines(lines, out)
        if self._file.trouble is not None:
            out += self._health.lost(describe_os_error(self._file.trouble, self.path))

    def _take_lines(self, lines: list[bytes], out: list[Reading]) -> None:
        attempt = self.attempt
        for line in lines:
            try:
                reading = parse_line(line, attempt)
            except ValueError as error:
                if line.strip():
                    self._count_damage(line, str(error), out)
                continue
            if self._damaged_in_row:
                out += self._end_damage()
            if type(reading) is StepReading:
                self._last_step = reading.step
                out.append(reading)
            elif reading is not None:
                out.append(self._complete(reading))

    def _complete(self, reading: StreamReading) -> Reading:
        """What the line alone cannot know: the history before a receipt, the step of a note that names none."""
        if isinstance(reading, Receipt):
            self._last_step = reading.resume_step
            history = read_history(self._run_dir, self.attempt, reading.resume_step, HISTORY_LIMIT)
            ranks = read_world_size(self._run_dir, {row.attempt for row in history})
            return replace(reading, history=history, history_world_size=ranks)
        if isinstance(reading, (TrainerNote, EndReading)) and reading.step == 0:
            return replace(reading, step=self._last_step)
        return reading

    def _count_damage(self, line: bytes, reason: str, out: list[Reading]) -> None:
        """Count it; say so at the 1st, 10th, 100th …; many in a row are blindness."""
        self.damaged += 1
        self._damaged_in_row += 1
        last = f"the last after step {self._last_step}: {reason}: {line[:EXCERPT_BYTES]!r}"
        if self._damaged_in_row == GARBLED_LINES:
            out += self._health.lost(f"{self.path}: {GARBLED_LINES} lines in a row cannot be read, {last}")
        elif str(self.damaged).rstrip("0") == "1":
            out += self._health.remark(f"{self.path}: {self.damaged} damaged line(s) left out, {last}")

    def _end_damage(self) -> list[Reading]:
        """A good line again; that also ends a blindness which damaged lines began."""
        was_garbled = self._damaged_in_row >= GARBLED_LINES
        self._damaged_in_row = 0
        return [*self._health.regained()] if was_garbled else []
