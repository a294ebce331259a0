"""What every source of readings promises, and how one says that it went blind.

A source reads a damaged, changing world and never raises for it. Blind is a state and not an event: it is reported once when
it begins and once when it ends, because verdicts that need the source are unknown in between. A new supervisor does not know
what the one before it reported last, so a source that is blind at its first poll is reported as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from sentinel.model.readings import Reading, SourceReading


class Source(Protocol):
    """One place in the world that is polled."""

    @property
    def has_more(self) -> bool:
        """True when the last poll stopped at its bound: poll again at once, nothing has been seen to its end."""
        ...

    def poll(self, now_s: float) -> list[Reading]:
        """What is new since the last poll, in the order it happened; a bounded batch. `now_s`: session clock, seconds."""
        ...


class SourceHealth:
    """Whether a source can see. It outlives the attempts, so that a blindness that began in one can end in the next.

    >>> health = SourceHealth("metrics")
    >>> health.lost("permission denied"), health.lost("permission denied")
    ([SourceReading(source='metrics', ok=False, reason='permission denied', remark=False)], [])
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._ok: bool | None = None
        self._is_overdue = False

    @property
    def sees(self) -> bool:
        """It was said that the source sees, and nothing else since."""
        return self._ok is True

    @property
    def is_blind(self) -> bool:
        """It was said that the source cannot see, and nothing else since."""
        return self._ok is False

    def lost(self, reason: str) -> list[SourceReading]:
        """The source cannot see. One reading when that is new, none when it was known."""
        if self._ok is False:
            return []
        self._ok = False
        return [SourceReading(self.source, ok=False, reason=reason)]

    def regained(self, reason: str = "it can be read") -> list[SourceReading]:
        """The source sees. One reading when it was blind before or never looked, none otherwise."""
        if self._ok:
            return []
        self._ok = True
        return [SourceReading(self.source, ok=True, reason=reason)]

    def overdue(self, reason: str) -> list[SourceReading]:
        """The source has not answered in time, whatever it said before. One reading when that is new."""
        if self._is_overdue:
            return []
        self._is_overdue = True
        return [SourceReading(self.source, ok=False, reason=reason)]

    def answered(self) -> list[SourceReading]:
        """It answers. One reading after `overdue`; blind it may still be, for what it said itself."""
        if not self._is_overdue:
            return []
        self._is_overdue = False
        return [SourceReading(self.source, ok=self._ok is not False, reason="it answers again")]

    def remark(self, reason: str) -> list[SourceReading]:
        """Something a person should know about a source that sees all the same (a damaged line, a truncation)."""
        return [SourceReading(self.source, ok=True, reason=reason, remark=True)] if self._ok else []


def describe_os_error(error: OSError, path: Path | None = None) -> str:
    """An operating system's error in one short clause, with its own path or else the one given."""
    text = error.strerror or type(error).__name__
    place = error.filename or path
    return f"{place}: {text}" if place else text
