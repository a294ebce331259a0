"""Where what a person asks meets what is under way: a recovery, a hold, a pause, a diagnosis, an approval, the end of the run."""


from __future__ import annotations

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.events import ActionDone
from sentinel.model.incidents import IncidentState, Outcome, Remedy
from sentinel.model.records import Comparison
from tests.builders import Bench, build_policy
from tests.unit.engine.test_operator_requests import NEEDS_A_PERSON, SLOWER, training

DIAGNOSED = [{"rollback": {"before_onset": "4 steps"}, "diagnose": True}, {"rollback": {"further": "2x"}}, *NEEDS_A_PERSON[2:]]
ASKED_NUMERIC = [{"rollback": {"before_onset": "20 steps"}, "approval": "required"}, *NEEDS_A_PERSON[2:]]


def crashed_while_a_spike_waits() -> Bench:
    bench = training(policy=build_policy({"numeric": ASKED_NUMERIC}))
    for step in (61, 62, 63):
        bench.step(step, 9.0)
    assert bench.incident.awaits_approval
    bench.exits(signal=9)
    assert bench.state.plan is not None
    return bench


ASKED_NON_FINITE = [
    {"rollback": {"before_onset": "4 steps"}, "approval": {"within": "5m", "otherwise": "approve"}},
    {"rollback": {"further": "2x"}, "lr": "0.5x"},
    NEEDS_A_PERSON[-1],
]


def waits_after_a_pause() -> Bench:
    """The rung was observed during a pause; since the pause ended it waits for a person."""
    bench = training(policy=build_policy({"non_finite": ASKED_NON_FINITE}))
    bench.asks(w.PauseRun())
    bench.step(61, float("nan"))
    assert bench.incident.tries[-1].outcome is Outcome.OBSERVED
    assert bench.asks(w.ResumeRun()).granted
    assert bench.incident.awaits_approval
    return bench


def test_a_rung_that_waits_after_a_pause_is_not_passed_by() -> None:
    bench = waits_after_a_pause()
    bench.step(62, float("nan"), val_loss=float("nan"))
    assert bench.state.plan is None, "no other rung is taken before the answer"
    assert bench.incident.awaits_approval
    assert [one.remedy.rung for one in bench.incident.tries] == [0]


def test_the_answer_after_a_pause_takes_the_rung_once_and_no_settings_of_a_later_one() -> None:
    bench = waits_after_a_pause()
    bench.step(62, float("nan"), val_loss=float("nan"))
    assert bench.asks(w.Approve(1)).granted
    bench.launched()
    assert [one.remedy.rung for one in bench.incident.tries] == [0, 0]
    assert bench.incident.state is IncidentState.PROBATION
    assert bench.state.overrides.lr_scale is None
    assert not bench.asks(w.Approve(1)).granted


def test_a_journal_in_which_a_later_rung_was_taken_has_no_rung_that_waits() -> None:
    bench = waits_after_a_pause()
    bench.recall(f.RungTaken(1, Remedy(1, ("rollback", "lr"), "taken past the question"), True, 61))
    assert not bench.incident.awaits_approval
    assert not bench.asks(w.Approve(1)).granted


def test_an_approval_waits_until_the_recovery_under_way_is_done() -> None:
    bench = crashed_while_a_spike_waits()
    plan = bench.state.plan
    bench.tick(4000.0)
    assert bench.state.plan == plan, "the deadline does not overwrite a plan"
    answer = bench.asks(w.Approve(1))
    assert not answer.granted
    assert "a recovery is under way" in answer.answer
    bench.launched()
    bench.tick()
    assert not bench.state.incidents[0].awaits_approval, "now the deadline counts"


def test_a_finding_during_a_hold_ends_in_the_hold_and_is_repaired_after_it() -> None:
    bench = training()
    bench.asks(w.HoldRun())
    bench.done("stop/")
    bench.step(61, float("nan"))
    assert bench.state.plan is not None
    bench.done("capture/")
    bench.done("kill/")
    bench.exits(signal=9)
    while bench.state.plan is not None:
        bench.done(bench.state.plan.actions[bench.state.plan.next].key)
    assert bench.state.label == "held"
    assert bench.asks(w.ResumeRun()).granted
    assert bench.resumed_from < 61


def test_a_hold_that_is_stopped_ends() -> None:
    bench = training()
    bench.asks(w.HoldRun())
    bench.wants_stop()
    bench.ends(60, "stopped_on_request", 6)
    assert bench.state.ended == "stopped"


