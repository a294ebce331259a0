"""Where runs lie: the directories that a place holds, and what each is called on the page."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME, LEASE_NAME
from sentinel.client.strict_json import printable

RUNS_MAX = 64  # of one place, the newest
FOLDERS_MAX = 4096  # looked at to find them


def find_runs(place: Path, named: Collection[str] = ()) -> tuple[list[Path], int]:
    """`place` itself where it is a run; else the RUNS_MAX newest of those directly inside it and whose directories are `named`,
    by name, and how many others there are. None of them where it cannot be read."""
    if _newest_s(place) is not None:
        return [place], 0
    ages: list[tuple[float, Path]] = []
    more = [place / name for name in named if _newest_s(place / name) is not None]
    try:
        with os.scandir(place) as folder:
            for _, entry in zip(range(FOLDERS_MAX), folder, strict=False):
                age = _newest_s(place / entry.name)
                if age is not None:
                    ages.append((age, place / entry.name))
    except OSError:
        return [], 0
    shown = {path for _, path in sorted(ages, reverse=True)[:RUNS_MAX]} | set(more)
    return sorted(shown), len({path for _, path in ages} - shown)


def is_one_name(name: str) -> bool:
    """Of a directory, and no way out of the place that holds it."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # half a character, as JSON may spell one
        return False
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _newest_s(run_dir: Path) -> float | None:
    """When it was last supervised; None for what is no run."""
    try:
        journal = (run_dir / JOURNAL_NAME).stat()
    except OSError:
        return None
    if not stat.S_ISREG(journal.st_mode):
        return None
    newest_s = journal.st_mtime
    with suppress(OSError):
        newest_s = max(newest_s, (run_dir / LEASE_NAME).stat().st_mtime)
    return newest_s


def free_name(run_dir: Path, taken: set[str]) -> str:
    """The directory's own name; two runs of the same name are told apart by a number."""
    name = printable(run_dir.name)
    return next(one for one in (name, *(f"{name}~{number}" for number in range(2, len(taken) + 3))) if one not in taken)


def named(run_dir: Path, shown: Sequence[Path]) -> dict[str, str]:
    """`directory`: its own name. `place`: where it lies, if another of those that are shown has that name; else empty."""
    alike = sum(one.name == run_dir.name for one in shown)
    return {"directory": printable(run_dir.name), "place": printable(str(run_dir.parent)) if alike > 1 else ""}
