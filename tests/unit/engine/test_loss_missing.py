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


def test_the_page_is_taken_back_at_every_channel_when_the_loss_is_back_as_regularly_as_before() -> None:
    bench = Bench(policy_named("default")).launched()
    bench.steps(1, 300)
    for step in range(301, 400):
        bench.tell(StepReading(1, step, float(step), (), {"grad_norm": 0.3}))
    bench.tick(1.0)
    assert [page.stage for page in bench.decided(a.SendPage)] == ["trigger"]
    bench.steps(400, 418).tick(1.0)
    assert bench.incident.page is not None
    assert bench.incident.page.is_open, "19 rows: it may come and go"
    bench.steps(419, 419).tick(1.0)
    assert not bench.incident.page.is_open
    assert bench.incident.page.resolved == "the loss is back: it was in the newest 20 rows"
    assert [page.stage for page in bench.decided(a.SendPage)] == ["trigger", "resolve"]


def test_a_run_that_finishes_without_its_loss_leaves_the_page_open_and_sees_that_it_gets_out() -> None:
    bench = Bench(policy_named("default")).launched()
    bench.steps(1, 300)
    for step in range(301, 400):
        bench.tell(StepReading(1, step, float(step), (), {"grad_norm": 0.3}))
    bench.ends(399)
    assert bench.state.ended == "finished"
    assert [incident.kind for incident in bench.state.open_pages] == ["loss_missing"]
    assert [page.stage for page in bench.decided(a.SendPage)] == ["trigger"]
    assert bench.engine.owes_a_page(bench.now_s), "it is on its way"
    bench.done("page/1/1/trigger/terminal")
    assert not bench.engine.owes_a_page(bench.now_s)
