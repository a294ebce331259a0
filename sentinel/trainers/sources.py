"""Where the rows of a trainer appear that knows nothing of Sentinel: what it prints, files of loggers, trainer_state.json."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Mapping
from pathlib import Path

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import attempt_folder
from sentinel.client.strict_json import dumps, loads
from sentinel.model.readings import StepReading
from sentinel.telemetry.log_formats import UnreadableLog, open_log
from sentinel.telemetry.log_reader import LogReader
from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.spec import TrainerSpec

FIND_EVERY_S = 1.0
MATCHES_MAX = 1000
RUNS_OF = {"wandb": "*run-*/run-*.wandb", "mlflow": "*/*"}
"""Below the folder of a logger: what each launch of a trainer begins anew."""
DEFAULT_FOLDERS = {"wandb": "wandb", "mlflow": "mlruns"}
COUNTS_NAME = "rows_before.json"  # of files that were there before the attempt


class Source:
    """One place where rows may appear: opened when there is something in it. `passes`: rows that stood there before."""

    def __init__(self, path: Path, format: str, passes: int = 0) -> None:
        self.path = path
        self._passes = passes
        self._format = format
        self._reader: LogReader | None = None
        self._seen: tuple[int, int] | None = None

    def poll(self) -> list[StepReading]:
        """What is new. Never raises."""
        try:
            if self._reader is None and not self._open():
                return []
            assert self._reader is not None
            rows = self._reader.poll(time.monotonic())
            while self._reader.has_more:
                rows += self._reader.poll(time.monotonic())
            return self._new(rows)
        except OSError:
            return []

    def finish(self) -> list[StepReading]:
        rows = self.poll()
        return rows if self._reader is None else rows + self._new(self._reader.finish())

    def _new(self, rows: list[StepReading]) -> list[StepReading]:
        passed = min(self._passes, len(rows))
        self._passes -= passed
        return rows[passed:]

    def _open(self) -> bool:
        try:
            status = os.stat(self.path)
            if self._seen == (status.st_size, status.st_mtime_ns):
                return False
            self._seen = (status.st_size, status.st_mtime_ns)
            _, self._reader = open_log(self.path, self._format)
        except (UnreadableLog, OSError):
            return False
        return True


class Matching:
    """Files that match a pattern, which may come later: a logger makes a new folder at each launch."""

    def __init__(self, pattern: str, format: str, before: Mapping[str, int]) -> None:
        self._pattern, self._format, self._before = pattern, format, before
        self._sources: dict[str, Source] = {}
        self._looked_s = float("-inf")

    def _found(self) -> list[str]:
        return sorted(glob.glob(self._pattern, recursive=True))[:MATCHES_MAX]

    def poll(self) -> list[StepReading]:
        if time.monotonic() - self._looked_s >= FIND_EVERY_S:
            self._looked_s = time.monotonic()
            for path in self._found():
                self._sources.setdefault(path, Source(Path(path), self._format, self._before.get(path, 0)))
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
                file = Source(one.path / "trainer_state.json", "trainer-state")
                rows += [row for row in file.finish() if row.step > self._newest]
                self._newest = max([self._newest, *(row.step for row in rows)])
            return rows
        except OSError:
            return []

    def finish(self) -> list[StepReading]:
        return self.poll()


def open_sources(run_dir: Path, attempt: int, spec: TrainerSpec) -> list[Source | Matching | NewestState]:
    """Where the profile says that the rows are."""
    metrics = spec.profile.spec.metrics
    if metrics.from_ == "output":
        logs = attempt_folder(run_dir, attempt) / "logs"
        return [Source(logs / f"launcher.{end}", metrics.format) for end in ("out", "err")]
    if metrics.from_ == "trainer_state":
        return [NewestState(spec)]
    if metrics.from_ == "none":
        return []
    before = read_counts(run_dir, attempt)
    found: list[Source | Matching | NewestState] = []
    for place in _places(spec):
        if _is_pattern(place):
            found.append(Matching(place, metrics.format, before))
        else:
            found.append(Source(Path(place), metrics.format, before.get(place, 0)))
    return found


def count_rows(spec: TrainerSpec) -> dict[str, int]:
    """Of each file that the profile names, the rows that stand in it. Asked before the trainer starts."""
    metrics = spec.profile.spec.metrics
    if metrics.from_ in ("output", "trainer_state", "none"):
        return {}
    files = {path for place in _places(spec) for path in (glob.glob(place, recursive=True) if _is_pattern(place) else [place])}
    return {path: len(Source(Path(path), metrics.format).finish()) for path in sorted(files)[:MATCHES_MAX]}


def write_counts(run_dir: Path, attempt: int, counts: Mapping[str, int]) -> None:
    """Raises OSError."""
    write_atomically(attempt_folder(run_dir, attempt) / COUNTS_NAME, dumps(dict(counts)).encode())


def read_counts(run_dir: Path, attempt: int) -> dict[str, int]:
    try:
        return dict(loads(read_regular(attempt_folder(run_dir, attempt) / COUNTS_NAME)))
    except (OSError, ValueError, TypeError):
        return {}


def _places(spec: TrainerSpec) -> list[str]:
    root = glob.escape(str(spec.root))
    metrics = spec.profile.spec.metrics
    within = RUNS_OF.get(metrics.from_, "")
    paths = metrics.path or (DEFAULT_FOLDERS[metrics.from_],)
    return [os.path.join(glob.escape(spec.cwd), path.replace("{root}", root), within).rstrip("/") for path in paths]


def _is_pattern(place: str) -> bool:
    return glob.has_magic(place)
