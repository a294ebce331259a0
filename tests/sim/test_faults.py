"""What the engine makes of each kind of fault, in a world where the truth is known."""

from __future__ import annotations

import pytest

from sentinel.errors import UsageError
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.policy.quantities import Rate
from sentinel.sim.declines import DECLINES
from sentinel.sim.faults import KINDS, parse_fault
from sentinel.sim.run import run_scenario
from sentinel.sim.scenarios import Scenario, draw_scenario
from sentinel.sim.shape import Shape
from tests.sim.kit import kinds_and_states, policy_named, simulate

DAY_S = 86400.0


@pytest.mark.slow
def test_days_of_healthy_noise_open_no_incident() -> None:
    """Two simulated days under the default policy, one step every twenty seconds; and the journal stays small."""
    shape = Shape(steps=8_500, step_s=20.0, checkpoint_every=250, save_s=20.0)
    result = run_scenario(Scenario(7, shape, must_finish=True), policy_named("default"), 3 * DAY_S)
    assert result.ok, result.broken
    assert result.seconds > 2 * DAY_S
    assert not result.state.incidents
    assert len(result.entries) < 200


@pytest.mark.parametrize("source", ["metrics", "heartbeats", "launcher", "checkpoints"])
def test_a_blind_source_is_told_and_kills_nothing(source: str) -> None:
    result = simulate(f"blind@time=20:source={source},for=50")
    assert result.ok, result.broken
    assert not result.state.incidents
    told = [(entry.fact.source, entry.fact.ok) for entry in result.entries if isinstance(entry.fact, f.SourceChanged)]
    assert told == [(source, False), (source, True)]


def test_blind_in_every_eye_is_not_a_hang() -> None:
    every = [f"blind@time=20:source={source},for=50" for source in ("metrics", "heartbeats", "launcher", "checkpoints")]
    result = simulate(*every)
    assert result.ok, result.broken
    assert not result.state.incidents


def test_a_hang_behind_a_blindness_is_seen_when_the_eyes_open() -> None:
    result = simulate("hang@step=60:rank=1", "blind@time=20:source=metrics,for=90", "blind@time=20:source=heartbeats,for=90")
    assert result.ok, result.broken
    assert kinds_and_states(result) == [("hang", "recovered")]


@pytest.mark.parametrize("fault", ["kill@step=100:rank=1", "nan_state@step=90", "bad_data@sample=1600-1900", "hang@step=50"])
def test_observe_only_changes_nothing_in_the_world(fault: str) -> None:
    result = simulate(fault, observe_only=True, until_s=600.0)
    assert result.ok, result.broken
    assert [change.what for change in result.world_changes] == ["start"]
    assert result.state.incidents


def test_a_rung_that_only_changes_settings_leaves_the_attempt_alive() -> None:
    result = simulate("unstable@step=100", policy="live", until_s=90.0)
    assert result.ok, result.broken
    assert [change.what for change in result.world_changes][:3] == ["start", "override", "obey"]


def test_a_trainer_that_ignores_what_it_was_told_is_an_incident() -> None:
    result = simulate("deaf@step=0:always", "bad_data@sample=1600-1900:heals=never")
    assert result.ok, result.broken
    assert Kind.OVERRIDE_MISMATCH in {incident.kind for incident in result.state.incidents}
    assert result.pages


@pytest.mark.slow
def test_a_run_that_restarts_hundreds_of_times_stays_small() -> None:
    """A policy with no budget to speak of, a crash every other step, always with progress in between."""
    demo = policy_named("demo")
    endless = demo.spec.budget.model_copy(update={"restarts": Rate(10_000, 60.0), "interventions": Rate(10_000, 60.0)})
    policy = demo.model_copy(update={"spec": demo.spec.model_copy(update={"budget": endless})})
    shape = Shape(steps=1120, step_s=0.1, startup_s=15.0, first_step_s=0.1, checkpoint_every=1, save_s=0.0)
    crashes = tuple(parse_fault(f"crash@step={step}") for step in range(3, 1080, 2))
    result = run_scenario(Scenario(1, shape, crashes, must_finish=True), policy, 2 * DAY_S, check_fold=False)
    assert result.ok, result.broken
    assert len(result.state.attempts) <= 512
    assert len([change for change in result.world_changes if change.what == "start"]) > 512


def test_a_spike_that_heals_is_benign() -> None:
    result = simulate("spike@step=100:length=1,height=4")
    assert result.ok, result.broken
    assert result.outcome == "finished"
    assert len(result.state.attempts) == 1


def test_an_outage_of_the_checkpoints_is_waited_out() -> None:
    result = simulate("kill@step=100:rank=1", "unreadable@time=30:for=60")
    assert result.ok, result.broken
    assert kinds_and_states(result) == [("crash", "recovered")]
    assert [a.resume.step for a in result.state.attempts if a.resume] == [80]


def test_one_that_outlasts_every_retry_is_a_page_and_costs_no_checkpoint() -> None:
    result = simulate("kill@step=100:rank=1", "unreadable@time=30:for=900", "again@time=0:for=900")
    assert result.ok, result.broken
    assert result.pages
    assert result.outcome == "finished"
    assert [a.resume.step for a in result.state.attempts if a.resume] == [80]


def test_when_every_checkpoint_has_rotted_a_person_is_called() -> None:
    result = simulate("kill@step=100:rank=1", "bit_rot@step=20:always")
    assert result.ok, result.broken
    assert result.outcome == "failed"
    assert result.pages
    assert len(result.state.attempts) == 1


def test_every_kind_of_fault_is_drawn_by_some_seed() -> None:
    """But for those that are drawn elsewhere: slow declines take thousands of steps (their drills), `stuck` has test_hangs.py,
    what a cluster does test_cluster.py, and what checks of nodes say test_node_checks.py."""
    drawn = {fault.kind for seed in range(600) for fault in draw_scenario(seed).faults}
    assert drawn == set(KINDS) - set(DECLINES) - {"stuck", "unseen", "refused", "node_says"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kil@step=3", "unknown kind 'kil'"),
        ("kill@sample=1-2", "kill has no place 'sample=1-2'"),
        ("kill@step=x", "step='x' is not a number"),
        ("kill@step=3:speed=2", "kill takes no 'speed=2'"),
        ("bad_data@sample=9-9", "the range 9-9 is empty"),
        ("fails@action=Sing", "no action is called 'Sing'"),
        ("blind@time=3:source=ears", "source='ears'"),
    ],
)
def test_a_fault_that_cannot_be_read_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"{said}.*; write "):
        parse_fault(text)


def test_a_finish_behind_a_blind_stream_is_a_finish() -> None:
    """Found by seed 20261987: nothing was heard of the last attempt, and the run was called broken although it had ended well.
    That nobody has read its last steps is for a person."""
    result = simulate("kill@step=150:rank=0", "blind@time=66:source=metrics,for=60")
    assert result.ok, result.broken
    assert result.outcome == "finished"
    assert [str(incident.kind) for incident in result.state.open_pages] == ["unread"]
