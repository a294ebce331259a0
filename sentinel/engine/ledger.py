"""Where one attempt's seconds go, and what is kept of attempts too old to keep whole. `sentinel.engine.goodput` adds them up.

An attempt's span runs from its launch to the next one's. It is cut at checkpoints, for only they can be resumed from.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from types import MappingProxyType

from sentinel.model.state import Archive, Attempt

ACCOUNTS = ("training", "checkpointing", "replay", "detection", "recovery", "waiting")


def surviving_steps(attempts: tuple[Attempt, ...]) -> tuple[float, ...]:
    """Per attempt, the last step of it that survives: the lowest step any later attempt resumed from."""
    floor = inf
    keep: list[float] = []
    for attempt in reversed(attempts):
        keep.append(floor)
        floor = min(floor, attempt.resumed_step)
    return tuple(reversed(keep))


def fold_oldest(attempts: tuple[Attempt, ...], archive: Archive) -> tuple[tuple[Attempt, ...], Archive]:
    """Without the oldest attempt, whose seconds go to the archive as they stand now."""
    seconds = dict.fromkeys(ACCOUNTS, 0.0) | dict(archive.seconds)
    oldest, *rest = attempts
    spend_attempt(seconds, oldest, oldest.launched_s, rest[0].launched_s, surviving_steps(attempts)[0], archive.attempts == 0)
    return tuple(rest), Archive(MappingProxyType(seconds), archive.attempts + 1)


def spend_attempt(
    seconds: dict[str, float], attempt: Attempt, start_s: float, next_s: float, keep: float, is_first: bool
) -> float:
    """Account one attempt's span [start_s, next_s); returns its end. `keep`: its last step that survives."""
    at_s = start_s
    next_s = max(next_s, start_s)

    def spend(name: str, until_s: float | None) -> None:
        nonlocal at_s
        if until_s is not None:
            until_s = min(max(until_s, at_s), next_s)
            seconds[name] += until_s - at_s
            at_s = until_s

    spend("waiting", attempt.not_before_s)
    if attempt.receipt_s is None:
        spend("waiting" if is_first else "recovery", attempt.idle_s if attempt.idle_s is not None else next_s)
        spend("waiting", next_s)
        return next_s
    spend("waiting" if is_first else "recovery", attempt.receipt_s)
    began_s = at_s
    last_s = attempt.last_step_s if attempt.is_over else next_s
    spend("training", _cut(attempt, keep, last_s))
    saves = min(at_s - began_s, sum(m.save_s for m in attempt.marks if m.step <= keep and m.at_s <= at_s))
    seconds["training"] -= saves
    seconds["checkpointing"] += saves
    spend("replay", last_s)
    if attempt.is_over:
        _spend_end(attempt, next_s, spend)
    spend("waiting", next_s)
    return next_s


def _spend_end(attempt: Attempt, next_s: float, spend: Callable[[str, float | None], None]) -> None:
    """From the last step on: a failure is noticed and repaired; a wanted end is the last checkpoint."""
    if (attempt.outcome in ("crashed", "lost", "killed") or attempt.stopping) and not attempt.stopped_by:
        spend("detection", attempt.stopping_s if attempt.stopping_s is not None else attempt.ended_s)
        spend("recovery", attempt.idle_s if attempt.idle_s is not None else next_s)
    else:
        spend("checkpointing", attempt.ended_s)


def _cut(attempt: Attempt, keep: float, last_s: float | None) -> float | None:
    """When the last surviving step of the attempt was reached; its receipt when nothing of it survives."""
    if keep == inf or (attempt.is_over and attempt.last_step <= keep):
        return last_s
    reached = [m.at_s for m in attempt.marks if m.step <= keep]
    return max(reached) if reached and keep > attempt.resumed_step else attempt.receipt_s
