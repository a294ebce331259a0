"""What the value of a setting may be: a number, a pair, a flag, one of some words. Standard library only.

Each type has the same four parts. `check` takes what JSON gave and returns the value, or raises ValueError or TypeError; `wanted`
ends the sentence "… cannot be used; write …"; `agrees` compares what a trainer reads back; `show` writes a value for people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sentinel.client.strict_json import as_float

CLOSE = 1e-6  # relative: float32 round trips


@dataclass(frozen=True)
class Number:
    """A finite number within bounds. `limit`: how the upper bound is written, where digits would be unreadable."""

    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    limit: str = ""

    @property
    def wanted(self) -> str:
        bounds = [f"above {self.above:g}"] if self.above is not None else []
        bounds += [f"{self.at_least:g} or above"] if self.at_least is not None else []
        bounds += [f"below {self.limit or format(self.below, 'g')}"] if self.below is not None else []
        bounds += [f"at most {self.limit or format(self.at_most, 'g')}"] if self.at_most is not None else []
        comma = "," if self.at_least is not None else ""
        return f"a finite number{comma} {' and '.join(bounds)}" if bounds else "a finite number"

    def check(self, value: object) -> float:
        number = as_float(value)
        too_low = (self.above is not None and number <= self.above) or (self.at_least is not None and number < self.at_least)
        too_high = (self.below is not None and number >= self.below) or (self.at_most is not None and number > self.at_most)
        if not math.isfinite(number) or too_low or too_high:
            raise ValueError
        return number

    def agrees(self, got: object, want: float) -> bool:
        return isinstance(got, (int, float)) and not isinstance(got, bool) and math.isclose(got, want, rel_tol=CLOSE)

    def show(self, value: float) -> str:
        return f"{value:g}"


@dataclass(frozen=True)
class Factor(Number):
    """A number that multiplies what the trainer's own schedule says. Policies write it as 0.5x."""

    above: float | None = 0

    def show(self, value: float) -> str:
        return f"{value:g}x"


@dataclass(frozen=True)
class WholeNumber:
    """A whole number."""

    at_least: int = 0

    @property
    def wanted(self) -> str:
        return f"a whole number, {self.at_least} or above" if self.at_least else "a whole number"

    def check(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < self.at_least:
            raise ValueError
        return value

    def agrees(self, got: object, want: int) -> bool:
        return got == want

    def show(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True)
class Steps(WholeNumber):
    """A number of steps. Policies write it as 200 steps."""

    at_least: int = 1


@dataclass(frozen=True)
class Pair:
    """Two numbers of one type: a list in JSON, a tuple here."""

    part: Number

    @property
    def wanted(self) -> str:
        low = f"[{self.part.at_least:g}" if self.part.at_least is not None else "("
        high = f"{self.part.below:g})" if self.part.below is not None else ")"
        return f"two numbers in {low}, {high}"

    def check(self, value: object) -> tuple[float, float]:
        if not isinstance(value, list):
            raise TypeError
        first, second = (self.part.check(item) for item in value)
        return first, second

    def agrees(self, got: object, want: tuple[float, float]) -> bool:
        return isinstance(got, (list, tuple)) and len(got) == 2 and all(map(self.part.agrees, got, want))

    def show(self, value: tuple[float, float]) -> str:
        return " ".join(self.part.show(item) for item in value)


@dataclass(frozen=True)
class Flag:
    """true asks for something, false for nothing."""

    @property
    def wanted(self) -> str:
        return "true or false"

    def check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value

    def agrees(self, got: object, want: bool) -> bool:
        return got is want

    def show(self, value: bool) -> str:
        return "yes" if value else "no"


@dataclass(frozen=True)
class Choice:
    """A word. `words`: those that a policy may ask for. Another is no error here: only the trainer can say whether it has it."""

    words: tuple[str, ...]

    @property
    def wanted(self) -> str:
        return f"{', '.join(self.words[:-1])} or {self.words[-1]}"

    def check(self, value: object) -> str:
        if not isinstance(value, str):
            raise TypeError
        return value

    def agrees(self, got: object, want: str) -> bool:
        return got == want

    def show(self, value: str) -> str:
        return value


ValueType = Number | WholeNumber | Pair | Flag | Choice
