"""Which metrics stand at another level, or go another way, after the trainer has answered a live change of settings.

The trainer's answers are compared, the receipt's and every later one's: `effective` holds the settings in force. What a setting
moves stands in its row (`sentinel.client.settings`). A setting that only one of the answers names counts as changed: nobody
knows. One that neither names is none that this trainer has. What is done once (the loss scale) moves on by itself; the newest row
of its own metric says whether it was set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sentinel.client.settings import SETTINGS, Setting

MOVED_BY_RATE = frozenset(SETTINGS["lr_scale"].moves)

Newest = Callable[[str], float | None]


def judge_moved(before: Mapping[str, Any] | None, after: object, newest: Newest) -> frozenset[str]:
    """The metrics that a change may have moved. `before`: None where no answer is known; `newest`: a metric's newest value."""
    now = after if isinstance(after, Mapping) else {}
    moved: set[str] = set()
    for key, row in SETTINGS.items():
        if not row.moves or row.changes != "live" or (before is not None and key not in before and _lacks(after, key)):
            continue
        known = _known(row, before or {}, newest)
        if not _is_unchanged(row, known, now.get(key), is_reported=key in now):
            moved.update(row.moves)
    return frozenset(moved)


def _lacks(answer: object, key: str) -> bool:
    return isinstance(answer, Mapping) and key not in answer


def _known(row: Setting, before: Mapping[str, Any], newest: Newest) -> tuple[object, bool]:
    """What was in force, and whether that is known."""
    if not row.once:
        return before.get(row.key), row.key in before
    value = newest(row.key)
    return value, value is not None


def _is_unchanged(row: Setting, known: tuple[object, bool], now: object, *, is_reported: bool) -> bool:
    was, is_known = known
    if row.once and not is_known:
        return True  # its metric is not logged, so it has no past that could mislead
    if not is_known or not is_reported:
        return False
    return was is now if was is None or now is None else row.type.agrees(now, was)  # type: ignore[arg-type]
