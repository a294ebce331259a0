"""What a change of settings did: which ones changed, and where loss and gradient norm stood before and after."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from statistics import median

from sentinel.client.settings import SETTINGS
from sentinel.model.attempts import SettingsInForce
from sentinel.run_files.stream import Row, read_steps

STEPS = 50  # on either side
METRICS = ("loss", "grad_norm")


def changes_between(before: SettingsInForce, after: SettingsInForce) -> list[str]:
    """In words; empty where only bookkeeping differs."""
    words: list[str] = []
    for key, row in SETTINGS.items():
        old, new = getattr(before, key), getattr(after, key)
        if old != new:
            words.append(f"{row.label} {row.show(old)} → {row.show(new)}")
    samples = sum(range_.end - range_.start for range_ in after.skip if range_ not in before.skip)
    if samples:
        words.append(f"{samples} more samples left out")
    return words


def effect_words(run_dir: Path, attempt: int, first: int, parent: int | None) -> str:
    """Medians over the steps up to the change and over those from it on; empty where the streams do not say. `parent`: whose
    steps lie before, where the change came with the launch of the attempt."""
    before = _around(run_dir, attempt if parent is None else parent, first - STEPS, first - 1)
    after = _around(run_dir, attempt, first, first + STEPS - 1)
    if not before or not after:
        return ""
    words = [f"{metric.replace('_', ' ')} {_middle(before, metric)} → {_middle(after, metric)}" for metric in METRICS]
    words = [text for text in words if "?" not in text]
    if not words:
        return ""
    bad = sum(any(not isfinite(values[name]) for name in METRICS if name in values) for _, values in after)
    not_finite = f"; {bad} of the steps after it not finite" if bad else ""
    return f"medians over {len(before)} steps before and {len(after)} after: {', '.join(words)}{not_finite}"


def _around(run_dir: Path, attempt: int, first: int, last: int) -> Sequence[Row]:
    return read_steps(run_dir, attempt, first, last, METRICS.__contains__)


def _middle(rows: Sequence[Row], metric: str) -> str:
    values = [row[metric] for _, row in rows if metric in row and isfinite(row[metric])]
    return f"{median(values):.4g}" if values else "?"
