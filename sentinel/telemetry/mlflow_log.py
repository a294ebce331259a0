"""A run in MLflow's file store, `mlruns/EXPERIMENT/RUN`: a file for each metric below `metrics/`, a line for each value.

A line is the time in milliseconds, the value and the step (the file store of MLflow 3.17). The files grow
one by one: a step is given out when a later one has come in any of them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import LARGEST_INT
from sentinel.telemetry.joined_steps import JoinedSteps
from sentinel.telemetry.log_reader import ROWS_PER_POLL, NotedLog
from sentinel.telemetry.metric_names import canonical

READ_BYTES = 64 << 10
FILES_MAX = 10_000
META, METRICS = "meta.yaml", "metrics"


def is_mlflow_run(folder: Path) -> bool:
    return (folder / METRICS).is_dir() and (folder / META).is_file()


@dataclass
class _MetricFile:
    path: Path
    name: str
    offset: int = 0
    values: deque[tuple[int, float, float]] = field(default_factory=deque)  # step, time, value
    is_read: bool = False  # to its end, in this poll


class MlflowLog(NotedLog):
    """The metrics of one run, by step."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._files: dict[Path, _MetricFile] = {}
        self._steps = JoinedSteps()

    def poll(self, now_s: float) -> list[StepReading]:
        del now_s
        self._find()
        for one in self._files.values():
            one.is_read = False
        out: list[StepReading] = []
        self.has_more = False
        for step, time_s, metrics in self._by_step():
            out += self._steps.add(step, time_s, metrics)
            if len(out) >= ROWS_PER_POLL:
                self.has_more = True
                break
        return out

    def finish(self) -> list[StepReading]:
        return self._steps.finish()

    def _find(self) -> None:
        top = self.path / METRICS
        for folder, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                path = Path(folder) / name
                if path in self._files or len(self._files) >= FILES_MAX:
                    continue
                metric = canonical(path.relative_to(top).as_posix())
                self._files[path] = _MetricFile(path, "" if metric in ("step", "time_s") else metric)

    def _by_step(self) -> Iterator[tuple[int, float, dict[str, float]]]:
        files = [one for one in self._files.values() if one.name]
        while True:
            for one in files:
                while not one.values and not one.is_read:
                    self._read(one)
            heads = [one.values[0][0] for one in files if one.values]
            if not heads:
                return
            step, time_s = min(heads), 0.0
            metrics: dict[str, float] = {}
            for one in files:
                if one.values and one.values[0][0] == step:
                    _, time_s, value = one.values.popleft()
                    metrics.setdefault(one.name, value)
            yield step, time_s, metrics

    def _read(self, one: _MetricFile) -> None:
        try:
            with open(one.path, "rb", opener=regular) as file:
                file.seek(one.offset)
                block = file.read(READ_BYTES)
        except FileNotFoundError:  # deleted by somebody; the others go on
            block = b""
        end = block.rfind(b"\n") + 1
        one.offset += end
        one.is_read = len(block) < READ_BYTES or end == 0
        for line in block[:end].splitlines():
            try:
                at_ms, value, step = line.split()[:3]
                found = int(step), int(at_ms) / 1e3, float(value)
            except ValueError:
                self._note(f"{one.path.relative_to(self.path)}: {line[:60]!r} is no time, value and step")
                continue
            if 0 <= found[0] < LARGEST_INT:
                one.values.append(found)
