"""A person wants the run stopped: whatever it is doing, it ends, and with a checkpoint wherever one may be written."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import pytest

from sentinel.engine.stopping import ANSWER_S, TERM_S
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.incidents import IncidentState
from tests.builders import Bench, read_step


def training(stop_answer_s: float | None = None) -> Bench:
    bench = Bench(stop_answer_s=stop_answer_s).launched()
    return bench.steps(1, 50).checkpoint(50).steps(51, 60)


def to_start(bench: Bench) -> Bench:
    """Go on with the plan until only the start is left."""
    while not any(key.startswith("start/") for key in bench.state.pending):
        bench.done(next(iter(bench.state.pending)))
    return bench


def test_the_trainer_is_asked_for_a_checkpoint_first_and_its_exit_ends_the_run() -> None:
    bench = training()
    bench.wants_stop("SIGTERM")
    (asked,) = bench.decided(a.RequestStop)
    assert asked.request == "stop_after_checkpoint"
    bench.checkpoint(61).exits(code=6)
    assert bench.state.ended == "stopped"
    assert bench.state.end_reason.startswith("stopped by SIGTERM:")


def test_no_checkpoint_is_asked_for_after_an_unresolved_onset() -> None:
    bench = training()
    bench.steps(61, 70).steps(71, 72, loss=8.0)
    assert bench.incident.is_waiting
    bench.wants_stop()
    assert bench.decided(a.RequestStop)[0].request == "stop_now"


def test_a_trainer_that_does_not_answer_with_an_onset_unresolved_is_killed_and_not_made_to_save() -> None:
    bench = training()
    bench.steps(61, 70).steps(71, 72, loss=8.0)
    bench.wants_stop()
    assert pressed(bench, ANSWER_S + 1) == ["KillAttempt"]
    assert pressed(bench, TERM_S + 1) == ["KillAttempt"]
    bench.done("kill/1").exits(signal=9)
    assert bench.state.ended == "stopped"


def test_in_probation_a_checkpoint_is_asked_for() -> None:
    bench = training()
    bench.step(61, nan)
    bench.launched().steps(51, 55)
    assert bench.incident.state is IncidentState.PROBATION
    bench.wants_stop()
    assert bench.decided(a.RequestStop)[0].request == "stop_after_checkpoint"


def pressed(bench: Bench, seconds: float) -> list[str]:
    bench.tick(seconds)
    return [type(x).__name__ for x in (*bench.decided(a.SignalRanks), *bench.decided(a.KillAttempt))]


def test_no_answer_is_followed_by_sigterm_and_no_answer_to_that_by_sigkill() -> None:
    bench = training()
    bench.wants_stop()
    assert pressed(bench, ANSWER_S - 1) == []
    assert pressed(bench, 2) == ["SignalRanks"]
    assert pressed(bench, TERM_S - 1) == ["SignalRanks"]
    assert pressed(bench, 2) == ["SignalRanks", "KillAttempt"]
    bench.done("kill/1").exits(signal=9)
    assert bench.state.ended == "stopped"


def test_a_kill_that_is_under_way_is_not_asked_for_again() -> None:
    bench = training()
    bench.wants_stop()
    bench.tick(ANSWER_S + 1)
    for _ in range(5):
        bench.tick(TERM_S + 1)
    assert len(bench.decided(a.KillAttempt)) == 1


def test_a_trainer_that_saves_is_given_its_time_and_then_time_to_leave() -> None:
    bench = training()
    bench.wants_stop()
    bench.beat("checkpoint", 60)
    assert pressed(bench, 110) == []
    bench.beat("idle", 60)
    assert pressed(bench, ANSWER_S - 1) == [], "it has only just ended its save"
    assert pressed(bench, 2) == ["SignalRanks"]
    bench.beat("checkpoint", 60)
    assert pressed(bench, 100) == ["SignalRanks"], "it took the signal for a request, and saves"


def test_a_slow_trainer_is_given_three_steps_to_notice() -> None:
    bench = Bench().launched()
    for step in range(1, 30):
        bench.now_s += 60
        bench.says(replace(read_step(1, step), time_s=60.0 * step))
    bench.wants_stop()
    assert pressed(bench, 170) == []
    assert pressed(bench, 15) == ["SignalRanks"]
    assert pressed(bench, 170) == ["SignalRanks"]


def test_a_second_wish_does_not_wait() -> None:
    bench = training()
    bench.wants_stop()
    bench.wants_stop("SIGINT")
    assert [x.key for x in bench.decided(a.KillAttempt)] == ["kill/1"]


def test_a_hang_while_stopping_is_killed_and_starts_no_recovery() -> None:
    bench = training()
    bench.beat("forward", 60)
    bench.wants_stop()
    bench.tick(400)
    assert not bench.state.incidents
    assert bench.decided(a.KillAttempt)
    bench.done("kill/1").exits(signal=9)
    assert bench.state.ended == "stopped"


def test_a_crash_while_stopping_is_a_stop() -> None:
    bench = training()
    bench.wants_stop()
    bench.exits(code=1)
    assert (bench.state.ended, bench.state.incidents) == ("stopped", ())


def test_a_run_that_finishes_while_it_is_being_stopped_has_finished() -> None:
    bench = training()
    bench.wants_stop()
    bench.ends(60)
    assert bench.state.ended == "finished"


def test_before_anything_answers_the_request_waits_for_the_trainer_to_come_up() -> None:
    bench = Bench()
    bench.wants_stop()
    assert not bench.decided(a.RequestStop)
    bench.done("start/1")
    assert bench.decided(a.RequestStop)


@pytest.mark.parametrize("confirmed", [0, 1, 2, 3])
def test_during_a_recovery_what_changes_anything_is_finished_and_nothing_is_launched(confirmed: int) -> None:
    bench = training()
    bench.exits(signal=9)
    for _ in range(confirmed):
        bench.done(next(iter(bench.state.pending)))
    only_reads = next(iter(bench.state.pending)).startswith("verify/")
    bench.wants_stop()
    if only_reads:
        assert bench.state.ended == "stopped", "nobody waits for a filesystem that may hang"
    else:
        bench.done(next(iter(bench.state.pending)))
    if confirmed < 3:
        assert bench.state.ended == "stopped"
        assert len(bench.state.attempts) == 1
    else:
        assert bench.decided(a.RequestStop)[-1].attempt == 2


def test_during_a_recovery_from_a_living_attempt_it_is_killed_first() -> None:
    bench = training()
    bench.step(61, nan)
    bench.wants_stop()
    bench.done("capture").done("kill/1").exits(signal=9).done("verify")
    assert bench.state.ended == "stopped"
    assert len(bench.state.attempts) == 1


def test_while_it_waits_to_relaunch_it_stops_at_once() -> None:
    bench = Bench().launched(receipt=False).beat("init")
    bench.exits(code=1)
    to_start(bench)
    bench.wants_stop()
    assert bench.state.ended == "stopped"
    assert bench.state.attempts[-1].end_reason == "never started"
    assert not any(key.startswith("start/") for key in bench.state.pending)


def test_a_recovery_broken_off_by_a_stop_is_taken_up_by_the_next_session() -> None:
    bench = training()
    bench.steps(61, 70).steps(71, 78, loss=8.0)
    skip = bench.incident.tries[-1].remedy.skip
    bench.wants_stop()
    bench.done("capture").done("kill/1").exits(signal=9).done("verify")
    assert bench.state.ended == "stopped"
    bench.die()
    bench.launched()
    assert bench.resumed_from == 50
    assert bench.state.overrides.skip == skip != ()
    assert bench.incident.state is IncidentState.PROBATION
    assert bench.incident.tries[-1].attempt == 2
    bench.steps(51, 140)
    assert bench.incident.state is IncidentState.RECOVERED


def test_what_recurs_after_a_remedy_was_never_launched_takes_the_next_rung() -> None:
    bench = training()
    bench.exits(signal=9)
    bench.wants_stop()
    bench.done("capture")
    bench.die()
    bench.launched().steps(51, 55).exits(signal=9)
    assert len(bench.state.incidents) == 1
    assert bench.state.plan is not None


def test_a_stop_is_forgotten_with_the_session_that_was_told() -> None:
    bench = training()
    bench.wants_stop()
    bench.die()
    assert bench.state.stop_by == ""
    bench.exits(code=6)
    assert bench.state.ended == "stopped"
    assert bench.state.end_reason.startswith("stopped by SIGTERM:")


def test_stopping_a_run_that_is_over_changes_nothing() -> None:
    bench = training()
    bench.ends(60)
    bench.wants_stop()
    assert bench.state.ended == "finished"
    assert len(bench.of(f.RunEnded)) == 1


def test_a_trainer_that_saves_on_a_signal_has_the_time_its_profile_gives_it() -> None:
    bench = training(stop_answer_s=600.0)
    bench.wants_stop()
    assert pressed(bench, 599) == []
    assert pressed(bench, 2) == ["SignalRanks"]
    assert pressed(bench, TERM_S + 1) == ["SignalRanks", "KillAttempt"]


def test_one_that_cannot_be_asked_is_not_waited_for() -> None:
    bench = training(stop_answer_s=0.0)
    bench.wants_stop()
    assert pressed(bench, 0.2) == ["SignalRanks"]
    assert pressed(bench, TERM_S + 1) == ["SignalRanks", "KillAttempt"]


@pytest.mark.parametrize("stop_answer_s", [0.0, 600.0])
def test_with_an_onset_unresolved_no_signal_that_could_save_is_sent(stop_answer_s: float) -> None:
    bench = training(stop_answer_s)
    bench.steps(61, 70).steps(71, 72, loss=8.0)
    bench.wants_stop()
    assert pressed(bench, 0.2) == ["KillAttempt"]


def test_the_time_it_has_outlives_its_supervisor() -> None:
    bench = training(stop_answer_s=600.0)
    bench.wants_stop()
    bench.die()
    assert bench.state.stop_answer_s == 600.0
