"""The constants of the numeric detectors as a grid each, and a policy with one of them changed.

A constant is a setting of a detector in the policy, or stands in the detector's own module; the latter is set for as long as
`setting` lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import NamedTuple

from sentinel.detectors import divergence, drift, spike
from sentinel.policy.schema import Policy


class Constant(NamedTuple):
    """`room` is a detector's settings in the policy (its name), or a module with a constant of this name. `values` run from the
    most easily alarmed to the quietest."""

    name: str
    room: str | ModuleType
    values: tuple[float, ...]


CONSTANTS = (
    Constant("z", "spike", (5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0)),
    Constant("relative", "spike", (0.0, 0.01, 0.02, 0.03, 0.05, 0.08)),
    Constant("window_steps", "spike", (40, 100, 200, 400, 800)),
    Constant("level_steps", "spike", (5, 10, 20, 40, 80)),
    Constant("min_history_steps", "spike", (50, 100, 200, 400)),
    Constant("hold", "spike rule", (1, 2, 3, 5)),
    Constant("SINGLE_ROW_Z", spike, (1.0, 1.1, 1.2, 1.3, 1.5)),
    Constant("COARSE_ROW_Z", spike, (1.2, 1.3, 1.4, 1.5, 1.75, 2.0)),
    Constant("COARSE_RISE", spike, (0.1, 0.15, 0.2, 0.3, 0.5)),
    Constant("SECOND_ROW_Z", spike, (0.375, 0.5, 0.625, 0.75, 1.0)),
    Constant("SUSTAINED_Z", spike, (0.25, 0.3125, 0.375, 0.5, 0.75)),
    Constant("SUSTAINED_ROWS", spike, (2, 3, 4, 5, 6)),
    Constant("DIP_Z", spike, (1.0, 1.5, 2.0, 2.5, 3.0)),
    Constant("EARLY_TIMES", spike, (1.0, 1.5, 2.0, 3.0)),
    Constant("NORM_RISE", spike, (0.25, 0.5, 1.0, 2.0, 4.0)),
    Constant("NORM_ROWS", spike, (1, 2, 3, 4, 5)),
    Constant("YOUNG_RISE", spike, (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)),
    Constant("YOUNG_NATS", spike, (0.25, 0.5, 1.0, 1.5, 2.0)),
    Constant("YOUNG_ROWS", spike, (3, 5, 8)),
    Constant("START_ROWS", spike, (0, 20, 32, 64, 96, 128)),
    Constant("ratio", "divergence", (0.02, 0.03, 0.04, 0.05, 0.07, 0.1)),
    Constant("NOISE", divergence, (0.0, 1.1, 1.6, 2.2, 3.0)),
    Constant("z", "drift", (1.0, 1.3, 1.6, 2.0, 2.5, 3.0)),
    Constant("relative", "drift", (0.0, 0.01, 0.02, 0.03, 0.05)),
    Constant("window_steps", "drift", (200, 350, 500, 700)),
    Constant("STILL_CLIMBING", drift, (0.0, 0.08, 0.15, 0.3)),
)
# Too few positives, or none: shown is who fires at each value, over every log there is.
SEPARATIONS = (
    Constant("halvings", "loss_scale", (1, 2, 3, 4, 5)),
    Constant("window_steps", "loss_scale", (100, 50, 20, 10, 5)),
    Constant("search_steps", "loss_scale", (0, 50, 100, 200)),
    Constant("below", "too_good", (2.0, 1.0, 0.5, 0.1, 0.02)),
    Constant("fall", "too_good", (0.1, 0.2, 0.3, 0.5, 0.7)),
    Constant("min_history_steps", "too_good", (0, 250, 500, 1000)),
    Constant("window_steps", "plateau", (2_000, 5_000, 10_000, 20_000, 50_000)),
    Constant("improvement", "plateau", (0.02, 0.01, 0.005, 0.002)),
    Constant("gated_in_a_row", "non_finite", (1, 2, 5, 10)),
)
UNTOUCHED = """nothing in these logs speaks of: generalisation (no val_loss is logged), precursor (none of its metrics is logged),
grace and its heights (no log has a resume), norm_relative of drift (info only), overflows_max and floor of loss_scale"""


@contextmanager
def setting(policy: Policy, *changes: tuple[Constant, float]) -> Iterator[Policy]:
    """The policy with these values; constants of a module are put back afterwards."""
    before = [(constant, getattr(constant.room, constant.name)) for constant, _ in changes if not isinstance(constant.room, str)]
    for constant, value in changes:
        if not isinstance(constant.room, str):
            setattr(constant.room, constant.name, value)
        elif constant.name == "hold":
            policy = _held(policy, int(value))
        else:
            detectors = policy.spec.detectors
            own = getattr(detectors, constant.room)
            kept = type(getattr(own, constant.name))(value)
            detectors = detectors.model_copy(update={constant.room: replace(own, **{constant.name: kept})})
            policy = policy.model_copy(update={"spec": policy.spec.model_copy(update={"detectors": detectors})})
    try:
        yield policy
    finally:
        for constant, value in before:
            setattr(constant.room, constant.name, value)


def _held(policy: Policy, steps: int) -> Policy:
    rules = tuple(
        rule.model_copy(update={"for_": replace(rule.for_, steps=steps)}) if rule.on == "spike" else rule
        for rule in policy.spec.rules
    )
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"rules": rules})})


def shipped(constant: Constant, policy: Policy) -> float:
    if constant.name == "hold":
        return float(next(rule.for_.steps for rule in policy.spec.rules if rule.on == "spike"))
    room = getattr(policy.spec.detectors, constant.room) if isinstance(constant.room, str) else constant.room
    return float(getattr(room, constant.name))


def title(constant: Constant) -> str:
    return f"{constant.room if isinstance(constant.room, str) else constant.room.__name__.rpartition('.')[2]} {constant.name}"


def detector_of(constant: Constant) -> str:
    """The name of the detector that it belongs to, as in the registry."""
    return title(constant).split()[0]
