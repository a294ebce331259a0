"""`sentinel tensorboard LOG`: the boards of a recorded log, of any format that `sentinel replay` reads.

Where the steps of the log fall back a new attempt is drawn, and `effective` is stitched from them as for a supervised run: so a
run that was resumed by hand shows no zigzag. Everything is drawn anew each time; the log is only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.errors import UsageError
from sentinel.model.readings import Receipt, StepReading
from sentinel.telemetry.log_formats import open_log
from sentinel.telemetry.log_reader import read_to_end
from sentinel.telemetry.rewind import Rewind
from sentinel.tensorboard.board import EFFECTIVE, PLACE
from sentinel.tensorboard.charts import chart_name
from sentinel.tensorboard.effective import Effective
from sentinel.tensorboard.event_bytes import RowEncoder
from sentinel.tensorboard.event_file import SHEET, EventFileWriter, FileEnd, event_name
from sentinel.tensorboard.incident_sheet import IncidentSheet
from sentinel.tensorboard.survivors import Begun, bounds

ROWS_AT_ONCE = 500
_OURS = re.compile(r"attempt-\d{4,}|" + EFFECTIVE)


@dataclass
class Drawn:
    """What was drawn of a log. `steps`: rows of all attempts; `last`: the newest step of the run that survives."""

    attempts: list[Begun] = field(default_factory=list)
    steps: int = 0
    last: int = 0
    first_s: float = 0.0


def folder_beside(log: Path) -> Path:
    """Where a log's boards go if nobody says otherwise."""
    return log.with_name(f"{log.name}.tensorboard")


def draw_log(log: Path, folder: Path, format: str = "auto") -> str:
    """Draw the boards of `log` into `folder`, anew; what was drawn, in words.

    Raises UsageError for what is no log, what cannot be read or written, and a folder that a run's supervisor keeps."""
    if (folder / PLACE).exists():
        raise UsageError(f"{folder}: holds the boards of a run, which its supervisor keeps; name another directory with --out")
    try:
        found, reader = open_log(log, format)
        _clear(folder)
        drawn = Drawn()
        for attempt, readings in enumerate(_attempts(Rewind().follow(read_to_end(reader)), drawn), start=1):
            _draw_attempt(folder, attempt, readings, drawn)
        paths = {begun.attempt: _event_path(folder, begun.attempt) for begun in drawn.attempts}
        Effective(folder / EFFECTIVE).follow(paths, bounds(drawn.attempts))
        IncidentSheet(folder / EFFECTIVE).tell((), drawn.first_s)
    except OSError as error:
        raise UsageError(f"{error.filename or log}: {error.strerror or error}; nothing else was touched") from error
    left_out = f"; {reader.damaged} damaged, left out, the first: {reader.first_damage}" if reader.damaged else ""
    return f"{folder}: {found} log, {len(drawn.attempts)} attempt(s), {drawn.steps} steps, the last {drawn.last}{left_out}"


def _attempts(rows: Iterator[StepReading | Receipt], drawn: Drawn) -> Iterator[Iterator[StepReading]]:
    """The rows of each attempt; where one begins is noted."""
    ahead = next(rows, None)

    def of_one() -> Iterator[StepReading]:
        nonlocal ahead
        while isinstance(ahead, StepReading):
            yield ahead
            ahead = next(rows, None)

    while ahead is not None:
        after = 0
        if isinstance(ahead, Receipt):
            after, ahead = ahead.resume_step, next(rows, None)
        drawn.attempts.append(Begun(len(drawn.attempts) + 1, after))
        yield of_one()


def _draw_attempt(folder: Path, attempt: int, readings: Iterable[StepReading], drawn: Drawn) -> None:
    encoder, out, began_s = RowEncoder(), [], None
    with closing(EventFileWriter(_event_path(folder, attempt), FileEnd())) as file:
        for reading in readings:
            began_s = reading.time_s if began_s is None else began_s
            drawn.first_s = drawn.first_s or reading.time_s
            metrics = {chart_name(name): value for name, value in reading.metrics.items()}
            out.append(encoder.encode(reading.step, reading.time_s, metrics))
            drawn.steps, drawn.last = drawn.steps + 1, reading.step
            if len(out) == ROWS_AT_ONCE:
                file.append(b"".join(out), reading.step, began_s)
                out.clear()
        if out and began_s is not None:
            file.append(b"".join(out), drawn.last, began_s)


def _event_path(folder: Path, attempt: int) -> Path:
    return folder / f"attempt-{attempt:04d}" / event_name(attempt)


def _clear(folder: Path) -> None:
    """Take away what an earlier drawing left, and nothing else."""
    for place in sorted(folder.iterdir()) if folder.is_dir() else []:
        if _OURS.fullmatch(place.name) and place.is_dir():
            for path in sorted(place.glob(f"{SHEET}.*")):
                if path.name.endswith(".sentinel") or ".incidents-" in path.name:
                    path.unlink()
            if not any(place.iterdir()):
                place.rmdir()
