"""RUN_DIR/tensorboard, brought up to date with the streams and the state, a bounded piece at a time.

Nothing is remembered that is not on the disk: after a kill at any instruction, the next process goes on from what the files
hold. `.place.json` only saves it the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import regular
from sentinel.client.run_layout import TENSORBOARD, stream_path
from sentinel.client.strict_json import dumps, loads
from sentinel.model.incidents import Incident
from sentinel.model.readings import Receipt, StepReading
from sentinel.model.state import RunState
from sentinel.run_files.rising_steps import RisingSteps
from sentinel.run_files.stream import StreamPieces
from sentinel.run_files.stream_lines import parse_line
from sentinel.tensorboard.charts import chart_name
from sentinel.tensorboard.effective import Cut, Effective
from sentinel.tensorboard.event_bytes import RowEncoder
from sentinel.tensorboard.event_file import EventFileWriter, FileEnd, event_name, first_step
from sentinel.tensorboard.incident_sheet import IncidentSheet
from sentinel.tensorboard.survivors import Begun, bounds

EFFECTIVE, PLACE = "effective", ".place.json"
VERSION = 1
PIECES_NOTED = 64  # a long past is written in thousands of pieces: so often it is noted how far that is
PLACE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class BoardPosition:
    """How far an attempt's board is: bytes of its stream that are taken, and the file's size and newest step then."""

    stream: int = 0
    size: int = 0
    step: int = -1


class AttemptBoard:
    """One attempt's stream as one event file: by rising steps, nothing twice, piece by piece. Where it stands is what the file
    holds; `reached` only saves the way there. Without it both are read from their beginnings, and steps that are in the file
    already are passed over. Raises OSError; make it anew then, from what was last `reached`."""

    def __init__(self, stream: Path, path: Path, reached: BoardPosition, encoder: RowEncoder) -> None:
        self.path = path
        self._encoder = encoder
        self._file = EventFileWriter(path, FileEnd(reached.size, reached.step))
        place = self._file.place
        is_known = place.size >= reached.size > 0
        self._stream = StreamPieces(stream, reached.stream if is_known else 0)
        step = max(place.step, reached.step if is_known else -1)
        self._steps = RisingSteps(step, after=-1 if place.size == reached.size else place.step)

    @property
    def reached(self) -> BoardPosition:
        return BoardPosition(self._stream.taken, self._file.place.size, self._steps.step)

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
                # a row of the step resumed from is the parent's
                self._steps.after = max(self._steps.after, reading.resume_step or -1)
            if not isinstance(reading, StepReading) or (row := self._steps.take(reading)) is None:
                continue
            metrics = {chart_name(name): value for name, value in row.metrics.items()}
            data = self._encoder.encode(row.step, row.time_s, metrics)
            if data:
                out.append(data)
                began_s = reading.time_s if began_s is None else began_s
        if out and began_s is not None:
            self._file.append(b"".join(out), self._steps.step, began_s)


def begun_attempts(state: RunState) -> list[Begun]:
    """The attempts of a run as far as the journal's state still knows them one by one."""
    return [Begun(attempt.attempt, attempt.resumed_step, attempt.is_over) for attempt in state.attempts]


