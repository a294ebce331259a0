"""The goodput ledger: every second since the first launch belongs to exactly one of six accounts, and they sum to the whole.

    training       steps that survive (they lie on the lineage the run stands on now)
    checkpointing  saves within them, as the trainer reports their cost
    replay         steps that were trained and thrown away by a rollback or a resume from an older checkpoint
    detection      from the last step before a failure until an attempt's end was decided or seen
    recovery       from there until the next attempt's receipt: kill, verify, quarantine, relaunch, start-up
    waiting        the first start-up, backoff, stopped, held: nothing to train on, and nothing being repaired

Goodput is training over the whole.

An attempt's span runs from its launch to the next one's. It is cut at checkpoints, for only they can be resumed from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import Archive, Attempt, RunState

ACCOUNTS = ("training", "checkpointing", "replay", "detection", "recovery", "waiting")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Seconds per account, in `ACCOUNTS` order; `total_s` is their sum and the time since the first launch."""

    seconds: Mapping[str, float]
    total_s: float

    @property
    def goodput_ratio(self) -> float:
        """0 before anything was trained."""
        return self.seconds["training"] / self.total_s if self.total_s > 0 else 0.0


def account(state: RunState, now_s: float, stalled_since_s: float | None = None) -> Ledger:
    """The ledger as of `now_s` (for an ended run: as of its last attempt's end). `stalled_since_s`: the last step of the living
    attempt, where the next one is overdue; what follows is no training until a step comes after all."""
    seconds = dict.fromkeys(ACCOUNTS, 0.0) | dict(state.archive.seconds)
    for spent in account_attempts(state, now_s, stalled_since_s).values():
        for name, value in spent.items():
            seconds[name] += value
    return Ledger(seconds, sum(seconds.values()))


def account_attempts(state: RunState, now_s: float, stalled_since_s: float | None = None) -> dict[int, dict[str, float]]:
    """As `account`, of every attempt that is kept: number → seconds per account, from its launch to the next one's. What the
    archive holds is not among them."""
    attempts = state.attempts
    if not attempts:
        return {}
    last = attempts[-1]
    end_s = last.ended_s if last.is_over and last.ended_s is not None and state.ended else now_s
    at_s = attempts[0].launched_s
    keep = surviving_steps(attempts)
    found: dict[int, dict[str, float]] = {}
    for index, attempt in enumerate(attempts):
        next_start_s = attempts[index + 1].launched_s if index + 1 < len(attempts) else max(end_s, at_s)
        is_first = index == 0 and state.archive.attempts == 0
        stalled_s = stalled_since_s if attempt is last else None
        seconds = found[attempt.attempt] = dict.fromkeys(ACCOUNTS, 0.0)
        still = stalled_s is not None or _stood_still(attempt, state.incidents)
        at_s = _spend_attempt(seconds, attempt, at_s, next_start_s, keep[index], is_first, stalled_s, still)
    return found


def surviving_steps(attempts: tuple[Attempt, ...]) -> tuple[float, ...]:
    """Per attempt, the last step of it that survives: the lowest step any later attempt resumed from."""
    floor = inf
    keep: list[float] = []
    for attempt in reversed(attempts):
        keep.append(floor)
        floor = min(floor, attempt.resumed_step)
    return tuple(reversed(keep))


def fold_oldest(
    attempts: tuple[Attempt, ...], archive: Archive, incidents: Sequence[Incident] = ()
) -> tuple[tuple[Attempt, ...], Archive]:
    """Without the oldest attempt, whose seconds go to the archive as they stand now."""
    seconds = dict.fromkeys(ACCOUNTS, 0.0) | dict(archive.seconds)
    oldest, *rest = attempts
    keep, still = surviving_steps(attempts)[0], _stood_still(oldest, incidents)
    _spend_attempt(seconds, oldest, oldest.launched_s, rest[0].launched_s, keep, archive.attempts == 0, stood_still=still)
    return tuple(rest), Archive(MappingProxyType(seconds), archive.attempts + 1)


def _spend_attempt(
    seconds: dict[str, float],
    attempt: Attempt,
    start_s: float,
    next_s: float,
    keep: float,
    is_first: bool,
    stalled_s: float | None = None,
    stood_still: bool = False,
) -> float:
    """Account one attempt's span [start_s, next_s); returns its end. `keep`: its last step that survives. `stood_still`: it hung
    until its end."""
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
    last_s = attempt.last_step_s if attempt.is_over else _lives_until(attempt, next_s, stalled_s)
    spend("training", _cut(attempt, keep, last_s))
    saves = min(at_s - began_s, sum(m.save_s for m in attempt.marks if m.step <= keep and m.at_s <= at_s))
    seconds["training"] -= saves
    seconds["checkpointing"] += saves
    spend("replay", last_s)
    if attempt.is_over or attempt.stopping_s is not None:
        _spend_end(attempt, next_s, stood_still, spend)
    elif stalled_s is not None:
        spend("detection", next_s)
    spend("waiting", next_s)
    return next_s


def _spend_end(attempt: Attempt, next_s: float, stood_still: bool, spend: Callable[[str, float | None], None]) -> None:
    """From the last step on: a failure is noticed and repaired; a wanted end is the last checkpoint. One that stood still when
    somebody stopped it saves nothing: that it hung was noticed by whoever stopped it, and what follows is its end."""
    if attempt.is_interrupted or not (attempt.is_over or attempt.stopped_by):
        spend("detection", attempt.stopping_s if attempt.stopping_s is not None else attempt.ended_s)
        spend("recovery", attempt.idle_s if attempt.idle_s is not None else next_s)
    elif attempt.stopped_by and stood_still:
        spend("detection", attempt.stopping_s)
        spend("recovery", attempt.ended_s if attempt.is_over else next_s)
    else:
        spend("checkpointing", attempt.ended_s if attempt.is_over else next_s)


def _stood_still(attempt: Attempt, incidents: Sequence[Incident]) -> bool:
    """A hang of it was believed, and no step came after. How seldom it writes rows is not known: an old row proves nothing."""
    hangs = [one for one in incidents if one.kind is Kind.HANG and one.attempt == attempt.attempt]
    return any(one.detected_step >= attempt.last_step and one.state is not IncidentState.RECOVERED for one in hangs)


def _lives_until(attempt: Attempt, next_s: float, stalled_s: float | None) -> float:
    """Until when an attempt that is not over counts as training: its end may be decided and not come for as long as a process
    survives SIGKILL."""
    return min(one for one in (next_s, stalled_s, attempt.stopping_s) if one is not None)


def _cut(attempt: Attempt, keep: float, last_s: float | None) -> float | None:
    """When the last surviving step of the attempt was reached; its receipt when nothing of it survives."""
    if keep == inf or (attempt.is_over and attempt.last_step <= keep):
        return last_s
    reached = [m.at_s for m in attempt.marks if m.step <= keep]
    return max(reached) if reached and keep > attempt.resumed_step else attempt.receipt_s
