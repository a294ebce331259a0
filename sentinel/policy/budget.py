"""Whether one more restart or intervention is within the budget, and how long to pause before it.

Judges counts within a period and restarts without progress. It does not judge whether progress refilled the budget: the
caller passes only the times since the last refill (`Budget.refill_after_progress_steps` new steps).

    >>> judge_budget(Budget(), now_s=100.0, interventions_s=(), restarts_s=(90.0,), without_progress=1)
    BudgetVerdict(allowed=True, wait_s=5.0, reason='1 of 20 restarts in 1h; restart 1 without progress waits 5 s')
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sentinel.model.amounts import time_words
from sentinel.model.drawn import RANGE, draw
from sentinel.policy.quantities import Rate, show_duration
from sentinel.policy.schema import Budget


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """`wait_s` when allowed: the pause from now. When not: until the limit frees, infinite if time will not free it."""

    allowed: bool
    wait_s: float
    reason: str


def judge_budget(
    budget: Budget,
    now_s: float,
    interventions_s: tuple[float, ...],
    restarts_s: tuple[float, ...],
    without_progress: int,
    same_cause_s: tuple[float, ...] = (),
    spread: float = 1.0,
    pauses: bool = False,
) -> BudgetVerdict:
    """May sentinel act now? `interventions_s`, `restarts_s`: times of past ones, in any order, on the clock of `now_s`;
    `same_cause_s`: of the interventions, those for the same kind of incident. `spread` multiplies the pause, and with `pauses`
    there is one after progress, too.

    `without_progress` counts the latest restarts in a row that gained no step. A time ahead of `now_s` counts as now.
    """
    if without_progress >= budget.without_progress:
        limit = f"without_progress: {budget.without_progress}"
        reason = f"{without_progress} restarts in a row without progress spend {limit}; only progress frees it, not time"
        return BudgetVerdict(False, math.inf, reason)
    limits = [("restarts", budget.restarts, restarts_s), ("interventions", budget.interventions, interventions_s)]
    if budget.per_cause is not None:
        limits.append(("per_cause", budget.per_cause, same_cause_s))
    spent = [(name, rate, _frees_in(rate, now_s, times_s)) for name, rate, times_s in limits]
    name, rate, wait_s = max(spent, key=lambda limit: limit[2])
    if wait_s > 0:
        reason = f"{name}: {rate.count} per {show_duration(rate.period_s)} are spent; one frees in {time_words(wait_s)}"
        return BudgetVerdict(False, wait_s, reason)
    period, count = show_duration(budget.restarts.period_s), len(_within(budget.restarts, now_s, restarts_s))
    used = f"{count} of {budget.restarts.count} restarts in {period}"
    pause_s = min(backoff_s(budget, max(without_progress, int(pauses))) * spread, budget.backoff[1])
    if pause_s <= 0:
        return BudgetVerdict(True, 0.0, f"{used}; no pause after progress")
    return BudgetVerdict(True, pause_s, f"{used}; restart {without_progress} without progress waits {time_words(pause_s)}")


def draw_spread(run_id: str, attempt: int) -> float:
    """What the pause before this launch is multiplied by, 1 to 1.5: runs that died together of one cause (a shared disk, a
    switch) must not come back together. From the names alone, so that the same launch waits as long on every machine."""
    return 1.0 + 0.5 * draw(run_id, "pause", attempt) / RANGE


def backoff_s(budget: Budget, without_progress: int) -> float:
    """Seconds to pause before the next restart: none after progress, then the shortest, doubling up to the longest."""
    if without_progress < 1:
        return 0.0
    shortest_s, longest_s = budget.backoff
    doublings = min(without_progress - 1, 64)  # 2**64 times a millisecond is longer than any range
    return min(longest_s, shortest_s * 2.0**doublings)


def _within(rate: Rate, now_s: float, times_s: tuple[float, ...]) -> list[float]:
    """Past times that still count, oldest first. A time exactly one period old counts no longer."""
    return sorted(time_s for time_s in (min(time_s, now_s) for time_s in times_s) if time_s + rate.period_s > now_s)


def _frees_in(rate: Rate, now_s: float, times_s: tuple[float, ...]) -> float:
    """Seconds until one more fits; 0 when it fits now."""
    counted = _within(rate, now_s, times_s)
    if len(counted) < rate.count:
        return 0.0
    return counted[-rate.count] + rate.period_s - now_s
