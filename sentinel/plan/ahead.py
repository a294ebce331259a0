"""How far a run was seen to come, and which checkpoints lie ahead of that.

A step is seen when a stream shows it. A checkpoint's own word for its step proves nothing: a manifest that says 900000 in a run
of a thousand steps came from elsewhere, and what is counted back from it counts from nowhere. A few steps ahead are honest: a
line is written after the save, a log shows every tenth step, and a crash loses the last lines. Heartbeats tell of steps, too:
enough to explain a checkpoint, and not enough to prove one.

Nothing here keeps a checkpoint from being resumed from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.model.state import Attempt, RunState

AHEAD_STEPS = 100  # of every step seen: what a crash loses, generously
LINES = 2  # that are about to be written, where a line stands for many steps


@dataclass(frozen=True, slots=True)
class ReportedProgress:
    """Of the living attempt: the furthest step that its heartbeats tell, and how many steps one line of its stream stands for."""

    step: int = 0
    line_steps: int = 1


NOTHING_REPORTED = ReportedProgress()


def newest_seen(state: RunState, newest_step: int | None) -> int | None:
    """The furthest step that a stream of the run has shown. `newest_step`: of the living attempt's. None: not known."""
    attempt = state.attempt
    if attempt is None or (newest_step is None and not attempt.is_over):
        return None
    return max((step for a in state.attempts if (step := seen_of(state, a, newest_step)) is not None), default=None)


def explained(
    state: RunState, newest_step: int | None, reported: ReportedProgress = NOTHING_REPORTED
) -> tuple[tuple[int, int | None], ...]:
    """By attempt, up to which step what it saved is explained by what it was seen to do; None where that is not known."""
    reaches = []
    for attempt in state.attempts:
        seen, is_newest = seen_of(state, attempt, newest_step), attempt is state.attempt
        if seen is not None and is_newest:
            seen = max(seen, reported.step)
        line_steps = max(reported.line_steps, (attempt.first_step or 0) - attempt.resumed_step)
        reaches.append((attempt.attempt, None if seen is None else seen + AHEAD_STEPS + LINES * line_steps))
    return tuple(reaches)


def limit_of(saved_by: int, reaches: Sequence[tuple[int, int | None]]) -> int | None:
    """Up to which step a checkpoint of that attempt is explained: by the attempt, or by one that went on from there. None where
    nothing is known of any."""
    return max((limit for attempt, limit in reaches if attempt >= saved_by and limit is not None), default=None)


def seen_of(state: RunState, attempt: Attempt, newest_step: int | None) -> int | None:
    """The furthest step that its stream has shown; None where it showed none, or nobody knows what it shows."""
    if attempt.first_step is None:
        return None
    if attempt is not state.attempt or attempt.is_over:
        return max(attempt.last_step, attempt.first_step)
    return None if newest_step is None else max(newest_step, attempt.first_step)
