"""The machine is about to be taken away: a checkpoint in time, and the next start goes on as if nothing had been."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.events import Deadline, SignalSeen
from sentinel.model.incidents import IncidentState
from sentinel.model.operator_requests import HoldRun
from sentinel.plan.trust import judge_trust
from sentinel.policy.schema import Policy
from tests.builders import Bench, build_policy


def training() -> Bench:
    bench = Bench().launched()
    return bench.steps(1, 50).checkpoint(50).steps(51, 60)


def until(seconds: float, policy: Policy | None = None, *, counts: bool = False, observe_only: bool = False) -> Bench:
    """A supervisor that is told at its start that the machine is its own for so long."""
    deadline = Deadline(1000.0 + seconds, "a scheduler", counts_from_start=counts)
    return Bench(policy or build_policy(run={"deadline_margin": "30s"}), observe_only, deadline=deadline)


def train_until_asked(bench: Bench, step: int, skips_s: float = 0.0) -> None:
    """A step and a look at the clock each second, until the trainer is asked to stop."""
    bench.now_s += skips_s
    for number in range(step, step + 1000):
        bench.step(number)
        bench.tick(0.1)
        if bench.decided(a.RequestStop):
            return
    raise AssertionError("nobody asked the trainer to stop")


def recorded(bench: Bench, kind: type[Any]) -> list[Any]:
    return [fact for fact in bench.facts if isinstance(fact, kind)]


def test_sigusr1_asks_for_a_checkpoint_and_suspends_the_run() -> None:
    bench = training()
    bench.must_leave()
    (asked,) = bench.decided(a.RequestStop)
    assert asked.request == "stop_after_checkpoint"
    bench.checkpoint(61).exits(code=6)
    assert (bench.state.ended, bench.state.label) == ("suspended", "suspended")
    assert bench.state.end_reason.startswith("stopped by SIGUSR1:")


def test_the_next_start_goes_on_with_the_incident_the_budget_and_the_page_and_answers_nobody() -> None:
    bench = training()
    for _ in range(2):
        bench.exits(signal=9).launched(receipt=False)
    before = bench.state
    assert before.without_progress == 1
    bench.must_leave()
    bench.exits(signal=9)
    bench.die()
    assert bench.state.ended == ""
    assert bench.state.without_progress >= before.without_progress, "nobody has decided that it may try again"
    assert bench.state.interventions_s == before.interventions_s
    assert [i.id for i in bench.state.open_incidents] == [i.id for i in before.open_incidents]
    bench.launched().steps(51, 125)
    assert bench.incident.state is IncidentState.RECOVERED


def test_an_open_page_stays_open_over_it() -> None:
    bench = Bench(build_policy(playbooks={"restart": [{"page": {"severity": "critical"}}, {"resume": {"from": "newest"}}, PAGE]}))
    bench.launched().steps(1, 30).checkpoint(30)
    bench.exits(signal=9).launched().steps(31, 40)
    page = bench.incident.page
    assert page is not None
    assert page.is_open
    bench.must_leave()
    bench.exits(code=6)
    bench.die()
    assert not recorded(bench, f.PageResolved)


PAGE = {"page": {"severity": "critical"}, "then": "stop_now"}


def test_a_hold_that_is_under_way_is_kept_for_who_goes_on() -> None:
    bench = training()
    bench.asks(HoldRun())
    bench.must_leave()
    bench.exits(code=6)
    assert bench.state.ended == "suspended"
    bench.die()
    assert bench.state.held
    assert bench.state.plan is None


def test_a_supervisor_that_dies_meanwhile_takes_nothing_of_it_along() -> None:
    bench = training()
    bench.must_leave()
    bench.die()
    bench.exits(code=6)
    assert bench.state.ended == "suspended"


def test_no_checkpoint_is_asked_for_after_an_unresolved_onset() -> None:
    bench = training()
    bench.steps(61, 70).steps(71, 72, loss=8.0)
    bench.must_leave()
    assert bench.decided(a.RequestStop)[0].request == "stop_now"


def test_a_person_who_stops_it_meanwhile_decides_its_end_and_the_trainer_keeps_its_time() -> None:
    bench = training()
    bench.must_leave()
    bench.wants_stop("SIGINT")
    assert not bench.decided(a.KillAttempt)
    bench.must_leave()
    bench.exits(code=6)
    assert bench.state.ended == "stopped"


def test_a_deadline_stops_the_run_so_long_before_it() -> None:
    bench = until(200.0).launched()
    bench.steps(1, 50).checkpoint(50)
    train_until_asked(bench, 51)
    assert 25.0 <= bench.state.deadline_s - bench.now_s <= 30.0
    bench.exits(code=6)
    assert bench.state.ended == "suspended"
    assert "a scheduler" in bench.state.end_reason


def test_where_nothing_was_saved_yet_ten_minutes_are_left_and_what_a_save_took_counts_from_then_on() -> None:
    bench = until(3000.0, build_policy()).launched()
    bench.steps(1, 50)
    bench.note("checkpoint_committed", 50, seconds=40.0, blocked_s=1.0)
    bench.checkpoint(50)
    train_until_asked(bench, 51, skips_s=2500.0)
    assert 140.0 <= bench.state.deadline_s - bench.now_s <= 145.0, "two saves of 40 s, three steps and a minute"
    assert "a save took up to 40 s" in bench.state.stop_by


def test_nothing_is_launched_in_what_time_is_left() -> None:
    bench = until(20.0)
    assert bench.state.ended == "suspended"
    assert bench.state.attempt is None


def test_observe_only_a_deadline_changes_nothing_and_that_is_on_record() -> None:
    bench = until(60.0, observe_only=True).launched()
    bench.tick(200.0)
    assert not bench.decided(a.RequestStop)
    assert any("nobody is asked to stop for it" in note.reason for note in recorded(bench, f.Noted))


@pytest.mark.parametrize("counts", [True, False])
def test_who_adopts_training_inherits_a_limit_on_the_time_and_not_what_a_scheduler_says(counts: bool) -> None:
    bench = until(200.0, counts=counts).launched()
    at_s = 1200.0
    bench.deadline = Deadline(at_s + 5.0, "a scheduler", counts_from_start=counts)
    bench.die()
    assert bench.state.deadline_s == (at_s if counts else at_s + 5.0)


def repaired(last: int) -> Bench:
    """A spike at step 71, rolled back to step 50, and trained healthily up to `last`: it broke at step 76."""
    bench = training()
    bench.steps(61, 70).steps(71, 76, loss=8.0)
    bench.launched().steps(51, last)
    assert bench.incident.state is IncidentState.PROBATION
    return bench


def starts_from(bench: Bench) -> int:
    bench.die()
    (start,) = [action for action in bench.state.plan.actions if isinstance(action, a.StartAttempt)]
    return start.resume.step if start.resume is not None else 0


@pytest.mark.parametrize("by", ["SIGUSR1", "a person", "somebody else"])
def test_what_is_saved_at_a_stop_in_probation_is_gone_on_from_when_its_numbers_hold(by: str) -> None:
    bench = repaired(100)
    if by == "somebody else":
        bench.checkpoint(100).exits(code=6)
        (start,) = [action for action in bench.state.plan.actions if isinstance(action, a.StartAttempt)]
        assert start.resume is not None
        assert start.resume.step == 100
        return
    bench.must_leave() if by == "SIGUSR1" else bench.wants_stop()
    bench.checkpoint(100).exits(code=6)
    (trust,) = [trust for trust in judge_trust(bench.state, 60) if trust.checkpoint.step == 100]
    assert (trust.word, "in the probation of incident 1" in trust.reason) == ("candidate", True)
    assert starts_from(bench) == 100
    bench.launched().steps(101, 140)
    assert bench.incident.state is IncidentState.RECOVERED


def test_short_of_where_it_broke_nothing_has_held_yet() -> None:
    bench = repaired(80)
    bench.must_leave()
    bench.checkpoint(80).exits(code=6)
    assert not recorded(bench, f.ProbationKept)
    assert starts_from(bench) == 50


def test_a_last_row_above_the_band_is_not_gone_on_from() -> None:
    bench = repaired(99)
    bench.step(100, loss=2.5)
    bench.must_leave()
    bench.checkpoint(100).exits(code=6)
    assert starts_from(bench) == 50


def test_when_the_remedy_fails_after_all_the_next_one_starts_before_the_onset() -> None:
    bench = repaired(100)
    bench.must_leave()
    bench.checkpoint(100).exits(code=6)
    bench.die()
    bench.launched().steps(101, 130, loss=3.0)
    later = [trial.remedy.rollback_to_step for incident in bench.state.incidents for trial in incident.tries]
    assert bench.state.plan is not None
    assert all(step is None or step <= 50 for step in later), later


def test_a_signal_without_a_meaning_is_on_record_and_changes_nothing() -> None:
    bench = training()
    facts = bench.tell(SignalSeen("SIGHUP"))
    assert facts == (f.Noted("signal", "SIGHUP received: it changes nothing"),)
    assert not bench.state.stop_by


def test_a_stop_that_came_before_the_launch_launches_nothing_and_the_next_start_does() -> None:
    bench = training()
    bench.must_leave()
    bench.checkpoint(61).exits(code=6)
    bench.leaves = True
    bench.die()
    assert bench.state.plan is None
    bench.must_leave()
    assert (bench.state.ended, len(bench.state.attempts)) == ("suspended", 1)
    bench.leaves = False
    bench.die()
    assert bench.resumed_from == 61


def test_a_sigterm_once_the_deadline_has_passed_is_the_scheduler_s_and_one_before_it_a_person_s() -> None:
    for late, ended in ((True, "suspended"), (False, "stopped")):
        bench = until(100.0).launched().steps(1, 20)
        train_until_asked(bench, 21)
        if late:
            bench.now_s = 1100.0
        bench.wants_stop("SIGTERM")
        bench.exits(code=6)
        assert bench.state.ended == ended
    bench = until(100.0).launched().steps(1, 20)
    train_until_asked(bench, 21)
    bench.now_s = 1100.0
    bench.wants_stop("SIGINT")
    bench.exits(code=6)
    assert bench.state.ended == "stopped", "Ctrl-C is a person's at any time"
