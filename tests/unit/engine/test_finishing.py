"""The trainer has finished: open incidents are closed, or one needs another try before the run may end."""

from __future__ import annotations

from math import nan

import pytest

from sentinel.model import facts as f
from sentinel.model.actions import KillAttempt
from sentinel.model.attempts import Exited, ExitReport, RankExit
from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import EndReading
from tests.builders import Bench, build_policy


def test_a_run_that_ends_healthy_inside_probation_is_recovered() -> None:
    bench = Bench().launched()
    bench.steps(1, 55).exits(signal=9).launched().steps(1, 80).ends(80)
    assert bench.incident.state is IncidentState.RECOVERED
    assert bench.incident.tries[-1].outcome == "worked"
    assert bench.state.ended == "finished"


def test_a_run_that_finishes_above_its_band_is_not_over() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 73, loss=8.0)
    assert bench.incident.is_waiting
    bench.ends(73)
    assert bench.state.ended == ""
    assert bench.resumed_from == 50
    bench.launched().steps(51, 73).ends(73)
    assert (bench.state.ended, bench.incident.state) == ("finished", IncidentState.RECOVERED)


def test_a_wait_after_the_end_is_no_wait() -> None:
    waits = [{"wait": {"for": "40 steps"}}, {"wait": {"for": "80 steps"}}, {"rollback": {"before_onset": "20 steps"}}]
    page = {"page": {"severity": "critical"}, "then": "stop_now"}
    bench = Bench(build_policy(playbooks={"numeric": [*waits, page]})).launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70).steps(71, 73, loss=8.0).ends(73)
    assert bench.resumed_from == 50
    assert bench.state.plan is not None


def test_the_end_of_the_playbook_at_the_end_of_the_run_is_a_failed_run() -> None:
    page = {"page": {"severity": "critical"}, "then": "stop_now"}
    bench = Bench(build_policy(playbooks={"numeric": [{"wait": {"for": "40 steps"}}, page]})).launched()
    bench.steps(1, 70).steps(71, 73, loss=8.0).ends(73)
    assert (bench.state.ended, bench.incident.state) == ("failed", IncidentState.EXHAUSTED)


def test_keep_training_at_the_end_of_the_run_lets_it_finish() -> None:
    page = {"page": {"severity": "critical"}, "then": "keep_training"}
    bench = Bench(build_policy(playbooks={"numeric": [{"wait": {"for": "40 steps"}}, page]})).launched()
    bench.steps(1, 70).steps(71, 73, loss=8.0).ends(73)
    assert (bench.state.ended, bench.incident.state) == ("finished", IncidentState.EXHAUSTED)


def test_a_trainer_that_finishes_before_its_kill_is_still_taken_back() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).step(61, nan)
    bench.ends(61)
    assert bench.state.ended == ""
    bench.launched()
    assert bench.state.attempts[-1].resumed_step == 50


def test_a_trainer_that_had_finished_and_hung_while_it_left_is_not_launched_again() -> None:
    """Its processes stood in a collective that nobody ends (destroy_process_group); the next attempt would stand there, too."""
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50).steps(51, 60).beat("forward", 60)
    bench.says(EndReading(1, 60, "finished"))
    bench.tick(1)
    bench.tick(400)
    assert bench.incident.kind is Kind.HANG
    while not any(isinstance(action, KillAttempt) for action in bench.state.pending.values()):
        assert bench.state.plan is not None
        bench.done(bench.state.plan.actions[bench.state.plan.next].key)
    bench.done("kill/").exits(signal=9)
    assert (bench.state.ended, bench.incident.state) == ("finished", IncidentState.RECOVERED)
    assert len(bench.of(f.AttemptLaunched)) == 1


def test_every_open_incident_is_closed_when_the_run_finishes() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 60).step(61, nan)
    bench.launched().steps(51, 58).exits(signal=9).launched().steps(51, 64).ends(64)
    assert [i.state for i in bench.state.incidents] == [IncidentState.RECOVERED] * 2
    assert all(i.restored_s is not None for i in bench.state.incidents)


@pytest.mark.parametrize("code", [0, 1])
def test_the_end_line_outranks_the_exit_code(code: int) -> None:
    bench = Bench().launched()
    bench.steps(1, 10).ends(10, code=code)
    assert bench.state.ended == "finished"


def test_an_exit_of_zero_without_an_end_line_has_finished_too() -> None:
    bench = Bench().launched()
    bench.steps(1, 10).exits(code=0)
    assert bench.state.ended == "finished"


def test_the_exit_is_taken_once() -> None:
    bench = Bench().launched()
    bench.steps(1, 10).exits(code=0)
    bench.exits(code=0)
    assert len(bench.of(f.AttemptEnded)) == len(bench.of(f.RunEnded)) == 1


def test_a_command_that_left_its_training_running_is_not_said_to_have_finished() -> None:
    bench = Bench().launched()
    bench.steps(1, 70)
    bench.seen(Exited(bench.number, ExitReport(0, (RankExit(0, 0, None, "reaped"),), None, left_behind=1)))
    assert bench.state.ended == "unobserved"
    assert "; the command had left a process running" in bench.state.end_reason
    assert bench.state.end_reason.endswith("whether it trained to its last step is not known")
    assert not bench.of(f.PageRaised)
