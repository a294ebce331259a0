"""What becomes of hurt runs under three regimes, in the simulator over the same drawn disasters: `make bench-recovery`.

restarts only: the demo policy with only its rules on crashes, hangs and broken jobs, and a playbook that resumes from the newest
checkpoint three times and gives up. It is flattered: hangs are found and checkpoints verified as Sentinel does it. gate: the
same, and the trainer leaves an update out whose gradient norm is not finite or above three times the median of the last hundred
accepted ones, twenty in a row at most. It cannot undo what is in the weights or the optimizer by itself (NaN, a flipped bit, a
drift). sentinel: the demo policy as shipped. RECOVERY_SEEDS=N draws more.
"""

from __future__ import annotations

import math
import os
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from sentinel.policy.schema import Policy
from sentinel.policy.schema_rungs import Rung
from sentinel.sim import trainer as sim_trainer
from sentinel.sim.end_invariants import surviving
from sentinel.sim.invariants import SPOILED_NATS
from sentinel.sim.learning import Hurt, LossCurve, Update, Weights, update
from sentinel.sim.run import Simulation
from sentinel.sim.scenarios import Scenario, draw_scenario
from tests.sim.kit import policy_named

BASE, COUNT = 20261120, int(os.environ.get("RECOVERY_SEEDS", "100"))
UNTIL_S = 3600.0
BY_PEOPLE = ("stop", "again", "ask", "term")
HEAD = "| | survived | trained all steps | of them with damage | final loss, median | steps thrown away, mean | wall, median |"
RESTARTS, GATE_TIMES, GATE_WINDOW, GATED_MAX = 3, 3.0, 100, 20


class Ended(NamedTuple):
    """`harm`: nats by which the final loss is above the unhurt run's (infinite for NaN); `lost_steps`: trained and thrown away;
    `broken`: the simulator's own verdict."""

    finished: bool
    loss: float
    harm: float
    lost_steps: int
    seconds: float
    broken: str = ""

    @property
    def survived(self) -> bool:
        return self.finished and self.harm < SPOILED_NATS


def scenarios() -> list[Scenario]:
    """Drawn ones of every plan, with something in them that goes wrong and nobody who steps in."""
    found: list[Scenario] = []
    seed = BASE
    while len(found) < COUNT:
        one = draw_scenario(seed)
        if one.faults and not one.observe_only and not any(fault.kind in BY_PEOPLE for fault in one.faults):
            found.append(replace(one, must_finish=False))  # that is asked of a shipped policy only
        seed += 1
    return found


def restarts_only() -> Policy:
    demo = policy_named("demo")
    rungs = [Rung.model_validate({"resume": {"from": "newest"}})] * RESTARTS + [demo.spec.playbooks["restart"][-1]]
    rules = tuple(rule for rule in demo.spec.rules if rule.on in ("crash", "hang", "broken_job"))
    assert len(rules) == 3
    spec = demo.spec.model_copy(update={"rules": rules, "playbooks": demo.spec.playbooks | {"restart": tuple(rungs)}})
    return demo.model_copy(update={"spec": spec})


def gate() -> Callable[..., Update]:
    """An update function that leaves updates with a tall gradient out; what strikes the state itself strikes all the same."""
    accepted: deque[float] = deque(maxlen=GATE_WINDOW)
    gated = 0

    def gated_update(
        curve: LossCurve, weights: Weights, step: int, cursor: int, hurts: list[Hurt], lr_scale: float, clip: float
    ) -> Update:
        nonlocal gated
        made = update(curve, weights, step, cursor, hurts, lr_scale, clip)
        is_tall = len(accepted) >= 20 and made.grad_norm > GATE_TIMES * statistics.median(accepted)
        if (is_tall or not math.isfinite(made.grad_norm)) and gated < GATED_MAX:
            gated += 1
            struck = [hurt for hurt in hurts if hurt.lasts > 0.0]
            after = update(curve, weights, step, cursor, struck, lr_scale, clip).weights if struck else weights
            return made._replace(weights=after)
        gated = 0
        if math.isfinite(made.grad_norm):
            accepted.append(made.grad_norm)
        return made

    return gated_update


def simulate(scenario: Scenario, policy: Policy) -> Ended:
    simulation = Simulation(scenario, policy, check_fold=False)
    result = simulation.run(UNTIL_S)
    trained = sum(len(trainer.trail) for trainer in simulation.trainers.values())
    if not simulation.trainers:
        return Ended(False, math.nan, math.inf, 0, result.seconds)
    last = max(simulation.trainers)
    weights, shape = simulation.trainers[last].weights, scenario.shape
    trail = surviving(simulation.trainers, last)
    harm = math.inf if weights.ruined_by else weights.excess(shape.steps)
    loss = shape.curve.loss(shape.steps, trail[-1][1][0][0]) + harm if trail else math.nan
    return Ended(result.outcome == "finished", loss, harm, trained - len(trail), result.seconds, result.broken)


def row(name: str, runs: list[Ended]) -> str:
    done = [run for run in runs if run.finished]
    survived = sum(run.survived for run in runs) / len(runs)
    loss = statistics.median(run.loss for run in done)
    harmed = sum(run.harm >= SPOILED_NATS for run in done)
    lost = statistics.mean(run.lost_steps for run in runs)
    seconds = statistics.median(run.seconds for run in done)
    return f"| {name} | {survived:.0%} | {len(done) / len(runs):.0%} | {harmed} | {loss:.2f} | {lost:.0f} | {seconds:.0f} s |"


@pytest.mark.bench
def test_what_becomes_of_hurt_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, naive, demo = scenarios(), restarts_only(), policy_named("demo")
    restarted = [simulate(one, naive) for one in drawn]
    watched = [simulate(one, demo) for one in drawn]
    gated = []
    for one in drawn:
        monkeypatch.setattr(sim_trainer, "update", gate())
        gated.append(simulate(one, naive))
    print(f"\n{COUNT} disasters, seeds from {BASE}")
    print(HEAD)
    print("|---|---|---|---|---|---|---|")
    for name, runs in (("restarts only", restarted), ("restarts and a gate", gated), ("sentinel, `demo`", watched)):
        print(row(name, runs))
        assert not [run.broken for run in runs if run.broken], "no run was cut short by the simulator"
    assert sum(run.survived for run in watched) > max(sum(run.survived for run in runs) for runs in (restarted, gated))
