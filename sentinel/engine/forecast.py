"""When the run will have trained its last step, by how it came on so far, and how far that may be out.

Looked at are the stretches between saves that survive, in wall time: what went wrong between two of them (steps thrown away,
detection, recovery, waiting) stands in the stretch. With n stretches of w_i seconds and g_i steps, the pace is Σw/Σg seconds per
surviving step. For the N steps that are left, m = N / mean(g) more stretches, the variance is s²·m·(1 + m/n): s² is that of a
stretch around the pace (w_i - pace·g_i); the first term is the chance of those to come, the second what n stretches leave open of
the pace itself (the ratio estimator; W. G. Cochran, Sampling Techniques, 1977, chapter 6).

The bounds leave one run in ten out on either side where stretches are alike and independent. They know nothing of what never
happened so far: a run without an incident yet is forecast without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

from sentinel.engine.goodput import surviving_steps
from sentinel.model.state import RunState

STRETCHES_MIN = 3
FASTEST_STEPS_PER_S = 1e6  # beyond it a total is no number to reckon with
FAR_S = 50 * 365 * 86_400.0  # whoever writes sys.maxsize as the total of steps means that somebody will stop it
BOUND = 1.2816  # deviations of a normal that leave a tenth above

Place = tuple[int, float]
"""A step that survives, and when it was reached."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds from now until the last step: likely, and within which bounds. `step_s`: seconds for a surviving step, downtime and
    all. `stretches`: so many it rests on."""

    left_steps: int
    left_s: float
    low_s: float
    high_s: float
    step_s: float
    stretches: int


def forecast_end(state: RunState, now_s: float, step: int | None, total_steps: int | None) -> Forecast | str:
    """The forecast, or why there is none. `step`: the newest; `total_steps`: of the whole run, None where nobody says."""
    attempt = state.attempt
    if state.ended:
        return f"the run has ended: {state.ended}"
    if state.held or state.giving_up:
        return "training is held, and nobody knows for how long" if state.held else "training is being stopped"
    if total_steps is None:
        return "the trainer does not say how many steps the run is to have"
    places = _places(state)
    if attempt is None or step is None or not places:
        return "no step was seen yet"
    done = places[-1][0] if attempt.is_over or attempt.receipt_s is None else max(step, places[-1][0])
    if done >= total_steps:
        return "every step is trained"
    if len(places) <= STRETCHES_MIN:
        return f"{len(places) - 1} stretches between saves were seen, and {STRETCHES_MIN} are needed"
    pace = [*places, (done, now_s)]
    if total_steps - done > FAR_S * FASTEST_STEPS_PER_S or (found := _reckon(pace, total_steps - done)).high_s > FAR_S:
        return "it is more than fifty years away: the trainer's total of steps is no end that is waited for"
    return found


def _places(state: RunState) -> list[Place]:
    """Where the surviving lineage begins, and every save on it."""
    found: list[Place] = []
    for attempt, last in zip(state.attempts, surviving_steps(state.attempts), strict=True):
        if attempt.receipt_s is None or last <= attempt.resumed_step:
            continue
        if not found:
            found.append((attempt.resumed_step, attempt.receipt_s))
        found += [(mark.step, mark.at_s) for mark in attempt.marks if found[-1][0] < mark.step <= last]
    return found


def _reckon(places: list[Place], left_steps: int) -> Forecast:
    pairs = [(later[0] - earlier[0], max(0.0, later[1] - earlier[1])) for earlier, later in pairwise(places)]
    stretches = [(steps, seconds) for steps, seconds in pairs if steps or seconds]
    count, steps_seen = len(stretches), sum(steps for steps, _ in stretches)
    step_s = sum(seconds for _, seconds in stretches) / steps_seen
    variance = sum((seconds - step_s * steps) ** 2 for steps, seconds in stretches) / (count - 1)
    more = left_steps * count / steps_seen
    left_s, out_s = left_steps * step_s, BOUND * sqrt(variance * more * (1.0 + more / count))
    fastest_s = min(seconds / steps for steps, seconds in stretches if steps)
    return Forecast(left_steps, left_s, max(left_steps * fastest_s, left_s - out_s), left_s + out_s, step_s, count)
