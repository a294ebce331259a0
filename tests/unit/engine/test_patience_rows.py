"""Patience in rows: where every hundredth step is logged, 20 steps above the band are no row at all."""

from __future__ import annotations

import random

import pytest

from sentinel.engine import Engine
from sentinel.model import facts as f
from sentinel.model.events import ActionDone, SupervisorStarted
from sentinel.model.incidents import Band, Outcome
from sentinel.model.readings import Receipt, StepReading
from sentinel.plan.verdict import Peak, judge_band
from sentinel.policy.schema import Policy
from tests.sim.kit import policy_named

ONSET = 300


def with_rows(rows: int) -> Policy:
    policy = policy_named("default").model_copy(deep=True)
    for playbook in policy.spec.playbooks.values():
        for rung in playbook:
            if rung.wait is not None:
                object.__setattr__(rung.wait, "rows", rows)  # frozen
    return policy


def given_up(policy: Policy, cadence: int, lasts: int, again: int = 0, noise: float = 0.02) -> int | None:
    """Rows from the finding to the end of the patience, for a hump of `lasts` rows; None where it was never given up. With an
    end of its own (`again`: rows behind its beginning it is up for good) it does not fall before."""
    draw, engine, found = random.Random(5), Engine(policy), None
    for fact in engine.handle(0.0, SupervisorStarted(1, "rows", 0, "rows", ("rows",), "/", "default", "0" * 64, True)):
        if isinstance(fact, f.ActionDecided):
            engine.handle(0.0, ActionDone(fact.action.key, "done"))
    engine.handle(0.0, Receipt(1, 0.0, 0, None, 1, {}, {}))
    for number in range(1, ONSET + 400):
        since = number - ONSET
        up = 0.8 * max(0.0, (since < lasts if again else 1.0 - since / lasts)) if since >= 0 else 0.0
        up = 0.8 if 0 < again <= since else up
        loss = 2.2 + up + draw.gauss(0.0, noise)
        step = number * cadence
        for fact in engine.handle(float(step), StepReading(1, step, float(step), (), {"loss": loss})):
            if isinstance(fact, f.IncidentOpened):
                found = number
            elif isinstance(fact, f.RungJudged) and fact.outcome is Outcome.FAILED and found is not None:
                return number - found
    assert found is not None, "the hump was never found"
    return None


@pytest.mark.parametrize("cadence", [100, 500])
def test_a_hump_of_sixteen_rows_is_waited_out_where_rows_are_seldom(cadence: int) -> None:
    assert given_up(with_rows(0), cadence, lasts=16) == 10, "as soon as ten rows tell that it stands above"
    assert given_up(with_rows(20), cadence, lasts=16) is None


def test_what_has_just_come_back_when_patience_ends_is_not_acted_on() -> None:
    """Twelve of the rows that were judged stood above. In recorded runs, five of six needless rollbacks were of this kind."""
    assert given_up(with_rows(20), 100, lasts=12, again=10**9, noise=0.06) is None


def test_and_is_when_it_rises_again() -> None:
    assert given_up(with_rows(20), 100, lasts=12, again=21, noise=0.06) == 21


def test_what_lasts_is_given_up_all_the_same() -> None:
    assert given_up(with_rows(20), 100, lasts=10_000) == 20


def test_a_run_that_logs_every_step_waits_as_before() -> None:
    assert given_up(with_rows(0), 1, lasts=10_000) == given_up(with_rows(20), 1, lasts=10_000)


def test_a_steep_beginning_does_not_explain_a_spike_s_fall_away() -> None:
    """The loss had fallen by 1.2 nats in the 9,000 steps before; a straight line would have it fall by as much again."""
    before = Band("loss", 4.27, 0.01, 20, step=10_000, fall=1.2, fall_steps=9_000)
    now = Band("loss", 4.28, 0.02, 20, step=20_000)
    assert judge_band(now, before, 0.02, Peak(10_500, 6.4)).is_within
    creeping = Band("loss", 4.34, 0.02, 20, step=12_000)
    assert not judge_band(creeping, before, 0.02, Peak(10_500, 4.4)).is_within, "its own descent explains all of that"
