"""Errors a caller can act on. What is raised here is text for a person; bugs are `AssertionError`s and stay bugs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with something a person wrote: what, where, and what to write instead.

    `path` is the place inside the document (`spec.rules[2].for`); `line` and `column` count from 1 and are 0 where no
    text stands behind the value. `at` is a place inside the value (a character, from 0), where the value is a text with a
    grammar of its own: an expression. `file` is the file it stands in, where that is not the one that was asked for but one
    which that one extends. `hides`: what stands there may be a secret, and is not shown.
    """

    path: str
    message: str
    remedy: str = ""
    severity: Literal["error", "warning"] = "error"
    line: int = 0
    column: int = 0
    at: int | None = None
    file: str = ""
    hides: bool = False


class SentinelError(Exception):
    """The root: `str(error)` is a sentence for a person."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(SentinelError):
    """The command cannot be carried out as given; nothing was started."""


class PolicyError(SentinelError):
    """A policy file cannot be used. The message prints every problem; `.problems` holds them one by one."""

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class RetryLater(SentinelError):
    """It failed, and may work when tried again after `retry_in_s` seconds."""

    def __init__(self, message: str, retry_in_s: float) -> None:
        super().__init__(message)
        self.retry_in_s = retry_in_s


class PerhapsDelivered(RetryLater):
    """It was sent whole, and no answer came in time: whoever it was for may have it, and sees each further try as another one."""


class GoesOn(RetryLater):
    """Nothing has failed: it is under way, and is asked about again after `retry_in_s` seconds, for as long as it is wanted."""


class NotYet(GoesOn):
    """It was done, and nothing proves that it took effect: what cannot be seen may still live. Told once, and asked about
    again."""


class EngineDown(RetryLater):
    """The scheduler did not do it, or does not answer: trouble of its own. When it is tried again is for the engine to choose."""


class LeaseOverdue(RetryLater):
    """The lease on the run could not be renewed in time: another supervisor may take the run, or has. This one acts no more until
    it has taken the run anew."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_in_s=1.0)


class GiveUp(SentinelError):
    """It failed, and trying again the same way cannot help."""


class JournalError(SentinelError):
    """The journal cannot be written or read; names the file and the remedy. Nothing unacknowledged may be acted upon."""


class JournalEmpty(JournalError):
    """The journal's file has no tables: it was never written, or was emptied."""


class LostHistory(JournalError):
    """The run has gone on beyond what its journal holds; nothing was touched. `.missing`: by what that is seen, a line each."""

    def __init__(self, message: str, missing: tuple[str, ...]) -> None:
        super().__init__(message)
        self.missing = missing


class JournalBlocked(JournalError):
    """The journal cannot be written now (a full disk, a failing server), and may be again when that has passed."""


class OutOfReach(JournalBlocked):
    """The run directory cannot be reached now: it was moved or closed, or its filesystem is away."""


class WatchLost(SentinelError):
    """Supervision had begun and cannot go on; the processes of the run were left as they are."""


class Fenced(SentinelError):
    """A supervisor with a higher epoch has taken the run over: stop writing, act no more, leave."""


class AlreadySupervised(UsageError):
    """Another living supervisor holds the run directory. `is_elsewhere`: on a machine that cannot be looked at from here, or
    behind a lease that is being counted, so that it may run out."""

    def __init__(self, message: str, *, is_elsewhere: bool = False) -> None:
        super().__init__(message)
        self.is_elsewhere = is_elsewhere
