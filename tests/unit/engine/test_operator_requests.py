"""What people ask of a live run: each wish is answered once, on record, and does what its sentence says."""

from __future__ import annotations

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.attempts import PERSON, SampleRange, SettingsInForce
from sentinel.model.incidents import IncidentState, Outcome
from tests.builders import BATCH, Bench, build_policy, healthy_loss

NEEDS_A_PERSON = [
    {"resume": {"from": "newest"}, "approval": {"within": "10m", "otherwise": "deny"}},
    {"rollback": {"before_onset": "20 steps"}},
    {"page": {"severity": "critical"}, "then": "stop_now"},
]
SLOWER = w.ChangeSettings(SettingsInForce(lr_scale=0.5), ("lr_scale",))


def training(steps: int = 60, policy: object = None) -> Bench:
    bench = Bench(policy).launched()  # type: ignore[arg-type]
    bench.steps(1, steps)
    for step in range(20, steps + 1, 20):
        bench.checkpoint(step)
    return bench


def started_from(bench: Bench) -> a.StartAttempt:
    assert bench.state.plan is not None
    return next(x for x in bench.state.plan.actions if isinstance(x, a.StartAttempt))


def test_a_wish_is_answered_once_even_when_its_file_is_read_again() -> None:
    bench = training()
    assert bench.asks(w.PauseRun(), "one").granted
    bench.die()
    bench.asks(w.PauseRun(), "one")
    assert len(bench.of(f.RequestAnswered)) == 1
    assert bench.state.paused == "ada@desk"
    assert not bench.asks(w.PauseRun(), "two").granted


def test_during_a_pause_nothing_is_done_and_the_remedy_is_taken_up_afterwards() -> None:
    bench = training()
    bench.asks(w.PauseRun())
    for step in range(61, 70):
        bench.step(step, float("nan"))
    assert bench.incident.last_try is not None
    assert bench.incident.last_try.outcome is Outcome.OBSERVED
    assert "paused by ada@desk" in bench.incident.last_try.reason
    assert bench.state.plan is None
    assert bench.state.label == "paused"
    assert bench.asks(w.ResumeRun()).granted
    assert bench.state.paused == ""
    assert started_from(bench).resume is not None
    assert bench.resumed_from < 61


def test_an_attempt_that_dies_during_a_pause_is_held_and_launched_when_the_pause_ends() -> None:
    bench = training()
    bench.asks(w.PauseRun())
    bench.exits(signal=9)
    assert bench.state.label == "held"
    assert not bench.state.ended
    assert bench.state.plan is None
    bench.die()
    assert bench.state.plan is None, "a supervisor that is restarted does not end a person's pause"
    bench.asks(w.ResumeRun())
    assert started_from(bench).resume is not None
    bench.launched().steps(61, 130)
    assert bench.incident.state is IncidentState.RECOVERED


def test_hold_stops_after_a_checkpoint_and_resume_launches_again() -> None:
    bench = training()
    assert bench.asks(w.HoldRun()).granted
    (stop,) = bench.decided(a.RequestStop)
    assert stop.request == "stop_after_checkpoint"
    assert not bench.asks(w.ResumeRun()).granted, "it is still being carried out"
    bench.checkpoint(60)
    bench.ends(60, "stopped_on_request", 6)
    assert bench.state.label == "held"
    assert not bench.state.ended
    bench.die()
    assert bench.state.label == "held"
    assert not bench.asks(w.HoldRun()).granted
    assert bench.asks(w.PauseRun()).granted
    assert (
        bench.asks(w.ResumeRun()).answer == "the pause is over: remedies are carried out again; the hold is over: the run goes on"
    )
    assert bench.resumed_from == 60


def test_a_held_attempt_that_does_not_answer_is_killed_in_the_end() -> None:
    bench = training()
    bench.asks(w.HoldRun())
    bench.done("stop/")
    for _ in range(60):
        bench.tick()
    assert bench.decided(a.SignalRanks)
    assert bench.decided(a.KillAttempt)
    bench.exits(signal=9)
    assert bench.state.label == "held"


