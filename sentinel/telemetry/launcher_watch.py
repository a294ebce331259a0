"""Asks the launcher about the attempt and reports its view when it changed. Not being able to look is blindness, not death.

A look is taken every LOOK_EVERY_S, and at once when the keeper's files changed. Which processes live is not asked: a walk through
every process of the machine would be a fifth of what a supervisor costs, and nobody reads the answer (whoever captures evidence
or kills looks for himself). An attempt that has exited stays exited and is looked at no more.
"""

from __future__ import annotations

import os
from pathlib import Path

from sentinel.client.run_layout import attempt_folder
from sentinel.launcher.contract import Launcher
from sentinel.model.attempts import AttemptView, Exited, Unseen
from sentinel.model.readings import LauncherReading, Reading
from sentinel.telemetry.source import SourceHealth

LOOK_EVERY_S = 0.5
_KEEPER_FILES = ("exit.json", "keeper.json")

Signature = tuple[int, int] | None


class LauncherWatch:
    """The launcher's view of one attempt."""

    def __init__(self, launcher: Launcher, run_dir: Path, attempt: int, health: SourceHealth | None = None) -> None:
        self.attempt = attempt
        self._launcher = launcher
        folder = attempt_folder(run_dir, attempt)
        self._keeper_files = tuple(folder / name for name in _KEEPER_FILES)
        self._health = health if health is not None else SourceHealth("launcher")
        self._view: AttemptView | None = None
        self._observed_s: float | None = None
        self._signatures: tuple[Signature, ...] = ()

    @property
    def has_more(self) -> bool:
        return False

    def poll(self, now_s: float) -> list[Reading]:
        """The view if it is due and new: at most one of each, a word on sight and a view."""
        signatures = tuple(_signature(path) for path in self._keeper_files)
        is_due = self._observed_s is None or now_s - self._observed_s >= LOOK_EVERY_S or signatures != self._signatures
        if not is_due or isinstance(self._view, Exited):
            return []
        self._observed_s, self._signatures = now_s, signatures
        view = self._launcher.observe(self.attempt, with_processes=False)
        if isinstance(view, Unseen) and not view.has_ended_here:
            self._view = None  # whatever is seen next is news
            return [*self._health.lost(view.reason)]
        out: list[Reading] = [*self._health.regained()]
        if view != self._view:
            self._view = view
            out.append(LauncherReading(view))
        return out


def _signature(path: Path) -> Signature:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
