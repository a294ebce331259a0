"""Waiting for a spike to heal, and watching whether a remedy worked; and the times that are reported of it."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from sentinel.model import facts as f
from sentinel.model.incidents import IncidentState
from tests.builders import POLICY, Bench, build_policy, read_step

PAGE = {"page": {"severity": "critical"}, "then": "stop_now"}


def spiked(policy=None) -> Bench:  # type: ignore[no-untyped-def]
    bench = Bench(policy).launched()
    bench.steps(1, 50).checkpoint(50)
    return bench.steps(51, 70).steps(71, 72, loss=8.0)


def test_a_spike_that_heals_is_recovered_benign_and_nothing_was_done() -> None:
    bench = spiked()
    bench.steps(73, 84)
    assert (bench.incident.state, bench.incident.benign) == (IncidentState.RECOVERED, True)
    assert not bench.state.interventions_s
    assert len(bench.state.attempts) == 1


def test_a_plateau_up_there_ends_patience_early() -> None:
    bench = spiked()
    bench.steps(73, 76, loss=3.0)
    assert bench.state.plan is not None
    assert "above its band for 4 steps" in bench.incident.tries[0].reason


def test_a_spike_that_is_already_over_is_not_acted_on_because_the_window_still_holds_it() -> None:
    bench = spiked()
    bench.steps(73, 74, loss=8.0).steps(75, 76)
    assert bench.state.plan is None
    bench.steps(77, 84)
    assert (bench.incident.state, bench.incident.benign) == (IncidentState.RECOVERED, True)


def collapsing(last_overflow: int, last: int) -> Bench:
    """An fp16 run whose updates overflow from step 61 on: the weights stand still, and so does their loss."""
    loss_scale = {"halvings": 3, "within": "4 steps", "floor": 1.0, "search": "20 steps"}
    spec = POLICY["spec"]
    rule = {"alert": "Collapse", "on": "loss_scale_collapse", "labels": {"severity": "critical"}, "playbook": "numeric"}
    policy = build_policy(detectors=spec["detectors"] | {"loss_scale": loss_scale}, rules=[*spec["rules"], rule])
    bench = Bench(policy).launched()
    scale = 65536.0
    for step in range(1, last + 1):
        overflows = 61 <= step <= last_overflow
        bench.step(step, 2.0, loss_scale=scale, overflow=float(overflows), skipped=float(overflows))
        scale *= 0.5 if overflows else 1.0
        if step == 50:
            bench.checkpoint(50)
    return bench


def test_a_loss_scale_that_still_falls_has_not_healed_whatever_the_loss_says() -> None:
    bench = collapsing(90, 80)
    assert bench.incident.kind == "loss_scale_collapse"
    assert bench.state.plan is not None
    assert "still falling: the loss scale was halved" in bench.incident.tries[0].reason


def test_a_loss_scale_that_came_to_rest_has() -> None:
    bench = collapsing(65, 100)
    assert (bench.incident.state, bench.incident.benign) == (IncidentState.RECOVERED, True)


def test_patience_has_an_end() -> None:
    rungs = [{"wait": {"for": "20 steps"}}, {"rollback": {"before_onset": "20 steps"}}, PAGE]
    bench = spiked(build_policy(playbooks={"numeric": rungs}))
    bench.steps(73, 90, loss=2.5)
    assert bench.state.plan is None
    bench.steps(91, 92, loss=2.5)
    assert bench.state.plan is not None
    assert "not healed within 20 steps" in bench.incident.tries[0].reason


def test_probation_counts_steps_past_the_break() -> None:
    bench = spiked().steps(73, 76, loss=8.0)
    broke = bench.incident.break_step
    bench.launched().steps(51, broke + 59)
    assert bench.incident.state is IncidentState.PROBATION
    bench.step(broke + 60)
    assert bench.incident.state is IncidentState.RECOVERED
    assert bench.incident.tries[-1].outcome == "worked"


def test_a_remedy_after_which_the_loss_stays_high_has_failed() -> None:
    bench = spiked().steps(73, 76, loss=8.0)
    broke = bench.incident.break_step
    bench.launched().steps(51, 70)
    for step in range(71, broke + 61):
        bench.step(step, 2.0 + 0.004 * (step - 70))  # too slow for the spike detector
        if bench.state.plan is not None:
            break
    assert bench.incident.tries[1].outcome == "failed"
    assert "is above" in bench.incident.tries[1].reason
    assert bench.state.plan is not None


def test_a_crash_is_recovered_by_steps_alone() -> None:
    bench = Bench().launched()
    bench.steps(1, 30).exits(signal=9).launched().steps(1, 89)
    assert bench.incident.state is IncidentState.PROBATION
    bench.step(90)
    assert bench.incident.state is IncidentState.RECOVERED
    assert "60 steps past step 30 without another finding" in bench.incident.verdict


def test_times_count_from_the_moment_the_fault_was_visible() -> None:
    bench = spiked().steps(73, 76, loss=8.0)
    first_bad_s = next(e.at_s for e in bench.entries if isinstance(e.fact, f.IncidentOpened))
    incident = bench.incident
    assert incident.visible_s <= first_bad_s == incident.detected_s
    bench.launched().steps(51, incident.break_step)
    assert bench.incident.restored_s is None
    bench.step(incident.break_step + 1)
    assert bench.incident.restored_s == bench.now_s


def test_a_hang_was_visible_from_the_last_sign_of_life() -> None:
    bench = Bench().launched()
    bench.steps(1, 30).beat("forward", 30)
    last_s = bench.now_s
    bench.tick(400)
    assert (bench.incident.visible_s, bench.incident.detected_s) == (last_s, bench.now_s)


def test_a_rung_that_fails_takes_back_that_the_run_was_restored() -> None:
    bench = Bench().launched()
    bench.steps(1, 30).exits(signal=9).launched().steps(1, 31)
    assert bench.incident.restored_s is not None
    bench = spiked().steps(73, 76, loss=8.0)
    bench.launched().steps(51, 70).steps(71, 73, loss=8.0)
    assert bench.incident.restored_s is None


def test_an_incident_without_a_level_before_it_is_judged_by_steps_alone() -> None:
    bench = Bench().launched()
    bench.step(1, nan)
    assert bench.incident.band is None
    bench.launched().steps(1, 61)
    assert bench.incident.state is IncidentState.RECOVERED


def keeping(how_long: str) -> Any:
    rule = {"alert": "Spike", "on": "spike", "for": "1 step", "keep_firing_for": how_long, "playbook": "numeric"}
    return build_policy(rules=[rule])


@pytest.mark.parametrize("how_long", ["30 steps", "30s"])
def test_a_rule_that_keeps_firing_has_its_incident_open_so_long_after_it_was_last_seen(how_long: str) -> None:
    bench = spiked(keeping(how_long))
    bench.steps(73, 100)
    assert bench.incident.state is IncidentState.OPEN
    bench.steps(101, 103)
    assert (bench.incident.state, bench.incident.benign) == (IncidentState.RECOVERED, True)


def test_what_comes_again_meanwhile_is_the_same_incident_and_starts_the_time_anew() -> None:
    bench = spiked(keeping("30 steps")).steps(73, 92).steps(93, 94, loss=8.0)
    assert len(bench.state.incidents) == 1
    bench.steps(95, 110)
    assert bench.incident.state is IncidentState.OPEN


def test_a_probation_too_is_not_over_before_it() -> None:
    bench = spiked(keeping("90 steps")).steps(73, 76, loss=8.0)
    broke = bench.incident.break_step
    bench.launched().steps(51, broke + 89)
    assert bench.incident.state is IncidentState.PROBATION
    bench.steps(broke + 90, broke + 91)
    assert bench.incident.state is IncidentState.RECOVERED


def test_what_heals_in_patience_after_a_remedy_was_tried_is_not_benign() -> None:
    """Only what healed untouched is; and the metric was back before the verdict."""
    page = {"page": {"severity": "critical"}, "then": "stop_now"}
    numeric = [{"rollback": {"before_onset": "20 steps"}}, {"wait": {"for": "40 steps"}}, page]
    bench = Bench(build_policy(playbooks={"numeric": numeric})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 72, loss=8.0)
    bench.launched().steps(51, 70).steps(71, 72, loss=8.0).steps(73, 110)
    (moved,) = [fact for fact in bench.of(f.IncidentMoved) if fact.to is IncidentState.RECOVERED]
    assert (bench.incident.benign, moved.back_step) == (False, 73)


def seldom(policy: Any = None) -> Bench:
    """A run logged every 100 steps."""
    bench = Bench(policy, observe_only=True).launched()
    for step in range(100, 6_100, 100):
        bench.step(step)
    return bench


def test_two_rows_of_a_run_that_logs_seldom_heal_nothing_and_ten_do() -> None:
    bench = seldom()
    for step in (6_100, 6_200):
        bench.step(step, 8.0)
    for step in range(6_300, 7_100, 100):
        bench.step(step)
    assert bench.incident.state is IncidentState.OPEN, "eight rows since"
    for step in range(7_100, 8_100, 100):
        bench.step(step)
    assert bench.incident.state is IncidentState.RECOVERED


def test_a_band_of_fewer_than_ten_rows_is_none_and_the_incident_is_never_healed() -> None:
    bench = Bench(observe_only=True).launched()
    bench.recall()
    bench.steps(1, 6).step(7, nan)
    assert bench.incident.band is None
    bench.steps(8, 14)
    assert bench.incident.state is not IncidentState.RECOVERED, "seven rows"


def test_a_run_that_finishes_before_it_is_known_says_so_and_calls_somebody() -> None:
    bench = Bench(observe_only=True).launched()
    bench.steps(1, 70).steps(71, 72, loss=8.0).steps(73, 76).ends(76)
    assert bench.state.ended == "finished"
    assert bench.incident.state is IncidentState.UNKNOWN
    assert any("finished before it was known" in fact.reason for fact in bench.of(f.PageRaised)), bench.of(f.PageRaised)


def moving(bench: Bench, first: int, last: int, loss: float | None = None, **metrics: float) -> Bench:
    for step in range(first, last + 1):
        bench.step(step, loss, **{"lr": 3e-4, "update_norm": 0.5, **metrics})
    return bench


@pytest.mark.parametrize("still", ["lr", "update_norm"])
def test_weights_that_do_not_move_prove_no_repair(still: str) -> None:
    """A schedule that was restored wrongly: the loss is as flat as one could wish."""

    def repaired() -> Bench:
        bench = moving(Bench().launched(), 1, 50).checkpoint(50)
        moving(moving(bench, 51, 70), 71, 76, loss=8.0).launched(receipt=False)
        past = tuple(read_step(0, step, lr=3e-4, update_norm=0.5) for step in range(1, bench.resumed_from + 1))
        return bench.receipt(history=past)

    bench = repaired()
    moving(bench, bench.resumed_from + 1, 140, **{still: 0.0})
    assert bench.incident.state is IncidentState.PROBATION
    bench.ends(140)
    assert bench.incident.state is IncidentState.UNKNOWN
    assert "nothing is trained" in bench.incident.verdict
    fine = repaired()
    moving(fine, fine.resumed_from + 1, 140)
    assert fine.incident.state is IncidentState.RECOVERED
