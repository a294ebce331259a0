"""Slow declines: what the chronicles of great runs tell of the thousands of steps before they broke. The loss shows none of it.

Each is a function of the steps since it began, and bends one metric of a healthy run. No relaunch undoes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sentinel.sim.learning import LOSS_SCALE, PARAM_GROWTH

Options = Mapping[str, float]
Bend = Callable[[float, float, int, Options], float]  # the healthy value, the share of `length` gone, steps since, the options


class Decline(NamedTuple):
    """`options`: with their defaults, which are the chronicle's own figures."""

    metric: str
    bend: Bend
    options: Mapping[str, str]


def _scale_falls(value: float, share: float, since: int, options: Options) -> float:  # noqa: ARG001
    """By halvings, at equal distances."""
    halvings = round(math.log2(max(1.0, options["height"])))
    return value * options["before"] / LOSS_SCALE * 0.5 ** int(share * halvings)


def _rises(value: float, share: float, since: int, options: Options) -> float:  # noqa: ARG001
    return value * (1.0 + options["height"] * share)


def _turns(value: float, share: float, since: int, options: Options) -> float:
    """It grows no more, and falls."""
    return (value - PARAM_GROWTH * max(0, since)) * (1.0 - options["height"] * share)


def _stands_higher(value: float, share: float, since: int, options: Options) -> float:  # noqa: ARG001
    return min(1.0, value + options["height"] * share)


DECLINES: Mapping[str, Decline] = {
    "scale_falls": Decline("loss_scale", _scale_falls, {"length": "3000", "height": "64", "before": "4096"}),  # BLOOM's 104B
    "activations_rise": Decline("activation_norm", _rises, {"length": "15000", "height": "0.75"}),  # OPT-175B, run 12.43
    "gradient_creeps": Decline("grad_norm", _rises, {"length": "30000", "height": "0.25"}),  # OPT-175B
    "parameters_turn": Decline("param_norm", _turns, {"length": "10000", "height": "0.05"}),
    "clips_more": Decline("clip_fraction", _stands_higher, {"length": "1", "height": "0.5"}),
}


class Declining(NamedTuple):
    """One that was asked for."""

    decline: Decline
    first_step: int
    options: Options

    def bend(self, value: float, step: int) -> float:
        """Before it begins the share is 0, which leaves most values as they are."""
        since = step - self.first_step
        share = min(1.0, max(0.0, since / max(1.0, self.options["length"])))
        return self.decline.bend(value, share, since, self.options)
