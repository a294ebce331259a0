"""Shorthands for tests of the simulator and of the engine inside it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from sentinel.policy.schema import Checkpoints, Policy, Retain
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape

HERE = Path(__file__).parent
SHORT = Shape(steps=200, step_s=0.4, startup_s=2.0, checkpoint_every=20)

EVERY_SIXTH = pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(1, 6))])
"""`[first::6]` of the points where a supervisor can be killed: of six in a row one by `make test`, five by `make drills`."""


@cache
def policy_named(name: str) -> Policy:
    """A shipped policy, or one of the files beside this one."""
    if name == "retaining":
        return with_retention(policy_named("demo"), last=2)
    own = HERE / f"{name}.yaml"
    return load_policy(own if own.exists() else shipped_policy_path(name))


def with_retention(policy: Policy, last: int, every_steps: int | None = None, lookback: int = 40) -> Policy:
    """The policy, and old checkpoints are deleted; `lookback`: steps that an onset may be dated back, as far as it reaches."""
    spec = policy.spec
    kept = Checkpoints(retain=Retain.model_validate({"last": last, "every": f"{every_steps} steps" if every_steps else None}))
    detectors = spec.detectors.model_copy(update={"onset_lookback_steps": lookback})
    return policy.model_copy(update={"spec": spec.model_copy(update={"checkpoints": kept, "detectors": detectors})})


def simulate(
    *faults: str, policy: str = "demo", shape: Shape = SHORT, until_s: float = 4 * 3600.0, **more: object
) -> SimulationResult:
    scenario = Scenario(seed=1, shape=shape, faults=tuple(parse_fault(text) for text in faults))
    return run_scenario(replace(scenario, **more), policy_named(policy), until_s)  # type: ignore[arg-type]


def kinds_and_states(result: SimulationResult) -> list[tuple[str, str]]:
    return [(str(incident.kind), str(incident.state)) for incident in result.state.incidents]
