"""Checkpoints that are whole by their bytes and no good: what becomes of the run that would resume from one."""

from __future__ import annotations

import pytest

from sentinel.model.facts import AttemptEnded, CheckpointCondemned, Noted
from sentinel.plan.trust import judge_trust
from sentinel.policy.schema import Checkpoints, Policy
from sentinel.sim.drill import drill_file
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import SimulationResult, run_scenario, run_seed
from sentinel.sim.scenarios import Scenario, draw_scenario
from tests.sim.kit import SHORT, policy_named, simulate
from tests.sim.test_drills import DRILLS

KILL = "kill@step=90:rank=0"


def resumed(result: SimulationResult) -> list[int]:
    return [attempt.resumed_step for attempt in result.state.attempts]


def why(result: SimulationResult, step: int) -> str:
    return next(t.reason for t in judge_trust(result.state, 60) if t.checkpoint.step == step and t.word == "quarantined")


@pytest.mark.parametrize("seen", ["norm", "finite"])
def test_numbers_that_do_not_hold_are_seen_before_anything_is_launched(seen: str) -> None:
    result = simulate(f"bad_numbers@step=80:seen={seen}", KILL)
    assert result.ok, result.reproduce
    assert (result.outcome, resumed(result), len(result.pages)) == ("finished", [0, 60], 0)


def test_what_only_its_loading_shows_is_refused_by_the_trainer_and_not_asked_for_again() -> None:
    result = simulate("bad_numbers@step=80:seen=load", KILL, "kill@step=75:rank=0,attempt=2")
    assert result.ok, result.reproduce
    assert (result.outcome, resumed(result)) == ("finished", [0, 60, 60])
    asked = [attempt.resume.step for attempt in result.state.attempts if attempt.resume is not None]
    assert asked == [80, 60]


def test_what_the_trainer_falls_back_to_by_itself_is_its_own_choice_and_said_not_to_be_looked_at() -> None:
    """It refuses 80 and takes 60, whose norm is wrong: Sentinel hears of it when it is done."""
    result = simulate("bad_numbers@step=80:seen=load", "bad_numbers@step=60:seen=norm", KILL)
    assert result.ok, result.reproduce
    assert resumed(result)[:2] == [0, 60]
    (said,) = [e.fact.reason for e in result.entries if isinstance(e.fact, Noted) and e.fact.about == "resume"]
    assert said.endswith("`sentinel checkpoints verify 60 RUN_DIR` does that")


def test_a_wrong_norm_shows_only_beside_a_right_one() -> None:
    """The first of all: nothing says that the trainer means the same by both, and there is nothing to go back to."""
    result = simulate("bad_numbers@step=20:seen=norm", "kill@step=30:rank=0")
    assert result.ok, result.reproduce
    assert (result.outcome, resumed(result)) == ("finished", [0, 20])


@pytest.mark.parametrize("after", [0, 1, 4])
def test_two_deaths_alike_pass_it_over(after: int) -> None:
    result = simulate(f"bad_resume@step=80:after={after}", KILL)
    assert result.ok, result.reproduce
    assert (result.outcome, resumed(result), len(result.pages)) == ("finished", [0, 80, 80, 60], 0)
    assert "moved aside" in why(result, 80)


def test_where_every_one_kills_a_person_is_called_after_one_was_passed_over() -> None:
    result = simulate("bad_resume@step=40:always", KILL)
    assert result.ok, result.reproduce
    assert (result.outcome, resumed(result), len(result.pages)) == ("failed", [0, 80, 80, 60], 1)


def test_a_death_that_comes_whatever_was_resumed_blames_none() -> None:
    result = simulate("crash@step=84:always")
    assert result.ok, result.reproduce
    assert not any(checkpoint.evidence for checkpoint in (*result.state.checkpoints, *result.state.quarantined))


def test_an_exploding_load_inside_a_repair_never_goes_past_the_open_onset() -> None:
    result = simulate("nan_state@step=90", "bad_resume@step=80")
    assert result.ok, result.reproduce
    assert (result.outcome, resumed(result)) == ("finished", [0, 80, 80, 60])


@pytest.mark.parametrize("name", ["bad-numbers", "bad-resume"])
def test_a_drill_notices_an_engine_that_does_not_look(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.engine.ladder.pass_over_failing", lambda decision: False)
    monkeypatch.setattr("sentinel.sim.actions.SimRunner._norm", lambda self, step: None)
    assert not drill_file(DRILLS / f"{name}.yaml").ok


def test_the_seeds_draw_them() -> None:
    for kind in ("bad_numbers", "bad_resume"):
        drawn = [seed for seed in range(20261120, 20261190) if f"{kind}@" in str(draw_scenario(seed, False))]
        assert drawn
        assert all(run_seed(seed, policy_named("demo")).ok for seed in drawn[:10])


# Read behind training.


def remembering() -> Policy:
    policy = policy_named("demo")
    spec = policy.spec.model_copy(update={"checkpoints": Checkpoints(verify="remembered")})
    return policy.model_copy(update={"spec": spec})


def under(policy: Policy, *faults: str) -> SimulationResult:
    return run_scenario(Scenario(seed=1, shape=SHORT, faults=tuple(parse_fault(text) for text in faults)), policy)


def test_a_checkpoint_that_rots_is_known_before_anybody_needs_it() -> None:
    result = under(remembering(), "bit_rot@step=80", KILL)
    assert result.ok, result.reproduce
    assert (result.outcome, resumed(result)) == ("finished", [0, 60])
    facts = [entry.fact for entry in result.entries]
    condemned = next(at for at, fact in enumerate(facts) if isinstance(fact, CheckpointCondemned))
    died = next(at for at, fact in enumerate(facts) if isinstance(fact, AttemptEnded))
    assert condemned < died
    assert under(policy_named("demo"), "bit_rot@step=80", KILL).ok


def test_what_is_read_behind_training_breaks_nothing_in_drawn_disasters() -> None:
    policy = remembering()
    for seed in range(20261120, 20261126):
        result = run_seed(seed, policy)
        assert result.ok, result.reproduce
