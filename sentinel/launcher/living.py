"""Which attempts of a run have living processes, whatever the journal knows of them."""

from __future__ import annotations

import os
from pathlib import Path

from sentinel.client.run_layout import attempt_folder, attempts_folder
from sentinel.launcher.contract import Launcher
from sentinel.model.attempts import Alive, AttemptView, Orphaned, Unseen


def living_attempts(run_dir: Path, launcher: Launcher) -> dict[int, tuple[int, ...]]:
    """By number, the process ids. Of attempts that have a folder and no exit.json, which is written when one has ended.

    An attempt that cannot be seen from here is not among them. Raises OSError where the folder cannot be listed.
    """
    views = _views(run_dir, launcher)
    return {number: view.pids for number, view in views.items() if isinstance(view, Alive | Orphaned) and view.pids}


def unseen_attempts(run_dir: Path, launcher: Launcher) -> dict[int, str]:
    """By number, of those that have ended here and may live on other machines, why that is not known. Raises OSError as above."""
    views = _views(run_dir, launcher)
    return {number: view.reason for number, view in views.items() if isinstance(view, Unseen) and view.has_ended_here}


def _views(run_dir: Path, launcher: Launcher) -> dict[int, AttemptView]:
    try:
        names = os.listdir(attempts_folder(run_dir))
    except FileNotFoundError:
        return {}
    numbers = sorted(int(name) for name in names if name.isascii() and name.isdigit())
    unended = [number for number in numbers if not (attempt_folder(run_dir, number) / "exit.json").exists()]
    return {number: launcher.observe(number) for number in unended}
