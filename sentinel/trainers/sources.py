"""Where the rows of a trainer appear that knows nothing of Sentinel: what it prints, files, TensorBoard's, trainer_state.json."""

from __future__ import annotations

import glob
import os
import time
from pathlib import Path

from sentinel.client.run_layout import attempt_folder
from sentinel.model.readings import StepReading
from sentinel.telemetry.log_formats import UnreadableLog, open_log
from sentinel.telemetry.log_reader import LogReader
from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.spec import TrainerSpec

FIND_EVERY_S = 1.0
MATCHES_MAX = 1000


class Source:
    """One place where rows may appear: opened when there is something in it. Rows that stood there before are passed over."""

    def __init__(self, path: Path, format: str, is_old: bool) -> None:
        self.path = path
        self._format = format
        self._reader: LogReader | None = None
        self._seen: tuple[int, int] | None = None
        if is_old:
            self.poll()

    def poll(self) -> list[StepReading]:
        """What is new. Never raises."""
        try:
            if self._reader is None and not self._open():
                return []
            assert self._reader is not None
            rows = self._reader.poll(time.monotonic())
            while self._reader.has_more:
                rows += self._reader.poll(time.monotonic())
            return rows
        except OSError:
            return []

    def finish(self) -> list[StepReading]:
        rows = self.poll()
        return rows if self._reader is None else rows + self._reader.finish()

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

    def __init__(self, pattern: str, format: str) -> None:
        self._pattern, self._format = pattern, format
        self._sources = {path: Source(Path(path), format, is_old=True) for path in self._found()}
        self._looked_s = time.monotonic()

    def _found(self) -> list[str]:
        return sorted(glob.glob(self._pattern, recursive=True))[:MATCHES_MAX]

    def poll(self) -> list[StepReading]:
        if time.monotonic() - self._looked_s >= FIND_EVERY_S:
            self._looked_s = time.monotonic()
            for path in self._found():
                self._sources.setdefault(path, Source(Path(path), self._format, is_old=False))
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
                file = Source(one.path / "trainer_state.json", "trainer-state", is_old=False)
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
        return [Source(logs / f"launcher.{end}", metrics.format, is_old=False) for end in ("out", "err")]
    if metrics.from_ == "trainer_state":
        return [NewestState(spec)]
    if metrics.from_ == "none":
        return []
    places = [os.path.join(spec.cwd, path.replace("{root}", str(spec.root))) for path in metrics.path]
    several = [Matching(place, metrics.format) for place in places if _is_pattern(place)]
    return [*several, *(Source(Path(place), metrics.format, is_old=True) for place in places if not _is_pattern(place))]


def _is_pattern(place: str) -> bool:
    return any(char in place for char in "*?[")
