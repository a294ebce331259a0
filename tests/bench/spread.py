"""What a few measurements in turn tell: the order in which they are taken, and between which two numbers their median lies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def in_words(values: Sequence[float], unit: str = "s") -> str:
    """The median, least and most, and of how many."""
    return f"{statistics.median(values):.2f} {unit} ({min(values):.2f} to {max(values):.2f}, {len(values)} runs)"


def sure_of_median(values: list[float]) -> tuple[float, float]:
    """Between these the median of what was drawn from lies, in 95 of 100 such measurements: two of its ordered values, by the
    normal approximation of the binomial (Conover, Practical Nonparametric Statistics, 3.2); no shape is supposed."""
    ordered, half = sorted(values), 0.98 * math.sqrt(len(values))
    last = len(ordered) - 1
    low, high = math.floor(len(ordered) / 2 - half), math.ceil(len(ordered) / 2 + half)
    return ordered[max(low, 0)], ordered[min(high, last)]


def there_and_back(ways: Sequence[str]) -> tuple[str, ...]:
    """Each way twice, as A B C C B A: what rises or falls evenly meanwhile is in the mean of each way as much as of any other."""
    return (*ways, *reversed(ways))


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time in which training made so many steps."""

    seconds: float
    steps: int

    @property
    def pace(self) -> float:
        """Steps a second."""
        return self.steps / self.seconds


def lost_s(windows: Mapping[str, Sequence[Window]], way: str, nothing: str) -> float:
    """The seconds of training that one window of `way` lost, against the windows in which nothing was done; below zero where it
    was faster. `windows`: of one round there and back, by their way."""
    usual = statistics.mean(window.pace for window in windows[nothing])
    return statistics.mean(window.seconds - window.steps / usual for window in windows[way])


@dataclass(frozen=True, slots=True)
class Loss:
    """The median of several rounds, and between which two numbers it lies."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Loss:
        return cls(statistics.median(rounds), *sure_of_median(list(rounds)))

    def words(self, unit: str) -> str:
        between = f"median {self.median:.2f} {unit}, in 95 of 100 such measurements between {self.low:.2f} and {self.high:.2f}"
        if self.high < 0:
            return f"gained time ({between}), which nothing done beside it can cause: the clock measured something else"
        if self.low <= 0:
            return f"lost nothing that can be told from 0 ({between})"
        return f"lost time ({between})"

    def sees(self, known: float) -> bool:
        """Whether something that takes so much at most was found: surely more than nothing, and not surely more than that."""
        return 0 < self.low <= known
