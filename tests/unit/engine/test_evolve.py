"""The fold of facts: total, bounded, and never past the incident's table."""

from __future__ import annotations

from typing import get_args

import pytest

from sentinel.engine import evolve
from sentinel.engine.evolve import _RULES
from sentinel.engine.evolve.incidents import FINDING_KEYS_KEPT
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import NEXT, Incident, IncidentState, Remedy
from sentinel.model.state import ATTEMPTS_KEPT, INCIDENTS_KEPT, MARKS_KEPT, STAMPS_KEPT, RunState


def fold(*facts: f.Fact, state: RunState | None = None) -> RunState:
    state = state or RunState()
    for at_s, fact in enumerate(facts):
        state = evolve(state, float(at_s), fact)
    return state


def launched(number: int, step: int = 0) -> f.AttemptLaunched:
    return f.AttemptLaunched(number, ResumePoint(step, f"checkpoints/step-{step}") if step else None, SettingsInForce(), "test")


def ended(number: int, step: int = 10, outcome: str = "crashed") -> f.AttemptEnded:
    return f.AttemptEnded(number, outcome, "test", step, 0.0)


def incident(
    number: int = 1, state: IncidentState = IncidentState.OPEN, kind: Kind = Kind.SPIKE, onset: int | None = 60
) -> Incident:
    return Incident(number, kind, "critical", "Alert", "numeric", 1, onset, 62, 62, 0.0, 0.0, "test", state)


def finding(step: int, kind: Kind = Kind.SPIKE) -> Finding:
    return Finding(kind, "critical", 1, step, step + 1, 0.0, "test", "loss")


def test_every_fact_has_a_rule_and_every_rule_a_fact() -> None:
    assert set(_RULES) == set(get_args(f.Fact))


@pytest.mark.parametrize("to", list(IncidentState))
@pytest.mark.parametrize("start", list(IncidentState))
def test_an_incident_moves_only_along_its_table(start: IncidentState, to: IncidentState) -> None:
    state = fold(f.IncidentOpened(incident(state=start)))
    move = f.IncidentMoved(1, to, "test")
    if to in NEXT[start]:
        assert fold(move, state=state).incident(1).state is to
    else:
        with pytest.raises(AssertionError, match="may not move"):
            fold(move, state=state)


def test_nothing_leaves_a_closed_state() -> None:
    assert [NEXT[state] for state in (IncidentState.RECOVERED, IncidentState.EXHAUSTED)] == [(), ()]


def test_state_stays_bounded_however_long_the_run() -> None:
    state = RunState()
    for number in range(1, ATTEMPTS_KEPT + 40):
        state = fold(launched(number), f.ReceiptSeen(number, 0, 2), ended(number), state=state)
    for number in range(1, INCIDENTS_KEPT + 40):
        state = fold(f.IncidentOpened(incident(number)), f.IncidentMoved(number, IncidentState.RECOVERED, "ok"), state=state)
    for number in range(STAMPS_KEPT + 40):
        state = fold(f.RungTaken(INCIDENTS_KEPT, Remedy(0, ("resume",), "test"), True, number), state=state)
    for step in range(FINDING_KEYS_KEPT + 40):
        state = fold(f.FindingRecorded(finding(step), None, "test"), state=state)
    assert len(state.attempts) == ATTEMPTS_KEPT
    assert state.archive.attempts == 39
    assert len(state.incidents) == INCIDENTS_KEPT
    assert len(state.interventions_s) == STAMPS_KEPT
    assert len(state.findings) == FINDING_KEYS_KEPT


def test_an_open_incident_outlives_closed_ones_when_room_is_needed() -> None:
    state = fold(f.IncidentOpened(incident(1)))
    for number in range(2, INCIDENTS_KEPT + 10):
        state = fold(f.IncidentOpened(incident(number)), f.IncidentMoved(number, IncidentState.RECOVERED, "ok"), state=state)
    assert state.incident(1).state is IncidentState.OPEN


def test_old_checkpoint_marks_are_folded_and_their_cost_is_kept() -> None:
    saves = [f.CheckpointCommitted(1, step, "p", 0, f"d{step}", 2.0) for step in range(10, 10 * (MARKS_KEPT + 20), 10)]
    attempt = fold(launched(1), *saves).attempt
    assert attempt is not None
    assert len(attempt.marks) == MARKS_KEPT
    assert sum(mark.save_s for mark in attempt.marks) == 2.0 * len(saves)
    assert [m.step for m in attempt.marks] == sorted(m.step for m in attempt.marks)


def test_what_a_save_cost_may_be_told_later_and_changes_neither_its_time_nor_its_verdict() -> None:
    state = fold(
        launched(1),
        f.CheckpointCommitted(1, 50, "p", 800, "aa"),
        f.CheckpointCondemned(50, "damaged"),
        f.CheckpointCommitted(1, 50, "p", 800, "aa", 3.0),
    )
    (checkpoint,), attempt = state.checkpoints, state.attempt
    assert checkpoint.condemned == "damaged"
    assert attempt is not None
    assert [(m.step, m.at_s, m.save_s) for m in attempt.marks] == [(50, 1.0, 3.0)]