def test_rollback_goes_to_the_newest_good_checkpoint_at_or_below_the_step() -> None:
    bench = training()
    answer = bench.asks(w.RollBack(45, SettingsInForce(lr_scale=0.5, skip=(SampleRange(700, 720),)), ("lr_scale",)))
    assert answer.granted, answer.answer
    start = started_from(bench)
    assert bench.resumed_from == 40
    assert (start.overrides.lr_scale, start.overrides.skip) == (0.5, (SampleRange(700, 720),))
    bench.launched().steps(41, 80)
    assert not bench.state.incidents


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (w.RollBack(500), "lies ahead"),
        (w.RollBack(5), "no good checkpoint at or below step 5"),
        (w.ResumeRun(), "nothing to resume"),
        (w.Approve(1), "waits for no approval"),
        (w.Deny(7), "waits for no approval"),
        (w.Acknowledge(3), "no incident 3"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(wish: w.OperatorRequest, why: str) -> None:
    bench = training()
    answer = bench.asks(wish)
    assert not answer.granted
    assert why in answer.answer
    assert bench.state.plan is None


def test_a_run_that_is_only_observed_is_changed_by_nobody() -> None:
    bench = Bench(observe_only=True).launched()
    bench.steps(1, 30)
    for wish in (w.HoldRun(), w.RollBack(0), SLOWER, w.PauseRun(), w.LeaveOut(SampleRange(9000, 9100))):
        assert not bench.asks(wish).granted
    assert bench.decided(a.StartAttempt) == bench.decided(a.StartAttempt)[:1]


def test_nothing_is_resumed_at_or_after_an_open_onset_whoever_asks() -> None:
    bench = training()
    for step in range(61, 66):
        bench.step(step, 9.0)
    assert bench.incident.onset_step == 61
    bench.launched()
    bench.steps(bench.resumed_from + 1, 75).checkpoint(70)
    assert bench.incident.state is IncidentState.PROBATION
    assert bench.asks(w.RollBack(75)).granted
    assert bench.resumed_from < 61, "step 70 lies after an onset that is not closed yet"


def test_samples_ahead_are_left_out_live_and_samples_trained_on_by_going_back() -> None:
    bench = training()
    bench.asks(w.LeaveOut(SampleRange(60 * BATCH, 60 * BATCH + 32)))
    (write,) = bench.decided(a.WriteOverrides)
    assert write.overrides.skip == (SampleRange(960, 992),)
    bench.done("override/")
    assert bench.asks(w.LeaveOut(SampleRange(400, 440))).granted
    assert bench.resumed_from == 20, "the checkpoint of step 20 stands at sample 320"
    assert started_from(bench).overrides.skip == (SampleRange(400, 440), SampleRange(960, 992))


def test_a_setting_is_asked_of_the_trainer_and_its_answer_is_believed() -> None:
    bench = training()
    assert bench.asks(SLOWER).granted
    (write,) = bench.decided(a.WriteOverrides)
    assert (write.overrides.lr_scale, write.overrides.owners) == (0.5, (("lr_scale", PERSON),))
    bench.done("override/")
    bench.note("override_applied", 61, id=write.overrides.id, effective={"lr_scale": 0.5})
    assert bench.of(f.OverridesAnswered)
    bench.steps(61, 100)
    bench.tick(300.0)
    assert not bench.state.incidents
    bench.asks(w.ChangeSettings(SettingsInForce(), ("lr_scale",)))
    assert bench.decided(a.WriteOverrides)[-1].overrides.lr_scale is None


def test_an_answer_that_differs_from_the_request_is_an_incident() -> None:
    bench = training()
    bench.asks(SLOWER)
    bench.done("override/")
    bench.note("override_applied", 61, id=bench.state.overrides.id, effective={"lr_scale": 1.0})
    assert bench.incident.kind == "override_mismatch"
    assert "lr_scale is 1.0, asked for 0.5" in bench.incident.reason


def test_a_change_trained_past_and_never_answered_is_an_incident() -> None:
    bench = training()
    bench.asks(SLOWER)
    bench.done("override/")
    bench.steps(61, 75)
    bench.tick(100.0)
    assert not bench.state.incidents, "so few steps prove nothing: one may be slow"
    bench.steps(76, 82)
    bench.tick()
    assert bench.incident.kind == "override_mismatch"
    assert "never answered" in bench.incident.reason


def test_a_refusal_of_what_a_person_asked_is_told_and_changes_nothing_else() -> None:
    bench = training()
    bench.asks(SLOWER)
    bench.done("override/")
    bench.note("override_refused", 61, id=bench.state.overrides.id, keys=["lr_scale"], reason="not by me")
    assert not bench.state.incidents
    assert bench.state.overrides.lr_scale is None
    assert any("refused lr_scale: not by me" in note.reason for note in bench.of(f.Noted))
    bench.steps(61, 100)
    bench.tick(300.0)
    assert not bench.state.incidents


def test_what_a_person_set_survives_the_rungs_of_an_incident() -> None:
    rungs = [
        {"rollback": {"before_onset": "4 steps"}, "clip_norm": 0.3},
        {"rollback": {"further": "2x"}},
        {"page": {"severity": "critical"}, "then": "stop_now"},
    ]
    bench = training(policy=build_policy({"non_finite": rungs}))
    bench.asks(SLOWER)
    bench.done("override/")
    bench.note("override_applied", 61, id=bench.state.overrides.id, effective={"lr_scale": 0.5})
    bench.step(61, float("nan"))
    assert (started_from(bench).overrides.lr_scale, started_from(bench).overrides.clip_norm) == (0.5, 0.3)
    bench.launched()
    bench.step(bench.resumed_from + 1, float("nan"))
    assert (started_from(bench).overrides.lr_scale, started_from(bench).overrides.clip_norm) == (0.5, None)


def test_a_rung_that_needs_approval_waits_is_paged_and_is_taken_when_approved() -> None:
    bench = training(policy=build_policy({"restart": NEEDS_A_PERSON}))
    bench.exits(signal=9)
    assert bench.incident.awaits_approval
    assert bench.state.plan is None
    assert not bench.state.ended
    (page,) = bench.decided(a.SendPage)
    assert "sentinel approve 1 RUN_DIR" in page.text
    bench.die()
    assert bench.state.plan is None, "nothing is launched while a person is asked"
    assert bench.asks(w.Approve(1)).granted
    assert bench.resumed_from == 60
    bench.launched().steps(61, 130)
    assert bench.incident.state is IncidentState.RECOVERED


def test_a_denied_rung_is_passed_over() -> None:
    bench = training(policy=build_policy({"restart": NEEDS_A_PERSON}))
    bench.exits(signal=9)
    assert bench.asks(w.Deny(1)).granted
    assert [t.outcome for t in bench.incident.tries] == [Outcome.DENIED, Outcome.PENDING]
    assert "denied by ada@desk" in bench.incident.tries[0].reason
    assert bench.resumed_from == 40
    assert not bench.asks(w.Approve(1)).granted, "answered is answered"


def test_an_answer_about_one_rung_is_none_about_the_next() -> None:
    """A dialog that stood open, or a button in a message, while the deadline of that rung passed."""
    bench = training(policy=build_policy({"restart": [*NEEDS_A_PERSON[:1], *NEEDS_A_PERSON]}))
    bench.exits(signal=9)
    assert bench.asks(w.Deny(1, 0)).granted
    assert bench.incident.awaits_approval
    for late in (w.Approve(1, 0), w.Deny(1, 0)):
        answer = bench.asks(late)
        assert not answer.granted
        assert answer.answer == "rung 1 waits for no approval any more; rung 2 does: look at it, and answer that"
    assert bench.state.plan is None
    assert bench.asks(w.Approve(1, 1)).granted
    assert bench.resumed_from == 60


@pytest.mark.parametrize(("otherwise", "resumed"), [("deny", 40), ("approve", 60)])
def test_without_an_answer_the_policys_default_holds_at_the_deadline(otherwise: str, resumed: int) -> None:
    rungs = [{**NEEDS_A_PERSON[0], "approval": {"within": "10m", "otherwise": otherwise}}, *NEEDS_A_PERSON[1:]]
    bench = training(policy=build_policy({"restart": rungs}))
    bench.exits(signal=9)
    bench.tick(590.0)
    assert bench.incident.awaits_approval
    bench.tick(20.0)
    assert bench.resumed_from == resumed


def test_an_incident_that_heals_while_it_waits_needs_nobody() -> None:
    numeric = [{"rollback": {"before_onset": "20 steps"}, "approval": "required"}, *NEEDS_A_PERSON[2:]]
    bench = training(policy=build_policy({"numeric": numeric}))
    for step in (61, 62, 63):
        bench.step(step, 9.0)
    assert bench.incident.awaits_approval
    for step in range(64, 100):
        bench.step(step, healthy_loss(step))
    assert bench.incident.state is IncidentState.RECOVERED
    assert bench.incident.benign
    assert not bench.asks(w.Approve(1)).granted


def test_an_acknowledged_incident_says_by_whom() -> None:
    bench = training()
    bench.exits(signal=9)
    assert bench.asks(w.Acknowledge(1)).granted
    assert bench.incident.acknowledged_by == "ada@desk"
    assert not bench.asks(w.Acknowledge(1), by="bob@desk").granted


def test_a_reset_optimizer_is_done_again_only_when_the_run_goes_back_to_before_it() -> None:
    rungs = [{"rollback": {"before_onset": "4 steps"}, "reset_optimizer": True}, *NEEDS_A_PERSON[2:]]
    bench = training(policy=build_policy({"non_finite": rungs}))
    bench.step(61, float("nan"))
    assert started_from(bench).overrides.reset_optimizer
    bench.launched()
    bench.steps(bench.resumed_from + 1, bench.resumed_from + 5).exits(signal=9)
    assert started_from(bench).overrides.reset_optimizer, "no checkpoint has it in it yet"
    resumed = bench.launched().resumed_from
    bench.steps(resumed + 1, resumed + 10).checkpoint(resumed + 10).exits(signal=9)
    assert bench.resumed_from == resumed + 10
    assert not started_from(bench).overrides.reset_optimizer


def test_an_answer_read_before_the_write_was_confirmed_counts() -> None:
    bench = training()
    bench.asks(SLOWER)
    (write,) = bench.decided(a.WriteOverrides)
    bench.note("override_refused", 61, id=write.overrides.id, keys=["lr_scale"], reason="no")
    assert bench.state.overrides.lr_scale is None
    assert not bench.state.pending
    assert bench.state.plan is None


def test_a_file_the_trainer_could_not_read_is_an_answer_too() -> None:
    bench = training()
    bench.asks(SLOWER)
    bench.done("override/")
    bench.note("override_refused", 61, id=None, reason="overrides.json: cannot be read")
    assert bench.state.overrides.lr_scale is None
    assert bench.of(f.OverridesAnswered)[0].whole


def test_another_incidents_settings_are_not_taken_back() -> None:
    rungs = [{"rollback": {"before_onset": "4 steps"}, "lr": "0.5x"}, *NEEDS_A_PERSON[2:]]
    other = [
        {"resume": {"from": "newest"}, "clip_norm": 0.3},
        {"resume": {"from": "newest"}},
        {"page": {"severity": "critical"}, "then": "stop_now"},
    ]
    bench = training(policy=build_policy({"non_finite": rungs, "restart": other}))
    bench.step(61, float("nan"))
    bench.launched().steps(bench.resumed_from + 1, bench.resumed_from + 4).exits(signal=9)
    assert (started_from(bench).overrides.lr_scale, started_from(bench).overrides.clip_norm) == (0.5, 0.3)
    bench.launched().exits(signal=9)
    assert (started_from(bench).overrides.lr_scale, started_from(bench).overrides.clip_norm) == (0.5, None)


def test_until_is_said_of_what_lapses_alone() -> None:
    bench = Bench().launched().steps(1, 50)
    wanted = SettingsInForce(lr_scale=0.5, loss_scale=1024.0)
    answer = bench.asks(w.ChangeSettings(wanted, ("lr_scale", "loss_scale", "clip_norm"), 200)).answer
    assert answer == "asked of the trainer: lr_scale 0.5 until step 250, loss_scale 1024.0, clip_norm as configured"
