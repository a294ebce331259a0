"""Where the rows of a trainer appear that knows nothing of Sentinel: what it prints, files of loggers, trainer_state.json."""

from __future__ import annotations

import glob
import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular, regular
from sentinel.client.run_layout import attempt_folder
from sentinel.client.strict_json import dumps, loads
from sentinel.model.readings import StepReading
from sentinel.telemetry.log_formats import NoStepYet, UnreadableLog, format_at_end, open_log
from sentinel.telemetry.log_reader import LineLog, LogReader
from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.profile import Metrics
from sentinel.trainers.spec import TrainerSpec

FIND_EVERY_S = 1.0
FORMAT_WAITS = 20  # times as long as a look for the format took, until the next
MATCHES_MAX = 1000
MARK_BYTES = 4096
RUNS_OF = {"wandb": "*run-*/run-*.wandb", "mlflow": "*/*"}
"""Below the folder of a logger: what each launch of a trainer begins anew."""
WITHOUT_FILES = ("output", "trainer_state", "none")
DEFAULT_FOLDERS = {"wandb": "wandb", "mlflow": "mlruns"}
COUNTS_NAME = "rows_before.json"  # of files that were there before the attempt


@dataclass(frozen=True, slots=True)
class Before:
    """What stood in a file before the attempt: so many rows. Of a file of lines also its bytes and a digest of its end: by these
    it is seen whether the trainer goes on behind them or begins the file anew."""

    rows: int = 0
    size: int = 0
    mark: str = ""

    def stands(self, path: Path) -> bool:
        """Whether it is still there. Raises OSError."""
        return not self.mark or _mark(path, self.size) == self.mark


NOTHING_BEFORE = Before()


def _mark(path: Path, size: int) -> str:
    """Of the last bytes up to `size`. Raises OSError."""
    with open(path, "rb", opener=regular) as file:
        file.seek(max(0, size - MARK_BYTES))
        return hashlib.sha256(file.read(min(size, MARK_BYTES))).hexdigest()


class RowSource:
    """One place where rows may appear: opened when there is something in it."""

    def __init__(self, path: Path, format: str, before: Before = NOTHING_BEFORE) -> None:
        self.path = path
        self._before = before
        self._passes = before.rows
        self._format = format
        self._reader: LogReader | None = None
        self._seen: tuple[int, int] | None = None
        self._next_s = float("-inf")  # when it is looked at again for its format

    def poll(self) -> list[StepReading]:
        """What is new. Never raises."""
        try:
            if self._reader is None and not self._open():
                return []
            assert self._reader is not None
            if self._passes and not self._before.stands(self.path):
                self._passes = 0  # the trainer began it anew
            rows = self._reader.poll(time.monotonic())
            while self._reader.has_more:
                rows += self._reader.poll(time.monotonic())
            return self._new(rows)
        except OSError:
            return []

    def finish(self) -> list[StepReading]:
        self._next_s = float("-inf")
        rows = self.poll()
        return rows if self._reader is None else rows + self._new(self._reader.finish())

    def count(self) -> Before:
        """What stands in it now, to be passed over later."""
        rows = len(self.finish())
        if not isinstance(self._reader, LineLog):  # a document is written anew with all its rows, or is a folder
            return Before(rows)
        try:
            size = os.stat(self.path).st_size
            return Before(rows, size, _mark(self.path, size))
        except OSError:
            return Before(rows)

    def _new(self, rows: list[StepReading]) -> list[StepReading]:
        passed = min(self._passes, len(rows))
        self._passes -= passed
        return rows[passed:]

    def _open(self) -> bool:
        try:
            status = os.stat(self.path)
            began_s = time.monotonic()
            if self._seen == (status.st_size, status.st_mtime_ns) or began_s < self._next_s:
                return False
            self._seen = (status.st_size, status.st_mtime_ns)
            try:
                _, self._reader = open_log(self.path, self._format)
            except NoStepYet:
                if (found := format_at_end(self.path)) is None:
                    raise
                _, self._reader = open_log(self.path, found)
            finally:
                now_s = time.monotonic()
                self._next_s = now_s + FORMAT_WAITS * (now_s - began_s)  # of 8 MiB without a step a look takes a second
        except (UnreadableLog, OSError):
            return False
        return True


