"""What an incident cost: seconds of each account of the ledger between its first sign and its repair, steps, and GPU time."""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.engine.goodput import ACCOUNTS
from sentinel.model.incidents import Incident
from sentinel.paging.case_words import span
from sentinel.report.html.collected import Stretch
from sentinel.report.settings import setting_text, settings_asked

LOST = ("replay", "detection", "recovery", "waiting")
WORDS = {
    "replay": "trained and thrown away",
    "detection": "until the failure was believed",
    "recovery": "until training stood again",
    "waiting": "nothing to train on, backoff, held or stopped",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """`rows`: account, what it is, how long. `gpu_hours` counts one GPU a rank; None where the ranks are not known. `is_over`:
    False while it still grows."""

    rows: tuple[tuple[str, str, str], ...]
    lost: str
    lost_s: float
    steps: int
    gpu_hours: float | None
    ranks: int | None
    detected: str
    recovered: str | None
    is_over: bool


def cost_of(incident: Incident, stretch: Stretch | None) -> Cost:
    spent = _spent(stretch)
    lost_s = sum(spent.values())
    ranks = stretch.ranks if stretch is not None else None
    restored = incident.restored_s
    late_s = incident.detected_s - incident.visible_s
    return Cost(
        rows=tuple((name, WORDS[name], _exact(spent[name])) for name in LOST if spent[name] >= 0.05),
        lost=_exact(lost_s),
        lost_s=lost_s,
        steps=incident.steps_lost,
        gpu_hours=lost_s * ranks / 3600 if ranks is not None else None,
        ranks=ranks,
        detected=_exact(late_s) if late_s >= 0.05 else "at once",
        recovered=_exact(restored - incident.visible_s) if restored is not None else None,
        is_over=incident.is_closed,
    )


def _spent(stretch: Stretch | None) -> dict[str, float]:
    """Training that a rollback turned into replay is counted there."""
    if stretch is None or stretch.before is None or stretch.after is None:
        return dict.fromkeys(LOST, 0.0)
    before, after = stretch.before.seconds, stretch.after.seconds
    assert set(LOST) < set(ACCOUNTS)
    return {name: max(0.0, after[name] - before[name]) for name in LOST}


def _exact(seconds: float) -> str:
    seconds = max(0.0, seconds)
    return f"{seconds:.1f} s" if seconds < 60 else span(seconds)


def setting_rows(stretch: Stretch | None) -> list[tuple[str, str, str]]:
    """Every setting over the trainer's own, before the incident and behind it."""
    if stretch is None:
        return []
    before, behind = settings_asked(stretch.settings_before), settings_asked(stretch.settings_after or stretch.settings_before)
    return [
        (name, setting_text(name, before.get(name)), setting_text(name, behind.get(name))) for name in sorted({*before, *behind})
    ]
