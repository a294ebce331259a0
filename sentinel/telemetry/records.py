"""What two attempts wrote about the same steps, read from their streams and compared: the hands of `plan/diagnosis.py`.

The older record is that of the run as it stood when it failed: the failed attempt's own steps, and below them those of the
attempts it had come from.
"""

from __future__ import annotations

from pathlib import Path

from sentinel.model.readings import StepReading
from sentinel.model.records import Comparison
from sentinel.plan.diagnosis import compare
from sentinel.telemetry.lineage import read_history, read_own

STEPS_MAX = 20_000  # of one comparison


def compare_attempts(run_dir: Path, old: int, new: int, first: int, last: int) -> Comparison:
    """Steps first..last of both, at most STEPS_MAX of them. What is missing or damaged is not compared; nothing is raised."""
    last = min(last, first + STEPS_MAX)
    return compare(_record(run_dir, old, first, last), _record(run_dir, new, first, last), first, last)


def _record(run_dir: Path, attempt: int, first: int, last: int) -> dict[int, StepReading]:
    start, own = read_own(run_dir, attempt, last, last - first + 1)
    rows = {reading.step: reading for reading in own}
    if start >= first:
        rows |= {reading.step: reading for reading in read_history(run_dir, attempt, start, start - first + 1)}
    return rows
