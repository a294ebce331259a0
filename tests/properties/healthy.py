"""What the shipped `default` policy's detectors say of a drawn stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from sentinel.engine.detector_bank import build_detector_bank
from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import StepReading
from sentinel.policy.schema import Policy
from tests.sim.kit import policy_named

SLOW = frozenset({Kind.DRIFT, Kind.DIVERGENCE})


@cache
def _policy(name: str) -> Policy:
    return policy_named(name)


def alarms_of(rows: Iterable[Mapping[str, float]], *, policy: str = "default", cadence: int = 1) -> list[Finding]:
    """The findings above info in rows `cadence` steps apart."""
    bank, found = build_detector_bank(_policy(policy)), list[Finding]()
    bank.begin_attempt(1, 0.0)
    for number, metrics in enumerate(rows, 1):
        step = number * cadence
        found += bank.step(StepReading(1, step, float(step), (), metrics), float(step))
    return [one for one in found if one.severity != "info"]
