"""A rule on an expression, from the row where it is true to the end of its incident."""

from __future__ import annotations

from math import nan

from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState, Outcome
from tests.builders import POLICY, Bench, build_policy

RULES = POLICY["spec"]["rules"]
HIGH = {"alert": "High", "expr": "activation_norm > 2", "for": "3 steps", "playbook": "numeric"}
NAMED = {"alert": "Named", "expr": "grad_norm > 9", "labels": {"severity": "info"}}


def bench_with(*rules: dict, **more) -> Bench:
    bench = Bench(build_policy(rules=[*RULES, *rules], **more)).launched()
    for step in range(1, 51):
        bench.step(step, activation_norm=1.0)
    return bench.checkpoint(50)


def high(bench: Bench, first: int, last: int, norm: float = 3.0) -> Bench:
    for step in range(first, last + 1):
        bench.step(step, activation_norm=norm)
    return bench


def test_it_opens_an_incident_of_its_own_name_playbook_and_onset() -> None:
    bench = high(bench_with(HIGH), 51, 53)
    incident = bench.incident
    assert (incident.kind, incident.alert, incident.playbook) == (Kind.EXPRESSION, "High", "numeric")
    assert (incident.onset_step, incident.detected_step) == (51, 53)
    assert incident.is_numeric
    assert incident.limit_step == 51
    assert incident.band is not None, "the level of the judged metric before the onset"


def test_patience_does_not_call_healed_what_is_still_true() -> None:
    """The loss never left its band; what the rule is about has not gone."""
    bench = high(bench_with(HIGH), 51, 56)
    assert bench.incident.is_waiting
    high(bench, 57, 60)
    tried = bench.incident.tries
    assert tried[0].outcome is Outcome.FAILED
    assert "still true: activation_norm > 2" in tried[0].reason
    assert tried[1].remedy.rollback_to_step is not None


def test_patience_ends_well_when_the_condition_is_false_again() -> None:
    bench = high(bench_with(HIGH), 51, 54)
    high(bench, 55, 75, norm=1.0)
    assert (bench.incident.state, bench.incident.benign) == (IncidentState.RECOVERED, True)


def test_a_checkpoint_after_the_onset_is_suspect() -> None:
    bench = high(bench_with(HIGH), 51, 55).checkpoint(55)
    high(bench, 56, 60)
    assert bench.state.plan is not None
    assert bench.incident.tries[-1].remedy.rollback_to_step in (0, 50)


def test_the_same_alert_inside_probation_fails_the_rung() -> None:
    bench = high(bench_with(HIGH), 51, 60).launched()
    assert bench.incident.state is IncidentState.PROBATION
    resumed = bench.incident.tries[-1].remedy.rollback_to_step or 0
    high(bench, resumed + 1, 130)
    assert len(bench.state.incidents) == 1
    assert bench.incident.tries[1].outcome is Outcome.FAILED
    assert len(bench.incident.tries) == 3


def test_a_repair_that_holds_is_proven() -> None:
    bench = high(bench_with(HIGH), 51, 60).launched()
    high(bench, (bench.incident.tries[-1].remedy.rollback_to_step or 0) + 1, 140, norm=1.0)
    assert bench.incident.state is IncidentState.RECOVERED
    assert bench.incident.tries[-1].outcome is Outcome.WORKED


def test_info_is_only_recorded() -> None:
    bench = bench_with(NAMED)
    facts = bench.step(51, grad_norm=10.0)
    assert not bench.state.incidents
    assert any(getattr(fact, "finding", None) is not None and fact.finding.alert == "Named" for fact in facts)


def test_a_restarted_supervisor_finds_nothing_new_in_the_same_stream() -> None:
    bench = high(bench_with(HIGH), 51, 54)
    keys = bench.state.findings
    bench.die()
    assert bench.state.findings == keys
    assert len(bench.state.incidents) == 1


def test_a_value_that_is_no_number_never_heals_an_expression() -> None:
    bench = bench_with({**HIGH, "expr": "activation_norm > 2", "on_nonfinite": "fire", "for": "0s"})
    bench.step(51, activation_norm=nan)
    assert bench.incident.alert == "High"