def test_a_checkpoint_made_again_by_another_attempt_is_not_condemned_for_the_old_one() -> None:
    state = fold(
        launched(1),
        f.CheckpointCommitted(1, 50, "p", 800, "aa"),
        f.CheckpointCondemned(50, "damaged"),
        f.CheckpointsQuarantined(0, "scratch"),
        launched(2),
        f.CheckpointCommitted(2, 50, "p", 800, "bb"),
    )
    assert [(c.attempt, c.condemned) for c in state.checkpoints] == [(2, "")]


def test_a_launch_forgets_checkpoints_above_its_resume_step_and_the_findings_of_the_attempt_before() -> None:
    made = [f.CheckpointCommitted(1, step, "p", 0, str(step)) for step in (50, 100, 150)]
    state = fold(launched(1), *made, f.FindingRecorded(finding(120), None, "info"), ended(1, 160), launched(2, 100))
    assert [c.step for c in state.checkpoints] == [50, 100]
    assert state.findings == ()


@pytest.mark.parametrize(
    ("before", "end", "stuck"),
    [
        ((), ended(2, 20), 0),  # new ground
        ((), ended(2, 10), 2),  # died where the last one did
        ((f.FirstStep(2, 5), f.AttemptStopping(2, "a plan")), ended(2, 9, "stopped"), 1),  # a remedy's
        ((f.AttemptStopping(2, "a plan"),), ended(2, 0, "stopped"), 2),  # killed before its first step
        ((), ended(2, 10, "finished"), 2),
    ],
)
def test_launches_that_gain_no_step_are_counted_in_a_row(before: tuple[f.Fact, ...], end: f.AttemptEnded, stuck: int) -> None:
    state = fold(launched(1), f.FirstStep(1, 1), ended(1, 10), launched(2), ended(2, 10), launched(2))
    assert state.without_progress == 1
    state = fold(*before, end, state=state)
    assert state.without_progress == stuck


def test_a_second_session_lifts_an_end_and_a_hold_but_not_a_giving_up_that_was_still_being_carried_out() -> None:
    took = f.SupervisorTookOver(2, "here", 1, "p", "0", False)
    gave_up = f.GaveUp(1, "stop_now", "nothing left")
    under_way = fold(launched(1), gave_up, took)
    assert under_way.giving_up == "stop_now"
    over = fold(launched(1), gave_up, ended(1), f.RunEnded("failed", "nothing left"), took)
    assert (over.giving_up, over.ended, over.without_progress) == ("", "", 0)
    held = (launched(1), f.GaveUp(1, "hold", "x"), ended(1), f.Held("x"))
    assert fold(*held, took).held == "x", "a supervisor that died is no answer"
    answered = fold(*held, f.RunEnded("stopped", "by a person"), took)
    assert (answered.giving_up, answered.held, answered.ended) == ("", "", "")
    unsaid = f.SupervisorTookOver(2, "here", 1, "p", "0", False, answers=False)
    assert fold(launched(1), ended(1), f.RunEnded("failed", "x"), unsaid).ended == "failed"


def test_a_page_decided_twice_under_its_key_is_listed_once() -> None:
    page = f.ActionDecided(a.SendPage("page/1/1", 1, "critical", "t", "x"))
    state = fold(f.IncidentOpened(incident()), page, f.ActionAbandoned("page/1/1", "no"), page)
    assert state.incident(1).pages == ("page/1/1",)


def test_a_later_finding_before_the_onset_narrows_what_may_be_resumed_from_and_leaves_the_onset() -> None:
    state = fold(f.IncidentOpened(incident(onset=60)), f.FindingRecorded(finding(50), 1, "the same"))
    assert (state.incident(1).onset_step, state.incident(1).limit_step) == (60, 50)
    state = fold(f.FindingRecorded(finding(55), 1, "the same"), state=state)
    assert state.incident(1).limit_step == 50


@pytest.mark.parametrize(
    ("kind", "onset", "limit"),
    [(Kind.SPIKE, 60, 60), (Kind.NON_FINITE, 60, 59), (Kind.NON_FINITE, 1, 1), (Kind.CRASH, None, None), (Kind.HANG, 60, None)],
)
def test_the_first_step_not_to_be_resumed_from(kind: Kind, onset: int | None, limit: int | None) -> None:
    """A loss that is no number may come from weights the update before it broke."""
    assert incident(kind=kind, onset=onset).limit_step == limit


def test_a_plan_says_where_its_try_really_goes() -> None:
    remedy = Remedy(1, ("rollback",), "to 40", rollback_to_step=40)
    start = a.StartAttempt("start/2", 2, ResumePoint(20, "p"), SettingsInForce())
    state = fold(f.IncidentOpened(incident()), f.RungTaken(1, remedy, True, 62), f.PlanAdopted(1, (start,)))
    tried = state.incident(1).tries[-1]
    assert (tried.attempt, tried.remedy.rollback_to_step) == (2, 20)


def test_dropping_a_plan_forgets_its_actions_and_no_others() -> None:
    kill, page = a.KillAttempt("kill/1", 1), a.SendPage("page/1/1", 1, "critical", "t", "x")
    start = a.StartAttempt("start/2", 2, None, SettingsInForce())
    state = fold(
        f.IncidentOpened(incident()),
        f.ActionDecided(page),
        f.PlanAdopted(1, (kill, start)),
        f.ActionDecided(kill),
        f.PlanDropped("test"),
    )
    assert list(state.pending) == ["page/1/1"]
    assert state.plan is None
