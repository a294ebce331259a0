"""The settings of an attached run: those in force, and what of a live change this trainer cannot do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sentinel.client.overrides import Overrides
from sentinel.client.settings import LAPSING, SETTINGS


class LiveSettings:
    """Attributes:
    values: key → the value asked for, for each setting that may lapse; a key that is not there is as configured.
    until: key → the first step at which it is as configured again.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.until: dict[str, int] = {}

    def take(self, overrides: Overrides) -> None:
        """A missing key leaves its setting; null makes it the configured one."""
        for key in LAPSING:
            if key in overrides.given:
                self.until.pop(key, None)
                self.values.pop(key, None)
                if (value := getattr(overrides, key)) is not None:
                    self.values[key] = value
        self.until.update(overrides.until)

    def drop(self, keys: Iterable[str]) -> None:
        """What was refused is not in force, nor will be."""
        for key in keys:
            self.values.pop(key, None)
            self.until.pop(key, None)

    def lapse(self, step: int) -> list[str]:
        """What no longer holds at `step` goes back; the keys that were in force."""
        over = [key for key, end in self.until.items() if step >= end]
        for key in over:
            del self.until[key]
        return [key for key in over if self.values.pop(key, None) is not None]


def refusals(overrides: Overrides, can: Collection[str], why: Mapping[str, str]) -> dict[str, str]:
    """Key → reason, of what is asked for and not among what this trainer `can` do. `why`: the reasons that are known."""
    asked = [key for key, row in SETTINGS.items() if row.is_asked(getattr(overrides, key))]
    asked += ["skip"] if overrides.skip else []
    return {key: why.get(key, "this trainer has no such setting") for key in asked if key not in can}