def test_leaving_samples_out_lifts_a_hold() -> None:
    bench = training(policy=build_policy({"non_finite": [{"hold": True}]}))
    bench.step(61, float("nan"))
    bench.done("kill/")
    bench.exits(signal=9)
    assert bench.state.label == "held"
    assert bench.asks(w.LeaveOut(SampleRange(400, 440))).granted
    bench.launched()
    assert (bench.state.held, bench.state.giving_up) == ("", "")


def test_an_ended_run_started_again_is_not_held_any_more() -> None:
    bench = training(policy=build_policy({"non_finite": NEEDS_A_PERSON[2:]}))
    bench.asks(w.HoldRun())
    bench.step(61, float("nan"))
    bench.done("kill/")
    bench.exits(signal=9)
    assert bench.state.ended == "failed"
    for key in [key for key in bench.state.pending if key.startswith("page/")]:
        bench.done(key)
    bench.die()
    assert bench.state.hold_by == ""


def test_a_run_that_finishes_while_a_rung_waits_is_not_finished_before_the_answer() -> None:
    bench = training(policy=build_policy({"numeric": ASKED_NUMERIC}))
    for step in range(61, 100):
        bench.step(step, 9.0)
    bench.ends(99)
    assert not bench.state.ended
    assert bench.asks(w.Approve(1)).granted
    assert bench.state.plan is not None


def test_what_runs_out_during_a_pause_is_taken_up_when_it_ends() -> None:
    bench = training(policy=build_policy({"non_finite": NEEDS_A_PERSON[2:]}))
    bench.asks(w.PauseRun())
    bench.step(61, float("nan"))
    assert bench.incident.state is IncidentState.OPEN
    assert not bench.decided(a.SendPage)
    bench.asks(w.ResumeRun())
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert bench.decided(a.SendPage)


def test_a_pause_ends_well_under_a_policy_that_has_lost_the_playbook() -> None:
    bench = training()
    bench.asks(w.PauseRun())
    bench.step(61, float("nan"))
    bench.policy = build_policy({"non_finite": NEEDS_A_PERSON[2:]}, without=())
    bench.die()
    assert bench.asks(w.ResumeRun()).granted


def test_a_trainer_that_leaves_during_a_diagnosis_is_launched_again() -> None:
    bench = training(policy=build_policy({"non_finite": DIAGNOSED}))
    bench.step(61, float("nan"))
    bench.launched()
    bench.step(bench.resumed_from + 1, float("nan"))
    bench.exits(code=5)
    assert not bench.state.ended
    bench.done("compare/")
    assert bench.state.plan is not None
    assert bench.state.incidents[0].tries[0].outcome is Outcome.FAILED


def test_a_diagnosis_told_during_another_recovery_overwrites_nothing() -> None:
    bench = training(policy=build_policy({"non_finite": DIAGNOSED}))
    bench.step(61, float("nan"))
    bench.launched()
    bench.step(bench.resumed_from + 1, float("nan"))
    bench.exits(signal=9)
    plan = bench.state.plan
    bench.done("compare/")
    if plan is not None:
        assert bench.state.plan == plan
    assert bench.state.incidents[0].tries[0].outcome is Outcome.FAILED


def test_nothing_is_called_hardware_when_a_person_changed_a_setting_in_the_stretch() -> None:
    bench = training(policy=build_policy({"non_finite": DIAGNOSED}))
    bench.asks(SLOWER)
    bench.done("override/")
    bench.note("override_applied", 61, id=bench.state.overrides.id, effective={"lr_scale": 0.5})
    bench.steps(61, 70)
    bench.step(71, float("nan"))
    bench.launched()
    bench.steps(bench.resumed_from + 1, 85)
    found = Comparison(3, 62, "loss", 2.0, 2.1, (1,))
    bench.tell(ActionDone(bench.key("compare/"), "", found))
    assert bench.incident.diagnosis is not None
    assert bench.incident.diagnosis.cause == "unknown"


def test_an_unreadable_file_leaves_older_settings_of_a_person_in_force() -> None:
    bench = training()
    bench.asks(SLOWER)
    bench.done("override/")
    bench.note("override_applied", 61, id=bench.state.overrides.id, effective={"lr_scale": 0.5})
    bench.asks(w.ChangeSettings(SettingsInForce(clip_norm=0.3), ("clip_norm",)))
    bench.done("override/")
    bench.note("override_refused", 62, id=None, reason="cannot be read")
    assert (bench.state.overrides.lr_scale, bench.state.overrides.clip_norm) == (0.5, None)
