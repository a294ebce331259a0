"""How long before a deadline a run has to begin to leave: by what a checkpoint and a stop have taken on it, or a stated default.

the longest save, twice (one may be under way) + three steps (a request is noticed between two) + LEAVE_S
or half as long again as the longest orderly stop, whichever is more
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.model.amounts import time_words
from sentinel.model.state import Attempt
from sentinel.policy.schema import DEADLINE_MARGIN_S

# A request may go unanswered for 20 s and SIGTERM for 10 (`engine.stopping`); the rest is for processes to end, and last pages.
LEAVE_S = 60.0
STEPS = 3.0
STOP_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class Margin:
    """`reason` is a clause for a person."""

    seconds: float
    reason: str


def judge_margin(attempts: Sequence[Attempt], given_s: float | None, step_s: float | None) -> Margin:
    """`given_s`: what the policy says, which is taken as it stands."""
    if given_s is not None:
        return Margin(given_s, f"the policy's run.deadline_margin is {time_words(given_s)}")
    saves_s = [max(mark.save_s, mark.took_s) for attempt in attempts for mark in attempt.marks]
    stops_s = [a.ended_s - a.stopping_s for a in attempts if a.outcome == "stopped" and a.ended_s and a.stopping_s]
    save_s, stop_s = max(saves_s, default=0.0), max(stops_s, default=0.0)
    if not save_s and not stop_s:
        given = time_words(DEADLINE_MARGIN_S)
        return Margin(DEADLINE_MARGIN_S, f"nothing was saved yet, so a checkpoint and a stop are given {given}")
    seconds = max(2 * save_s + STEPS * (step_s or 0.0) + LEAVE_S, STOP_FACTOR * stop_s)
    took = [f"a save took up to {time_words(save_s)}"] if save_s else []
    took += [f"a stop up to {time_words(stop_s)}"] if stop_s else []
    return Margin(seconds, f"{', '.join(took)}, so the last one is given {time_words(seconds)}")
