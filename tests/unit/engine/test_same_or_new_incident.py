"""Which finding belongs to an incident there is, and which opens its own."""

from __future__ import annotations

from math import nan

from sentinel.model import facts as f
from sentinel.model.incidents import IncidentState
from tests.builders import Bench, build_policy


def in_probation() -> Bench:
    """A spike at 71 (believed at 71, treated at 75) rolled back to 50; the new attempt stands at step 60."""
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 78, loss=8.0)
    bench.launched().steps(51, 60)
    assert bench.incident.state is IncidentState.PROBATION
    return bench


def test_the_same_again_before_the_break_fails_the_remedy_and_takes_the_next_rung() -> None:
    bench = in_probation()
    bench.steps(61, 70).steps(71, 73, loss=8.0)
    assert len(bench.state.incidents) == 1
    assert [(t.remedy.words[0], t.outcome) for t in bench.incident.tries] == [
        ("wait", "failed"), ("rollback", "failed"), ("rollback", "pending"),
    ]  # fmt: skip
    assert bench.incident.tries[-1].remedy.lr_scale == 0.5


def test_the_same_kind_past_the_break_is_a_new_incident_and_the_old_one_goes_on_counting() -> None:
    bench = in_probation()
    past = bench.incident.break_step + 5
    bench.steps(61, past - 1).steps(past, past + 1, loss=8.0)
    first, second = bench.state.incidents
    assert (first.state, second.state) == (IncidentState.PROBATION, IncidentState.OPEN)
    assert second.onset_step == past


def test_a_spike_that_healed_and_comes_again_after_a_rollback_says_nothing_about_the_remedy() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 72, loss=8.0).steps(73, 84)
    assert bench.incident.benign
    bench.steps(85, 90).steps(91, 96, loss=8.0)
    bench.launched()
    assert bench.resumed_from == 50, "behind the spike that healed"
    bench.steps(51, 70).steps(71, 72, loss=8.0)
    first, second = bench.state.incidents
    assert (second.state, second.tries[-1].outcome) == (IncidentState.PROBATION, "pending")
    dismissed = [e.fact for e in bench.entries if isinstance(e.fact, f.FindingRecorded) and e.fact.became is None]
    assert dismissed[-1].reason == f"the samples of incident {first.id} once more, which healed by itself"
    bench.steps(73, 90).steps(91, 92, loss=8.0)
    assert bench.state.incidents[1].tries[1].outcome == "failed", "its own onset is another matter"


def test_a_crash_in_probation_is_its_own_incident_and_the_count_goes_on() -> None:
    bench = in_probation()
    bench.checkpoint(60)
    bench.exits(signal=9)
    spike, crash = bench.state.incidents
    assert (spike.state, crash.kind) == (IncidentState.PROBATION, "crash")
    bench.launched().steps(bench.resumed_from + 1, spike.break_step + 60)
    assert [i.state for i in bench.state.incidents] == [IncidentState.RECOVERED] * 2


def test_resuming_after_a_crash_never_goes_past_an_open_numeric_onset() -> None:
    bench = in_probation()
    bench.steps(61, 74).checkpoint(74)
    bench.exits(signal=9)
    assert bench.resumed_from == 50, "step 74 lies past the onset at 71, and the repair is not proven yet"


def test_a_hang_in_probation_is_its_own_incident_too() -> None:
    bench = in_probation()
    bench.beat("forward", 60).tick(1)
    bench.tick(400)
    spike, hang = bench.state.incidents
    assert (spike.state, hang.kind, hang.onset_step) == (IncidentState.PROBATION, "hang", None)
    assert bench.resumed_from == 50


def test_a_crash_in_patience_leaves_the_spike_open_and_resumes_before_it() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 72, loss=8.0).checkpoint(72)
    assert bench.incident.is_waiting
    bench.exits(signal=9)
    assert [i.kind for i in bench.state.open_incidents] == ["spike", "crash"]
    assert bench.resumed_from == 50
    bench.launched().steps(51, 140)
    assert [i.state for i in bench.state.incidents] == [IncidentState.RECOVERED] * 2
    assert bench.state.incidents[0].benign is True


