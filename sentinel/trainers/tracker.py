"""The file in which some trainers name their newest whole checkpoint."""

from __future__ import annotations

from pathlib import Path

from sentinel.client.regular_file import read_regular
from sentinel.trainers.profile import CheckpointFiles


def tracked_step(places: CheckpointFiles, root: Path) -> int:
    """Of the tracker; -1 where it names none."""
    if places.tracker is None:
        return -1
    try:
        text = read_regular(root / places.tracker.file).decode("utf-8", "replace").strip()
    except OSError:
        return -1
    before, _, after = places.tracker.text.partition("{step}")
    digits = text.removeprefix(before).removesuffix(after) if text.startswith(before) else ""
    return int(digits) if digits.isascii() and digits.isdecimal() else -1
