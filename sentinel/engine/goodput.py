"""The goodput ledger: every second since the first launch belongs to exactly one of six accounts, and they sum to the whole.

    training       steps that survive (they lie on the lineage the run stands on now)
    checkpointing  saves within them, as the trainer reports their cost
    replay         steps that were trained and thrown away by a rollback or a resume from an older checkpoint
    detection      from the last step before a failure until an attempt's end was decided or seen
    recovery       from there until the next attempt's receipt: kill, verify, quarantine, relaunch, start-up
    waiting        the first start-up, backoff, stopped, held: nothing to train on, and nothing being repaired

Goodput is training over the whole. The rules for one attempt are in `engine.ledger`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sentinel.engine.ledger import ACCOUNTS, spend_attempt, surviving_steps
from sentinel.model.state import RunState

__all__ = ["ACCOUNTS", "Ledger", "account", "surviving_steps"]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Seconds per account, in `ACCOUNTS` order; `total_s` is their sum and the time since the first launch."""

    seconds: Mapping[str, float]
    total_s: float

    @property
    def goodput_ratio(self) -> float:
        """0 before anything was trained."""
        return self.seconds["training"] / self.total_s if self.total_s > 0 else 0.0


def account(state: RunState, now_s: float) -> Ledger:
    """The ledger as of `now_s` (for an ended run: as of its last attempt's end)."""
    seconds = dict.fromkeys(ACCOUNTS, 0.0) | dict(state.archive.seconds)
    attempts = state.attempts
    if not attempts:
        return Ledger(seconds, 0.0)
    archived_s = sum(seconds.values())
    last = attempts[-1]
    end_s = last.ended_s if last.is_over and last.ended_s is not None and state.ended else now_s
    at_s = attempts[0].launched_s
    keep = surviving_steps(attempts)
    for index, attempt in enumerate(attempts):
        next_start_s = attempts[index + 1].launched_s if index + 1 < len(attempts) else max(end_s, at_s)
        is_first = index == 0 and state.archive.attempts == 0
        at_s = spend_attempt(seconds, attempt, at_s, next_start_s, keep[index], is_first)
    return Ledger(seconds, archived_s + at_s - attempts[0].launched_s)