def test_a_crash_again_before_any_new_step_is_the_same_crash() -> None:
    bench = Bench().launched()
    bench.steps(1, 30)
    bench.exits(signal=9).launched().steps(1, 20).exits(signal=9)
    assert len(bench.state.incidents) == 1
    assert [t.outcome for t in bench.incident.tries] == ["failed", "pending"]


def test_a_crash_past_the_last_one_is_another() -> None:
    bench = Bench().launched()
    bench.steps(1, 30)
    bench.exits(signal=9).launched().steps(1, 31).exits(signal=9)
    assert [i.break_step for i in bench.state.incidents] == [30, 31]


def test_a_hang_where_it_crashed_is_no_crash() -> None:
    bench = Bench().launched()
    bench.steps(1, 30)
    bench.exits(signal=9).launched().steps(1, 20).beat("forward", 20).tick(400)
    assert [i.kind for i in bench.state.incidents] == ["crash", "hang"]


def test_patience_is_told_that_it_still_goes_on_and_nothing_else_happens() -> None:
    policy = build_policy(detectors={"spike": {"metrics": ["loss", "grad_norm"], "window": "40 steps", "level": "4 steps",
                                               "min_history": "40 steps"}})  # fmt: skip
    bench = Bench(policy).launched()
    for step in range(1, 71):
        bench.step(step, grad_norm=1.0 + 0.01 * (step % 3))
    for step in range(71, 75):
        bench.step(step, 8.0, grad_norm=50.0)
    assert len(bench.state.incidents) == 1
    assert [fact for fact in bench.of(f.Noted) if "still going on" in fact.reason]
    assert len(bench.incident.tries) == 1


def test_patience_ends_at_once_when_values_turn_non_finite() -> None:
    bench = Bench().launched()
    bench.steps(1, 70).steps(71, 72, loss=8.0)
    bench.step(73, nan)
    assert bench.state.plan is not None
    assert bench.incident.tries[0].outcome == "failed"
    assert len(bench.state.incidents) == 1


def test_patience_ends_when_the_attempt_dies_of_what_it_waits_for() -> None:
    """Exit 5 with a non_finite incident that is waiting: no step will come to heal in."""
    wait = {"wait": {"for": "40 steps"}}
    page = {"page": {"severity": "critical"}, "then": "stop_now"}
    bench = Bench(build_policy(playbooks={"non_finite": [wait, {"rollback": {"before_onset": "4 steps"}}, page]})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).step(71, nan)
    bench.exits(code=5)
    assert bench.state.plan is not None
    assert bench.resumed_from == 50


def test_a_finding_that_began_before_the_onset_is_the_same_and_nothing_after_it_is_resumed_from() -> None:
    """What a skip leaves of a bad window comes sooner: the rung after must not start between the two."""
    resume = {"resume": {"from": "newest"}}
    numeric = [{"rollback": {"before_onset": "20 steps"}}, resume, {"page": {"severity": "critical"}, "then": "stop_now"}]
    bench = Bench(build_policy(playbooks={"numeric": numeric})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 90).steps(91, 92, loss=8.0)
    bench.launched().steps(51, 80).checkpoint(70).checkpoint(80)
    bench.steps(81, 84).checkpoint(84).steps(85, 86).checkpoint(86).steps(87, 88, loss=8.0)
    assert bench.incident.limit_step == 87
    assert bench.incident.onset_step == 91
    assert bench.resumed_from == 86


def test_findings_of_severity_info_are_recorded_and_are_no_incidents() -> None:
    bench = Bench().launched()
    bench.steps(1, 60)
    bench.step(61, grad_norm=nan, skipped=1.0)
    assert [fact.reason for fact in bench.of(f.FindingRecorded)] == ["severity info: recorded, no incident"]
    assert not bench.state.incidents


def test_a_finding_no_rule_wants_is_on_record_with_the_reason() -> None:
    bench = Bench(build_policy(rules=[{"alert": "Crash", "on": "crash", "playbook": "restart"}])).launched()
    bench.steps(1, 70).steps(71, 72, loss=8.0)
    assert not bench.state.incidents
    assert "no rule is on spike" in bench.of(f.FindingRecorded)[0].reason


def test_a_rule_without_a_playbook_only_records() -> None:
    bench = Bench(build_policy(rules=[{"alert": "Spike", "on": "spike", "for": "1 step"}])).launched()
    bench.steps(1, 70).steps(71, 80, loss=8.0)
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert bench.state.plan is None
