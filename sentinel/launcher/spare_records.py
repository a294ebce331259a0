"""Exit records that lie in the second place (`client/spare_place.py`), because the run directory could not be written: found
there, and moved home when there is room again. What is at home is believed first, and what is nowhere stays unknown."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.spare_place import SparePlace, attempts_with_spares, is_in_use
from sentinel.client.strict_json import loads
from sentinel.run_files.attempt_files import AttemptFiles, rank_of_name


def read_spare_report(files: AttemptFiles) -> bytes | None:
    """exit.json as the keeper left it there."""
    return SparePlace(files.run_dir, files.attempt).read(files.exit.name) if is_in_use() else None


def read_spare_records(files: AttemptFiles) -> dict[int, Mapping[str, Any]]:
    """The ranks' own records there. One that is no JSON object is none."""
    if not is_in_use():
        return {}
    spare = SparePlace(files.run_dir, files.attempt)
    found: dict[int, Mapping[str, Any]] = {}
    for name in spare.names():
        rank, data = rank_of_name(name), spare.read(name)
        if rank is not None and data is not None:
            with suppress(ValueError):
                value = loads(data)
                found |= {rank: value} if isinstance(value, dict) else {}
    return found


def bring_home(run_dir: Path) -> None:
    """Move every record of this run from the second place to where it belongs. What cannot be moved now stays; nothing is raised.

    A record that is at home already is not replaced.
    """
    if not is_in_use():
        return
    for attempt in attempts_with_spares(run_dir):
        files = AttemptFiles(run_dir, attempt)
        spare = SparePlace(run_dir, attempt)
        with suppress(OSError):
            for name in spare.names():
                _move(files, spare, name)


def _move(files: AttemptFiles, spare: SparePlace, name: str) -> None:
    if name != files.exit.name and rank_of_name(name) is None:
        return
    home = files.exit if name == files.exit.name else files.exits / name
    data = spare.read(name)
    if data is None:
        return
    if not home.exists():
        write_atomically(home, data)
    spare.remove(name)
