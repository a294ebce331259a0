"""A loss that stays away while training goes on: a person is called, and nothing is rolled back for it."""

from __future__ import annotations

from sentinel.model import actions as a
from sentinel.model.readings import StepReading
from tests.builders import Bench
from tests.sim.kit import policy_named


def test_a_loss_that_is_gone_calls_a_person_once_and_training_goes_on() -> None:
    bench = Bench(policy_named("default")).launched()
    bench.steps(1, 300)
    launches = len(bench.decided(a.StartAttempt))
    for step in range(301, 1000):
        bench.tell(StepReading(1, step, float(step), (), {"grad_norm": 0.3}))
    assert [(str(i.kind), i.onset_step) for i in bench.state.incidents] == [("loss_missing", 301)]
    assert len(bench.decided(a.SendPage)) == 1
    assert len(bench.decided(a.StartAttempt)) == launches
