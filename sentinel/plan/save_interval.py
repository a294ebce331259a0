"""How often a run should save, by what its saves cost and how often it was interrupted.

Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
Systems 22 (2006); its first term is Young's (1974). With δ the seconds that a save blocks training and M the mean
seconds of training between two interruptions, the interval is sqrt(2δM)·(1 + sqrt(δ/2M)/3 + (δ/2M)/9) − δ, and M where δ ≥ 2M.

Both are estimated from the attempts that are kept. A mean of a few interruptions is rough (of four it may be off by half), and
the cost is flat around its least: within a factor of two of the advised interval it is a quarter more at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import median

from sentinel.model.state import Attempt

SAVES_MIN = 3


@dataclass(frozen=True, slots=True)
class SaveInterval:
    """
    Attributes:
        save_s: δ, the median of the saves whose cost was told.
        interruptions: failures, and repairs that threw steps away; `trained_s` is the training between them.
        steps: The advised interval, one at least. `now_steps`: the one in use.
        share, now_share: Of the time, what saves and steps trained again cost at each.
        blocked_share, now_blocked_share: The part of it in which saves block training.
    """

    save_s: float
    interruptions: int
    trained_s: float
    steps: int
    now_steps: int
    share: float
    now_share: float
    blocked_share: float
    now_blocked_share: float


def advise_interval(attempts: Sequence[Attempt]) -> SaveInterval | str:
    """The advice, or the reason why there is none."""
    marks = [mark for attempt in attempts for mark in attempt.marks]
    costs_s = [mark.save_s for mark in marks if mark.save_s > 0.0]
    if len(costs_s) < SAVES_MIN:
        return f"the cost of {len(costs_s)} saves is known, and {SAVES_MIN} are needed"
    gaps = [  # steps, and the seconds of training alone: from one commit to the next, without what the later save blocked
        (later.step - earlier.step, later.at_s - earlier.at_s - later.save_s)
        for attempt in attempts
        for earlier, later in pairwise(attempt.marks)
        if later.step > earlier.step and later.at_s - earlier.at_s > later.save_s
    ]
    if not gaps:
        return "no two saves of one attempt were seen"
    interruptions = sum(attempt.is_interrupted for attempt in attempts)
    if not interruptions:
        return "it was never interrupted"
    trained_s = sum(_trained_s(attempt) for attempt in attempts)
    save_s, step_s = median(costs_s), median(seconds / steps for steps, seconds in gaps)
    mean_s = trained_s / interruptions
    slowest_s = max(median(mark.took_s for mark in marks), step_s)  # the next save begins when the one before is done
    steps = max(1, round(max(daly_s(save_s, mean_s), slowest_s) / step_s))
    now_steps = round(median(steps for steps, _ in gaps))
    return SaveInterval(
        save_s=save_s,
        interruptions=interruptions,
        trained_s=trained_s,
        steps=steps,
        now_steps=now_steps,
        share=_share(save_s, mean_s, steps * step_s),
        now_share=_share(save_s, mean_s, now_steps * step_s),
        blocked_share=_blocked_share(save_s, steps * step_s),
        now_blocked_share=_blocked_share(save_s, now_steps * step_s),
    )


def _trained_s(attempt: Attempt) -> float:
    began_s, last_s = attempt.receipt_s, attempt.last_step_s
    return max(0.0, last_s - began_s) if began_s is not None and last_s is not None else 0.0


def daly_s(save_s: float, mean_s: float) -> float:
    """Seconds of training between two saves."""
    if save_s >= 2.0 * mean_s:
        return mean_s
    ratio = save_s / (2.0 * mean_s)
    return sqrt(2.0 * save_s * mean_s) * (1.0 + sqrt(ratio) / 3.0 + ratio / 9.0) - save_s


def _share(save_s: float, mean_s: float, interval_s: float) -> float:
    """Of the time: a save each interval, half an interval trained again with each interruption. To first order, one at most."""
    return min(1.0, _blocked_share(save_s, interval_s) + (interval_s + save_s) / (2.0 * mean_s))


def _blocked_share(save_s: float, interval_s: float) -> float:
    return save_s / (interval_s + save_s)