class Matching:
    """Files that match a pattern, which may come later: a logger makes a new folder at each launch."""

    def __init__(self, pattern: str, format: str, before: Mapping[str, Before]) -> None:
        self._pattern, self._format, self._before = pattern, format, before
        self._sources: dict[str, RowSource] = {}
        self._looked_s = float("-inf")

    def _found(self) -> list[str]:
        return sorted(glob.glob(self._pattern, recursive=True))[:MATCHES_MAX]

    def poll(self) -> list[StepReading]:
        if time.monotonic() - self._looked_s >= FIND_EVERY_S:
            self._looked_s = time.monotonic()
            for path in self._found():
                self._sources.setdefault(path, RowSource(Path(path), self._format, self._before.get(path, NOTHING_BEFORE)))
        return [row for source in self._sources.values() for row in source.poll()]

    def finish(self) -> list[StepReading]:
        self._looked_s = float("-inf")
        rows = self.poll()
        return rows + [row for source in self._sources.values() for row in source.finish()]


class NewestState:
    """The newest trainer_state.json among the checkpoints."""

    def __init__(self, spec: TrainerSpec) -> None:
        self._spec = spec
        self._newest = spec.resume_step or 0

    def poll(self) -> list[StepReading]:
        places, root = self._spec.profile.spec.checkpoints, self._spec.root
        if places is None or root is None:
            return []
        try:
            found = [one for one in find_checkpoints(places, root) if one.step > self._newest]
            rows: list[StepReading] = []
            for one in found:
                file = RowSource(one.path / "trainer_state.json", "trainer-state")
                rows += [row for row in file.finish() if row.step > self._newest]
                self._newest = max([self._newest, *(row.step for row in rows)])
            return rows
        except OSError:
            return []

    def finish(self) -> list[StepReading]:
        return self.poll()


def open_sources(run_dir: Path, attempt: int, spec: TrainerSpec) -> list[RowSource | Matching | NewestState]:
    """Where the profile says that the rows are."""
    metrics = spec.profile.spec.metrics
    if metrics.from_ == "output":
        logs = attempt_folder(run_dir, attempt) / "logs"
        return [RowSource(logs / f"launcher.{end}", metrics.format) for end in ("out", "err")]
    if metrics.from_ == "trainer_state":
        return [NewestState(spec)]
    if metrics.from_ == "none":
        return []
    before = read_counts(run_dir, attempt)
    found: list[RowSource | Matching | NewestState] = []
    for place in metric_places(spec):
        if _is_pattern(place):
            found.append(Matching(place, metrics.format, before))
        else:
            found.append(RowSource(Path(place), metrics.format, before.get(place, NOTHING_BEFORE)))
    return found


def count_rows(spec: TrainerSpec) -> dict[str, Before]:
    """Of each file that the profile names, what stands in it. Asked before the trainer starts."""
    places = metric_places(spec)
    files = {path for place in places for path in (glob.glob(place, recursive=True) if _is_pattern(place) else [place])}
    return {path: RowSource(Path(path), spec.profile.spec.metrics.format).count() for path in sorted(files)[:MATCHES_MAX]}


def write_counts(run_dir: Path, attempt: int, counts: Mapping[str, Before]) -> None:
    """Raises OSError."""
    plain = {path: asdict(before) for path, before in counts.items()}
    write_atomically(attempt_folder(run_dir, attempt) / COUNTS_NAME, dumps(plain).encode())


def read_counts(run_dir: Path, attempt: int) -> dict[str, Before]:
    try:
        plain = loads(read_regular(attempt_folder(run_dir, attempt) / COUNTS_NAME))
        return {path: Before(**before) for path, before in plain.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def metric_places(spec: TrainerSpec) -> list[str]:
    """Paths and patterns of what the profile names; of one that has no files of its own, none."""
    if spec.profile.spec.metrics.from_ in WITHOUT_FILES:
        return []
    return places_of(spec.profile.spec.metrics, str(spec.root), spec.cwd)


def places_of(metrics: Metrics, root: str, cwd: str) -> list[str]:
    """Absolute paths and patterns of the files of metrics that have any. `root`: of the checkpoints."""
    within = RUNS_OF.get(metrics.from_, "")
    paths = metrics.path or (DEFAULT_FOLDERS[metrics.from_],)
    return [os.path.join(glob.escape(cwd), path.replace("{root}", glob.escape(root)), within).rstrip("/") for path in paths]


def _is_pattern(place: str) -> bool:
    return glob.has_magic(place)
