"""The rung `diagnose` in a simulated run: bad data, a flipped bit and a transient are told apart."""

from __future__ import annotations

import pytest

from sentinel.model.incidents import IncidentState, Outcome
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.sim.faults import parse_fault
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape

SHAPE = Shape(steps=300, ranks=2, step_s=0.5, checkpoint_every=25)


@pytest.fixture(scope="module")
def policy() -> Policy:
    """The demo policy with a diagnosis before the first skip."""
    demo = load_policy(shipped_policy_path("demo"))
    rung = type(demo.spec.playbooks["numeric"][0]).model_validate({"rollback": {"before_onset": "20 steps"}, "diagnose": True})
    wait, *rest = demo.spec.playbooks["numeric"]
    playbooks = demo.spec.playbooks | {"numeric": (wait, rung, *rest)}
    return demo.model_copy(update={"spec": demo.spec.model_copy(update={"playbooks": playbooks})})


def simulate(policy: Policy, *faults: str) -> SimulationResult:
    result = run_scenario(Scenario(7, SHAPE, tuple(parse_fault(text) for text in faults)), policy)
    assert result.ok, result.reproduce
    assert result.outcome == "finished"
    return result


def test_bad_data_fails_again_on_the_same_record_and_is_skipped(policy: Policy) -> None:
    (incident,) = simulate(policy, "bad_data@sample=1600-2000:heals=slow").state.incidents
    assert incident.diagnosis is not None
    assert incident.diagnosis.cause == "data"
    assert [t.outcome for t in incident.tries] == [Outcome.FAILED, Outcome.FAILED, Outcome.WORKED]
    assert "skip" in incident.tries[-1].remedy.words
    assert incident.state is IncidentState.RECOVERED


def test_a_flipped_bit_does_not_come_back_and_the_rank_is_blamed(policy: Policy) -> None:
    result = simulate(policy, "bit_flip@step=110:rank=1,height=3")
    (incident,) = result.state.incidents
    assert incident.diagnosis is not None
    assert (incident.diagnosis.cause, incident.diagnosis.ranks, incident.blamed_rank) == ("hardware", (1,), 1)
    assert incident.state is IncidentState.RECOVERED
    assert [t.outcome for t in incident.tries] == [Outcome.FAILED, Outcome.WORKED], "nothing had to be skipped"
    assert any("hardware" in page.key or page.to == str(incident.id) for page in result.pages), "a person is told"


@pytest.mark.parametrize("seed_place", [20, 30, 34, 35, 36, 38])
def test_a_supervisor_killed_in_a_diagnosis_asks_again(policy: Policy, seed_place: int) -> None:
    faults = ("bit_flip@step=110:rank=1,height=3", f"supervisor_kill@journal={seed_place}:for=5,side=after")
    (incident, *_) = simulate(policy, *faults).state.incidents
    assert incident.diagnosis is not None
    assert incident.diagnosis.cause == "hardware"
