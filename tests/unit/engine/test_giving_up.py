"""Out of remedies: a person is paged with the case, and the policy says what becomes of the training."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import Exited, ExitReport, RankExit
from sentinel.model.findings import Kind
from sentinel.model.incidents import Band, Incident, IncidentState
from tests.builders import Bench, build_policy


def given_up(then: str | None, alive: bool = True, **kind: Any) -> Bench:
    page: dict[str, Any] = {"page": {"severity": "warning"}} | ({"then": then} if then else {})
    bench = Bench(build_policy(playbooks={"non_finite": [page], "restart": [page]})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).checkpoint(60)
    if alive:
        bench.step(61, nan)
    else:
        bench.exits(signal=9)
    assert bench.incident.state is IncidentState.EXHAUSTED
    return bench


@pytest.mark.parametrize("then", ["stop_now", None])
def test_stop_now_kills_without_asking_for_a_checkpoint_and_the_run_has_failed(then: str | None) -> None:
    bench = given_up(then)
    assert not bench.decided(a.RequestStop)
    bench.done("kill/1").exits(signal=9)
    assert bench.state.ended == "failed"
    assert len(bench.state.attempts) == 1


def test_hold_kills_and_then_waits() -> None:
    bench = given_up("hold")
    bench.done("kill/1").exits(signal=9)
    assert (bench.state.ended, bench.state.label) == ("", "held")


def test_hold_of_a_dead_attempt_holds_at_once() -> None:
    assert given_up("hold", alive=False).state.label == "held"


def test_keep_training_touches_nothing() -> None:
    bench = given_up("keep_training")
    assert not bench.decided(a.KillAttempt)
    assert bench.state.label == "training"
    bench.steps(62, 70).ends(70)
    assert bench.state.ended == "finished"


def test_what_was_kept_training_is_resumed_from_whether_saved_before_the_verdict_or_after() -> None:
    """To go back before the onset would be the rollback that the playbook did not ask for."""
    for saved_after in (False, True):
        bench = given_up("keep_training")
        assert not any(c.condemned for c in bench.state.checkpoints)
        assert any("suspect" in fact.reason for fact in bench.of(f.Noted))
        bench.steps(62, 70)
        if saved_after:
            bench.checkpoint(70)
        bench.exits(signal=9)
        assert bench.state.ended == "failed"  # this bench's playbook for a crash has no relaunch
        bench.done("page/2").done("page/1").die()
        assert bench.resumed_from == (70 if saved_after else 60)


def test_keep_training_cannot_keep_a_dead_attempt() -> None:
    assert given_up("keep_training", alive=False).state.ended == "failed"


def test_the_page_tells_the_case_once() -> None:
    bench = given_up("stop_now")
    (page,) = bench.decided(a.SendPage)
    assert (page.severity, page.title) == ("warning", "run: non_finite since step 61")
    assert "loss is nan at step 61" in page.text
    assert bench.incident.pages == (page.key,)


def test_the_page_has_the_words_of_the_policys_author_with_the_incidents_values() -> None:
    words = {"summary": "{{ value }} at {{step}}, was {{ baseline }}, {{ colour }}", "runbook_url": "RUNBOOK.md#x"}
    page: dict[str, Any] = {"page": {"severity": "critical"}, "then": "stop_now"}
    rules = [
        {"alert": kind, "on": kind, "labels": {"severity": "critical"}, "annotations": words, "playbook": "restart"}
        for kind in ("spike", "crash")
    ]
    texts = []
    for ends in (lambda b: b.steps(71, 72, loss=8.0), lambda b: b.exits(signal=9)):
        bench = Bench(build_policy(rules=rules, playbooks={"restart": [page]})).launched().steps(1, 70)
        ends(bench)
        texts.append(bench.decided(a.SendPage)[-1].text)
    assert "8 at 71, was 2.004, unknown\nrunbook: RUNBOOK.md#x" in texts[0]
    assert "unknown at 70, was unknown, unknown" in texts[1]


def test_checkpoints_that_may_carry_the_damage_are_condemned() -> None:
    bench = given_up("stop_now")
    assert {c.step: bool(c.condemned) for c in bench.state.checkpoints} == {50: False, 60: True}
    bench.done("kill/1").done("page").exits(signal=9).die()
    assert bench.resumed_from == 50


def test_a_checkpoint_that_lands_while_the_kill_is_under_way_is_condemned_too() -> None:
    bench = given_up("stop_now")
    bench.checkpoint(62)
    assert next(c for c in bench.state.checkpoints if c.step == 62).condemned


def test_of_what_turned_to_nan_the_checkpoint_just_before_its_onset_is_condemned_however_late_it_lands() -> None:
    call: list[dict[str, Any]] = [{"page": {"severity": "critical"}, "then": "stop_now"}]
    bench = Bench(build_policy(playbooks={"non_finite": call})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).step(61, nan)
    assert bench.incident.onset_step == 61
    bench.checkpoint(59).checkpoint(60)
    condemned = {c.step: bool(c.condemned) for c in bench.state.checkpoints}
    assert condemned == {50: False, 59: False, 60: True}


def test_what_a_playbook_let_go_on_condemns_nothing_when_the_run_is_ended_for_another_incident() -> None:
    tell: list[dict[str, Any]] = [{"page": {"severity": "warning"}, "then": "keep_training"}]
    call: list[dict[str, Any]] = [{"page": {"severity": "critical"}, "then": "stop_now"}]
    bench = Bench(build_policy(playbooks={"numeric": tell, "restart": call})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 72, loss=8.0).steps(73, 140)
    assert bench.incident.state is IncidentState.EXHAUSTED
    bench.beat("forward", 140).tick(1)
    bench.tick(400)
    assert (bench.incident.kind, bench.state.giving_up) == (Kind.HANG, "stop_now")
    bench.checkpoint(140)
    assert not next(c for c in bench.state.checkpoints if c.step == 140).condemned
    bench.done("page/1").done("kill/1").done("page/2").exits(signal=9).die()
    assert bench.resumed_from == 140


def test_a_stop_wanted_meanwhile_asks_for_no_checkpoint() -> None:
    bench = given_up("stop_now")
    bench.wants_stop()
    assert not bench.decided(a.RequestStop)
    bench.done("kill/1").exits(signal=9)
    assert bench.state.ended == "failed"


def test_what_is_found_while_giving_up_starts_no_recovery() -> None:
    bench = given_up("stop_now")
    bench.step(62, nan, param_norm=nan)
    bench.exits(signal=9)
    assert len(bench.state.incidents) == 1
    assert bench.state.plan is None
    assert bench.state.ended == "failed"


def test_another_incident_in_its_probation_starts_nothing_in_the_same_step() -> None:
    """Both are judged in one step: the first gives up, and the second must not relaunch what is being killed."""
    rungs = [{"rollback": {"before_onset": "20 steps"}}, {"page": {"severity": "critical"}, "then": "stop_now"}]
    more = [rungs[0], *rungs]
    bench = Bench(build_policy(playbooks={"numeric": rungs, "non_finite": more})).launched()
    bench.steps(1, 70)
    band = Band("loss", 1.0, 0.001, 40)
    for number, kind, playbook in ((1, Kind.SPIKE, "numeric"), (2, Kind.NON_FINITE, "non_finite")):
        known = Incident(number, kind, "critical", "A", playbook, 1, 60, 70, 70, 0.0, 0.0, "x", rung=0, band=band)
        bench.recall(f.IncidentOpened(known), f.IncidentMoved(number, IncidentState.PROBATION, "watching"))
    bench.steps(71, 130)
    assert [i.state for i in bench.state.incidents] == [IncidentState.EXHAUSTED, IncidentState.PROBATION]
    assert bench.state.giving_up == "stop_now"
    assert bench.state.plan is None


def test_the_last_resort_is_the_page_that_ends_the_playbook_not_one_on_the_way() -> None:
    last = {"page": {"severity": "critical"}, "then": "hold"}
    rungs = [{"page": {"severity": "warning"}}, {"resume": {"from": "newest"}}, last]
    bench = Bench(build_policy(playbooks={"restart": rungs}, budget={"interventions": "1 per 24h"})).launched()
    bench.steps(1, 10).exits(signal=9)
    assert [page.severity for page in bench.decided(a.SendPage)] == ["warning"]
    bench.launched().steps(1, 20).exits(signal=9)
    assert [page.severity for page in bench.decided(a.SendPage)] == ["warning", "warning", "critical"]
    assert bench.state.held


@pytest.mark.parametrize("code", [3, 4])
def test_a_configuration_or_data_error_is_never_relaunched(code: int) -> None:
    bench = Bench().launched()
    bench.steps(1, 20).exits(code=code)
    assert bench.state.ended == "failed"
    assert bench.incident.kind == "broken_job"
    assert len(bench.state.attempts) == 1
    assert bench.decided(a.SendPage)


def test_an_import_error_after_thousands_of_steps_is_a_crash_like_others_with_its_class_named() -> None:
    """The library was there when training began: a stale file handle passes."""
    lost = "ImportError: libfoo.so: cannot open shared object file: Stale file handle"
    bench = Bench().launched()
    bench.steps(1, 20).checkpoint(20)
    for _ in range(2):  # while it trains, and while the next attempt comes up
        bench.seen(Exited(bench.number, ExitReport(1, (RankExit(0, 1, None, "record", lost),), 0)))
        assert bench.incident.kind == "crash"
        assert "import or configuration error" in bench.incident.reason
        bench.launched(receipt=False)
    assert bench.resumed_from == 20


def test_without_a_rule_for_it_a_broken_job_ends_the_run_with_its_reason() -> None:
    bench = Bench(build_policy(rules=[{"alert": "Crash", "on": "crash", "playbook": "restart"}])).launched()
    bench.exits(code=3)
    assert bench.state.ended == "failed"
    assert "configuration error" in bench.state.end_reason


@pytest.mark.parametrize("action", ["kill/1", "quarantine/2"])
def test_sentinel_unable_to_act_is_a_page_whatever_the_playbook_would_still_try(action: str) -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).step(61, nan)
    while action not in bench.state.pending:
        bench.done(next(iter(bench.state.pending)))
        if "verify/2/50" in bench.state.pending and not bench.state.attempts[0].is_over:
            bench.exits(signal=9)
    bench.fails(action, "permission denied")
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert "unable to act: permission denied" in bench.decided(a.SendPage)[-1].text
    assert bench.state.plan is None


def test_an_attempt_that_cannot_be_started_is_over_and_the_run_fails_with_the_reason() -> None:
    bench = Bench()
    bench.fails("start/1", "no such file: train")
    assert bench.state.ended == "failed"
    assert bench.state.attempts[0].outcome == "lost"
    assert "no such file: train" in bench.state.end_reason


def test_an_attempt_that_never_started_reached_no_step() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).exits(signal=9)
    while "start/2" not in bench.state.pending:
        bench.done(next(iter(bench.state.pending)))
    bench.fails("start/2", "no processes left")
    assert bench.of(f.AttemptEnded)[-1].last_step == 50


def test_the_same_step_after_going_back_skipping_and_a_lower_rate_calls_a_person_early() -> None:
    rung = {"rollback": {"before_onset": "10 steps"}, "skip": {"from": "onset", "to": "detected"}}
    numeric = [rung, {**rung, "lr": "0.5x"}, {"rollback": {"further": "2x"}, "lr": "0.1x"}, {"page": {}, "then": "stop_now"}]
    bench = Bench(build_policy({"numeric": numeric})).launched()
    for step in range(1, 71):
        bench.step(step)
        if step % 10 == 0:
            bench.checkpoint(step)
    bench.steps(71, 78, loss=8.0)
    for _ in range(2):
        bench.launched()
        assert bench.resumed_from is not None
        bench.steps(bench.resumed_from + 1, 70).steps(71, 74, loss=8.0)
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert [t.remedy.rung for t in bench.incident.tries] == [0, 1, 3], "the third rung would have been more of the same"
    assert bench.incident.tries[-1].reason.startswith("structural: spike at step 7")
    decided = [e.fact.action for e in bench.entries if isinstance(e.fact, f.ActionDecided)]
    assert "now: structural: " in next(action.text for action in decided if isinstance(action, a.SendPage))