class Board:
    """Raises OSError; make a new one then. Only one process at a time may write it: the supervisor, who has the run's lock."""

    def __init__(self, run_dir: Path, folder: Path | None = None) -> None:
        """`folder`: where to draw, RUN_DIR/tensorboard if not given."""
        self.folder = folder or run_dir / TENSORBOARD
        self._run_dir = run_dir
        self._encoder = RowEncoder()
        self._reached: dict[int, BoardPosition] = {}
        self._done: set[int] = set()  # over, and taken to the end
        self._first: dict[int, int] = {}
        self._open: dict[int, AttemptBoard] = {}
        self._effective = Effective(self.folder / EFFECTIVE)
        self._sheet = IncidentSheet(self.folder / EFFECTIVE)
        self._saved: object = None
        self._pieces = 0
        self._recall()

    def advance(self, attempts: Sequence[Begun], incidents: tuple[Incident, ...], created_s: float) -> bool:
        """Take the next piece, and when there is no more for now, stitch; whether there is more to take at once. `attempts` by
        rising number, the newest the one that lives; `created_s`: when the run began, Unix seconds."""
        if self.take(attempts):
            return True
        self._stitch(attempts)
        self._sheet.tell(incidents, created_s)
        self.remember()
        return False

    def take(self, attempts: Sequence[Begun]) -> bool:
        """A block of one stream, for the board of its attempt; whether there is more to take at once."""
        for begun in attempts:
            if not begun.is_over:
                self._done.discard(begun.attempt)
            if begun.attempt not in self._done and self._take(begun):
                self._pieces += 1
                if self._pieces % PIECES_NOTED == 0:
                    self.remember()
                return True
        return False

    def _stitch(self, attempts: Sequence[Begun]) -> None:
        begins = [Begun(begun.attempt, self._after_step(begun)) for begun in attempts]
        if attempts and attempts[0].attempt > 1:
            self._effective.cut_before(attempts[0].attempt, min(begun.after_step for begun in begins))
        self._effective.follow({begun.attempt: self.event_path(begun.attempt) for begun in begins}, bounds(begins))

    def event_path(self, attempt: int) -> Path:
        return self.folder / f"attempt-{attempt:04d}" / event_name(attempt)

    def reached_step(self, attempt: int) -> int:
        """The newest step on an attempt's board; -1 when there is none."""
        return self._reached.get(attempt, BoardPosition()).step

    def close(self) -> None:
        for board in self._open.values():
            board.close()
        self._open.clear()

    def _take(self, begun: Begun) -> bool:
        """A block of an attempt's stream; whether there is more of it."""
        number = begun.attempt
        stream, path = stream_path(self._run_dir, number), self.event_path(number)
        if number not in self._open:
            if not stream.is_file():
                if begun.is_over:
                    self._done.add(number)  # it never wrote a line, or somebody took its stream away: what is here stays
                return False
            self._open[number] = AttemptBoard(stream, path, self._reached.get(number, BoardPosition()), self._encoder)
        board = self._open[number]
        has_more = board.advance(begun.is_over)
        self._reached[number] = board.reached
        if begun.is_over and not has_more:
            self._done.add(number)
            board.close()
            del self._open[number]
        return has_more

    def _after_step(self, begun: Begun) -> int:
        """From where it went on: as the journal says, and below its first step even where the trainer did not say so."""
        number = begun.attempt
        if number not in self._first:
            first = first_step(self.event_path(number))
            if first is None:
                return begun.after_step
            self._first[number] = first
        return min(begun.after_step, max(0, self._first[number] - 1))

    def _recall(self) -> None:
        """What was noted is believed where the files agree, and else not needed."""
        try:
            with open(self.folder / PLACE, "rb", opener=regular) as file:
                noted = loads(file.read(PLACE_BYTES_MAX))
            if noted["v"] != VERSION:
                return
            attempts = noted["attempts"].items()
            self._reached = {
                int(number): BoardPosition(int(stream), int(size), int(step)) for number, (stream, size, step) in attempts
            }
            self._effective.cuts = {
                int(number): Cut(int(bound), int(whole), int(size)) for number, (bound, whole, size) in noted["cuts"].items()
            }
            over = {int(number) for number in noted["over"]}
            self._done = {number for number in over if _is_as_noted(self.event_path(number), self._reached.get(number))}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            self._reached, self._effective.cuts, self._done = {}, {}, set()

    def remember(self) -> None:
        """Note how far everything is."""
        places = {number: (at.stream, at.size, at.step) for number, at in self._reached.items()}
        cuts = {number: (cut.bound, cut.whole, cut.size) for number, cut in self._effective.cuts.items()}
        now = (places, cuts, frozenset(self._done))
        if now == self._saved:
            return
        document = {
            "v": VERSION,
            "attempts": {str(number): list(place) for number, place in places.items()},
            "cuts": {str(number): list(cut) for number, cut in cuts.items()},
            "over": sorted(self._done),
        }
        write_atomically(self.folder / PLACE, dumps(document).encode(), durable=False)
        self._saved = now


def _is_as_noted(path: Path, reached: BoardPosition | None) -> bool:
    if reached is None or reached.size == 0:
        return reached is not None
    try:
        return path.stat().st_size == reached.size
    except OSError:
        return False
