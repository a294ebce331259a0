"""A recorded run, read into a table of its loss for `behind_reference`: any log that replay can read, in bounded memory.

reference = read_reference(Path("other-run/metrics.jsonl"))
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median

from sentinel.client.run_layout import STREAM_NAME
from sentinel.detectors.behind_reference import samples_of
from sentinel.detectors.reference import Reference
from sentinel.errors import PolicyError, Problem, UsageError
from sentinel.model.readings import StepReading
from sentinel.policy.problems import print_problems
from sentinel.policy.schema import Policy
from sentinel.telemetry.log_reader import read_to_end
from sentinel.telemetry.source import describe_os_error

POINTS_MAX = 2048
ROWS_PER_POINT = 5  # at first; doubled when the table is full
ROWS_MIN = 20

Row = tuple[float, float, float | None, float | None]
"""Step, loss, tokens, samples."""


def read_reference(path: Path, format: str = "auto") -> Reference:
    """Raises UsageError, with a sentence, for what cannot be read or holds no loss to compare with."""
    from sentinel.telemetry.log_formats import open_log  # all of them: few policies name such a run, and every start reads one

    table = Table()
    try:
        _, reader = open_log(path, format)
        for reading in read_to_end(reader):
            table.add(reading)
    except OSError as error:
        raise UsageError(f"reference {describe_os_error(error, path)}") from None
    except UsageError as error:
        raise UsageError(f"reference {error.message}") from None
    if table.rows < ROWS_MIN:
        raise UsageError(f"reference {path}: {table.rows} steps with a loss; at least {ROWS_MIN} are needed to compare with")
    return table.finish(path.name if path.name != STREAM_NAME else f"{path.parent.name}/{path.name}")


def load_reference(policy: Policy, policy_path: str | Path) -> Reference | None:
    """The run that the policy compares with; None where it names none. A relative path starts at the policy file.

    Raises PolicyError when it cannot be read: a comparison that was asked for and never made would look like health.
    """
    named = policy.spec.detectors.behind_reference.reference
    if named is None or not policy.spec.detectors.behind_reference.enabled:
        return None
    try:
        return read_reference(Path(policy_path).parent / named)
    except UsageError as error:
        place, remedy = "spec.detectors.behind_reference.reference", "name a log of the other run, or remove the setting"
        problem = Problem(place, error.message, remedy)
        raise PolicyError(print_problems(str(policy_path), "", (problem,)), (problem,)) from None


class Table:
    """Medians of neighbouring rows. A resumed run writes steps again: the newest writing of a step is the one that counts."""

    def __init__(self) -> None:
        self.rows = 0
        self._points: list[Row] = []
        self._part: list[Row] = []
        self._width = ROWS_PER_POINT

    def add(self, reading: StepReading) -> None:
        loss = reading.metrics.get("loss")
        if loss is None or loss - loss != 0.0:
            return
        newest = self._part[-1][0] if self._part else self._points[-1][0] if self._points else -1.0
        if reading.step <= newest:
            self._rewind(reading.step)
        self.rows += 1
        row = float(reading.step), loss, reading.metrics.get("consumed_tokens"), samples_of(reading)
        self._part.append(row)
        if len(self._part) >= self._width:
            self._points.append(_middle(self._part))
            self._part.clear()
            if len(self._points) >= 2 * POINTS_MAX:
                self._points = [_middle([a, b]) for a, b in zip(self._points[::2], self._points[1::2], strict=True)]
                self._width *= 2

    def finish(self, name: str) -> Reference:
        if self._part:
            self._points.append(_middle(self._part))
            self._part.clear()
        steps, losses, tokens, samples = zip(*self._points, strict=True)
        return Reference(name, steps, losses, _rising(tokens), _rising(samples))

    def _rewind(self, step: int) -> None:
        self._part = [row for row in self._part if row[0] < step]
        while self._points and self._points[-1][0] >= step:
            self._points.pop()


def _middle(rows: list[Row]) -> Row:
    """Their median loss, at the middle of their places; a place that one of them lacks is left out."""
    steps, losses, tokens, samples = zip(*rows, strict=True)
    return sum(steps) / len(rows), median(losses), _mean(tokens), _mean(samples)


def _mean(values: tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _rising(places: tuple[float | None, ...]) -> tuple[float, ...]:
    """An axis is whole and rises, or there is none."""
    known = tuple(place for place in places if place is not None)
    rises = all(a <= b for a, b in pairwise(known))
    return known if len(known) == len(places) and rises else ()
