"""A second name for what a library has saved, so that a checkpoint costs no second copy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def link_tree(source: Path, target: Path) -> None:
    """Every file below `source` below `target`, too: linked, or copied where the filesystem cannot. Raises OSError."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, place)
        except OSError:
            shutil.copyfile(path, place)


def let_go(folder: Path) -> None:
    """Before the library writes over `folder`: files that have a second name there are unlinked, or the other would change as
    well. Raises OSError."""
    for path in folder.rglob("*") if folder.is_dir() else ():
        if path.is_file() and path.stat().st_nlink > 1:
            path.unlink()
