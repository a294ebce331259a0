"""What the launchers have in common that drive a scheduler and find an attempt there by its name: the shell around each question.

A subclass says how an attempt is looked for, started and ended. Here stands what holds for all of them: what is on record needs
no scheduler, whoever only looks asks none, an end is believed when it is proven, and trouble of the disk is tried again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from sentinel.errors import GiveUp, NotYet, RetryLater
from sentinel.launcher.exit_report import read_report, read_start_failure
from sentinel.launcher.newest_view import NewestView, read_view_kept
from sentinel.launcher.spare_records import bring_home
from sentinel.model.attempts import AttemptSpec, AttemptView, Exited, NotStarted, Unseen
from sentinel.run_files.attempt_files import AttemptFiles

RETRY_IN_S = 5.0

Launched = TypeVar("Launched")


class NamedJobLauncher(ABC, Generic[Launched]):
    """`contract.Launcher`, but for `signal_ranks`. `Launched`: what was written down of a launch before anything was started.
    `who`: is asked, for people."""

    def __init__(self, run_dir: Path, who: str, *, supervises: bool) -> None:
        self._run_dir, self._who, self._supervises = run_dir, who, supervises

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        """As the contract says. The scheduler is asked beside the caller: what comes back is the last answer there was."""
        del with_processes  # it sees none
        files = AttemptFiles(self._run_dir, attempt)
        try:
            settled = self._settled(files)
            if settled is not None:
                return settled
            if not self._supervises:
                return read_view_kept(files, self._who)
            return self._watch_of(attempt).view(self._has_news(files))
        except (OSError, ValueError) as error:
            return Unseen(attempt, f"attempt {attempt} cannot be looked at: {error}")

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        """As the contract says. What has the attempt's name is looked for first, and adopted where it is there."""
        files = AttemptFiles(self._run_dir, spec.attempt)
        bring_home(self._run_dir)
        try:
            settled = self._settled(files)
            if isinstance(settled, Exited):
                if read_start_failure(files) == "certain":
                    raise GiveUp(settled.report.reason)
                return settled
            return self._start(files, spec)
        except (OSError, ValueError) as error:
            raise RetryLater(f"attempt {spec.attempt} cannot be started now: {error}", RETRY_IN_S) from error

    def ensure_stopped(self, attempt: int) -> AttemptView:
        """As the contract says. It has ended when that is proven."""
        files = AttemptFiles(self._run_dir, attempt)
        bring_home(self._run_dir)
        try:
            launched, settled = self._read_launched(files), self._settled(files)
            if launched is None or settled is not None:
                return settled if settled is not None else NotStarted(attempt)
            why_not = self._end_attempt(files, launched)
            if why_not:
                raise NotYet(f"attempt {attempt} is not known to have ended: {why_not}", RETRY_IN_S)
            return self._finish_stopped(files, launched)
        except (OSError, ValueError) as error:
            raise RetryLater(f"attempt {attempt} cannot be stopped now: {error}", RETRY_IN_S) from error

    def _settled(self, files: AttemptFiles) -> AttemptView | None:
        """What needs no scheduler: an attempt that has ended, or of which nothing was ever asked for."""
        report = read_report(files)
        if report is not None:
            return Exited(files.attempt, report)
        return NotStarted(files.attempt) if self._read_launched(files) is None else None

    @abstractmethod
    def _read_launched(self, files: AttemptFiles) -> Launched | None:
        """None where nothing was ever asked for. Raises OSError, ValueError."""

    @abstractmethod
    def _has_news(self, files: AttemptFiles) -> bool:
        """Whether something has happened that makes it worth asking now. Raises OSError, ValueError."""

    @abstractmethod
    def _start(self, files: AttemptFiles, spec: AttemptSpec) -> AttemptView:
        """Raises as `ensure_started`, and OSError and ValueError for what is tried again."""

    @abstractmethod
    def _end_attempt(self, files: AttemptFiles, launched: Launched) -> str:
        """End it. Empty where it is proven that nothing of it lives; else why it is not, and what ends the doubt."""

    @abstractmethod
    def _finish_stopped(self, files: AttemptFiles, launched: Launched) -> AttemptView:
        """Write exit.json of an attempt whose end is proven."""

    @abstractmethod
    def _watch_of(self, attempt: int) -> NewestView: ...
