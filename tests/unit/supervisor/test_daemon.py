"""The loop: facts are written before anything is done, outcomes come back as events, and nothing is waited for without an end."""

from __future__ import annotations

import math

import pytest

from sentinel.errors import JournalError
from sentinel.model import facts as f
from sentinel.model.attempts import Exited
from sentinel.model.findings import Kind
from sentinel.model.operator_requests import Acknowledge, ApplyPolicy
from sentinel.model.readings import LauncherReading, RequestReading
from sentinel.model.records import LoadedPolicy
from sentinel.supervisor.daemon import EVIDENCE_RETRY_S, FLUSH_S, RETRIES_MAX, STOOD_STILL_S, TICK_S
from tests.builders import read_step, report_of
from tests.unit.supervisor.daemon_kit import INIT, Loop, Story


def test_the_first_launch_is_asked_for_after_it_was_written_down() -> None:
    loop = Loop().start()
    assert loop.runner.keys == ["start/1"]
    assert any(isinstance(e.fact, f.ActionDecided) for e in loop.log.entries)


def test_nothing_is_done_that_could_not_be_written_down() -> None:
    loop = Loop()
    loop.log.failing = JournalError("disk full")
    with pytest.raises(JournalError):
        loop.start()
    assert loop.runner.keys == []


def test_an_attempt_is_looked_at_from_the_moment_its_start_is_confirmed_and_without_delay() -> None:
    loop = Loop().start()
    assert loop.telemetry.followed == []
    loop.runner.done("start/1")
    assert loop.turn() == 0.0
    assert loop.telemetry.followed == [1]
    loop.turn()
    assert loop.telemetry.followed == [1]


def test_readings_are_decided_about_in_their_order_and_the_plan_goes_on_with_each_outcome() -> None:
    loop = Loop().launched().crash()
    keys = []
    for _ in range(4):
        keys.append(loop.runner.keys[-1])
        loop.runner.done(keys[-1])
        loop.turn()
    assert keys == ["capture/1/2", "quarantine/2", "start/2", "start/2"]
    assert loop.telemetry.followed == [1, 2]


def test_an_action_that_may_work_later_is_asked_for_again_after_its_pause_and_the_wait_is_told() -> None:
    loop = Loop().start()
    before = len(loop.log.entries)
    loop.runner.failed("start/1", "no memory", retry_in_s=5.0)
    loop.turn()
    assert loop.runner.keys == ["start/1"]
    loop.clock.advance(5.0)
    loop.turn()
    assert loop.runner.keys == ["start/1", "start/1"]
    loop.runner.failed("start/1", "no memory", retry_in_s=5.0)
    loop.turn()
    (told,) = [entry.fact for entry in loop.log.entries[before:]]
    assert isinstance(told, f.Noted)
    assert "no memory" in told.reason


def test_evidence_that_cannot_be_saved_holds_up_nothing_for_more_than_a_second() -> None:
    """A full disk under incidents/ must not leave every GPU idle before the kill."""
    loop = Loop().start()
    loop.runner.done("start/1")
    loop.turn()
    loop.telemetry.batches = [[INIT, LauncherReading(Exited(1, report_of(signal=9)))]]
    loop.turn()
    began_s = loop.clock.now_s()
    while loop.runner.keys[-1].startswith("capture"):
        loop.runner.failed(loop.runner.keys[-1], "disk full", retry_in_s=5.0)
        loop.turn()
        loop.clock.advance(EVIDENCE_RETRY_S)
        loop.turn()
    assert loop.runner.keys == ["start/1", "capture/1/2", "capture/1/2", "quarantine/2"]
    assert loop.clock.now_s() - began_s <= 1.0


def test_an_action_that_never_works_is_a_failure_in_the_end() -> None:
    loop = Loop().start()
    for _ in range(RETRIES_MAX + 3):
        loop.runner.failed("start/1", "no memory", retry_in_s=1.0)
        loop.turn()
        loop.clock.advance(1.0)
        loop.turn()
    assert loop.runner.keys == ["start/1"] * RETRIES_MAX
    told = [entry.fact for entry in loop.log.entries if isinstance(entry.fact, f.Noted) and entry.fact.about == "start/1"]
    assert sum("could not be done yet" in note.reason for note in told) == 3, "at the 1st, 4th and 16th try"
    assert loop.engine.state.ended == "failed"


def test_an_action_that_goes_on_is_asked_about_for_as_long_as_it_is_wanted() -> None:
    loop = Loop().start()
    before = len(loop.log.entries)
    for _ in range(3 * RETRIES_MAX):
        loop.runner.goes_on("start/1", "it inspects", 1.0)
        loop.turn()
        loop.clock.advance(1.0)
        loop.turn()
    assert loop.runner.keys == ["start/1"] * (3 * RETRIES_MAX + 1)
    assert len(loop.log.entries) == before, "nothing is written about it"
    loop.runner.done("start/1")
    loop.turn()
    assert not loop.engine.state.pending


def killing() -> Loop:
    """Asked to stop, and the attempt went on."""
    loop = Loop().launched()
    loop.daemon.want_stop("ann")
    loop.turn()
    loop.runner.done("stop/1")
    loop.daemon.want_stop("ann")
    loop.turn()
    return loop


def test_a_stop_that_is_not_proven_is_put_on_record_once_and_asked_about_for_as_long_as_it_takes() -> None:
    loop = killing()
    for _ in range(3 * RETRIES_MAX):
        loop.runner.unproven("kill/1", "rank 3 on n2 may live", 1.0)
        loop.turn()
        loop.clock.advance(1.0)
        loop.turn()
    assert loop.runner.keys.count("kill/1") > 2 * RETRIES_MAX
    unseen = [entry.fact for entry in loop.log.entries if isinstance(entry.fact, f.AttemptUnseen)]
    assert unseen == [f.AttemptUnseen(1, "rank 3 on n2 may live")]
    assert loop.engine.state.label == "unseen"
    loop.runner.done("kill/1")
    loop.turn()
    assert loop.engine.state.label != "unseen"


def test_a_second_stop_leaves_at_once_what_is_not_proven_and_decides_nothing_more() -> None:
    loop = killing()
    loop.runner.unproven("kill/1", "rank 3 on n2 may live", 1.0)
    loop.turn()
    loop.daemon.want_stop("ann")
    loop.turn()
    assert loop.engine.state.ended == "suspended"
    assert loop.daemon.is_over(loop.clock.now_s())
    known = len(loop.log.entries)
    for _ in range(5):
        loop.clock.advance(10.0)
        loop.turn()
    assert len(loop.log.entries) == known, "no rank is signalled behind the end"


def test_a_start_that_the_scheduler_refuses_is_the_engines_to_try_again() -> None:
    loop = Loop().start()
    for times in (1, 2, 3):
        loop.runner.refused("start/1", "Unable to contact slurm controller")
        loop.turn()
        trouble = [entry.fact for entry in loop.log.entries if isinstance(entry.fact, f.EngineTrouble)][-1]
        assert (trouble.times, trouble.is_launched) == (times, False)
        assert loop.runner.keys == ["start/1"] * times, "not before its pause is over"
        loop.clock.advance(trouble.pause_s)
        loop.turn()
    assert loop.runner.keys == ["start/1"] * 4
    loop.runner.done("start/1")
    loop.turn()
    assert not loop.engine.state.pending
    assert len(loop.engine.state.attempts) == 1


def test_a_failure_for_good_is_not_tried_again() -> None:
    loop = Loop().start()
    loop.runner.failed("start/1", "no such command")
    loop.turn()
    assert loop.runner.keys == ["start/1"]
    assert loop.engine.state.ended == "failed"


def test_a_start_that_must_wait_is_not_asked_for_before_its_time_and_the_loop_sleeps_until_then() -> None:
    loop = Loop().start()
    loop.runner.done("start/1")
    loop.turn()
    loop.telemetry.batches.append([INIT, LauncherReading(Exited(1, report_of(code=1)))])
    loop.turn()
    for key in ("capture/1/2", "quarantine/2"):
        loop.runner.done(key)
        timeout_s = loop.turn()
    assert "start/2" in loop.engine.state.pending
    assert loop.runner.keys[-1] == "quarantine/2"
    assert 0 < timeout_s <= 1.0, "a second at most, whatever it waits for"
    loop.clock.advance(0.9)
    loop.turn()
    assert loop.runner.keys[-1] == "quarantine/2", "a pause is never shorter than the policy's"
    loop.clock.advance(0.6)  # and up to half as long again
    loop.turn()
    assert loop.runner.keys[-1] == "start/2"


def test_what_is_no_longer_wanted_is_not_done() -> None:
    loop = Loop().start()
    loop.runner.done("start/1")
    loop.turn()
    loop.telemetry.batches.append([INIT, LauncherReading(Exited(1, report_of(code=1)))])
    loop.turn()
    for key in ("capture/1/2", "quarantine/2"):
        loop.runner.done(key)
        loop.turn()
    loop.daemon.want_stop("SIGTERM")
    loop.turn()
    loop.clock.advance(10.0)
    loop.turn()
    assert "start/2" not in loop.runner.keys
    assert loop.engine.state.ended == "stopped"


def test_a_new_supervisor_asks_again_for_what_was_decided_and_never_confirmed() -> None:
    first = Loop().launched().crash()
    assert first.runner.keys[-1] == "capture/1/2"
    second = Loop(first.log).start()
    assert second.runner.keys == ["capture/1/2"]


def test_time_passes_for_the_engine_only_when_everything_written_has_been_read() -> None:
    """A backlog that takes a while to read is not silence."""
    loop = Loop().launched()
    loop.telemetry.has_more = True
    loop.clock.advance(10_000.0)
    assert loop.turn() == 0.0
    assert not loop.engine.state.incidents
    loop.telemetry.has_more = False
    loop.telemetry.batches.append([read_step(1, 1)])
    assert loop.turn() == TICK_S
    assert not loop.engine.state.incidents


def test_a_run_is_over_when_its_last_actions_are_done() -> None:
    loop = Loop().start()
    loop.runner.failed("start/1", "no such command")
    loop.turn()
    assert loop.daemon.is_over(loop.clock.now_s())


def test_a_page_that_hangs_does_not_keep_an_ended_run_for_ever() -> None:
    loop = Loop().launched()
    loop.telemetry.batches.append([LauncherReading(Exited(1, report_of(code=3)))])
    loop.turn()
    assert loop.engine.state.ended == "failed"
    assert not loop.daemon.is_over(loop.clock.now_s())
    deadline_s = loop.engine.policy.spec.paging.deadline_s
    loop.clock.advance(max(FLUSH_S, deadline_s) - 1)
    loop.turn()
    assert not loop.daemon.is_over(loop.clock.now_s()), "somebody must be called, and it is on its way"
    loop.clock.advance(2)
    loop.turn()
    assert not loop.daemon.is_over(loop.clock.now_s()), "its last actions have their time from now on"
    loop.clock.advance(FLUSH_S)
    loop.turn()
    assert loop.daemon.is_over(loop.clock.now_s())


def test_who_answers_long_after_the_end_is_told_on_before_sentinel_leaves() -> None:
    """The run failed, sentinel stays for a route that waits; the answer comes then, and those called before hear of it."""
    late = {"command": {"run": ["true"], "after": "30m"}}
    loop = Loop().with_paging({"routes": [{"terminal": {}}, late]}).launched()
    loop.telemetry.batches.append([LauncherReading(Exited(1, report_of(code=3)))])
    loop.turn()
    (call,) = loop.runner.keys[1:]
    loop.runner.done(call)
    loop.clock.advance(600)
    loop.turn()
    assert not loop.daemon.is_over(loop.clock.now_s()), "a route still waits its turn"
    loop.telemetry.batches.append([RequestReading("w", "ada", Acknowledge(1))])
    loop.turn()
    told = loop.runner.keys[-1]
    assert "/acknowledge/" in told
    assert not loop.daemon.is_over(loop.clock.now_s()), "it is on its way"
    loop.runner.done(told)
    loop.turn()
    assert loop.daemon.is_over(loop.clock.now_s())


def test_a_round_for_step_lines_reads_them_and_no_more_unless_they_say_something() -> None:
    loop, story = Loop().launched(), Story()
    loop.telemetry.batches.append([read_step(1, 1)])
    loop.turn()  # the first step is a fact
    loop.daemon._narrator = story
    asked: list[str] = []
    whole, steps = loop.telemetry.poll, loop.telemetry.poll_steps
    loop.telemetry.poll = lambda now_s: (asked.append("all"), whole(now_s))[1]
    loop.telemetry.poll_steps = lambda now_s: (asked.append("steps"), steps(now_s))[1]
    loop.telemetry.batches += [[read_step(1, 2)], [read_step(1, 3, math.nan)]]
    loop.daemon.turn(loop.clock.now_s(), only_steps=True)
    assert (asked, story.steps, story.turns) == (["steps", "all"], [2], 0)
    loop.daemon.turn(loop.clock.now_s(), only_steps=True)
    assert story.turns == 1
    assert [incident.kind for incident in loop.engine.state.incidents] == [Kind.NON_FINITE]


def test_an_action_that_ended_makes_a_round_whole() -> None:
    loop = Loop().start()
    loop.runner.done("start/1")
    asked: list[float] = []
    whole = loop.telemetry.poll
    loop.telemetry.poll = lambda now_s: (asked.append(now_s), whole(now_s))[1]
    loop.daemon.turn(loop.clock.now_s(), only_steps=True)
    assert len(asked) == 1


def stuck(loop: Loop, seconds: float) -> None:
    """Time passes turn by turn, as it does: a jump would be a process that stood still."""
    for _ in range(int(seconds)):
        loop.clock.advance(1.0)
        loop.turn()


def test_an_act_that_makes_no_progress_is_left_behind_and_a_person_is_told() -> None:
    loop = Loop().launched().crash()
    evidence = loop.runner.keys[-1]
    loop.runner.progress_of[evidence] = 0
    stuck(loop, 25)
    loop.runner.progress_of[evidence] = 1
    stuck(loop, 25)
    assert not loop.runner.abandoned, "it got further"
    stuck(loop, 10)
    assert loop.runner.abandoned == [evidence]
    assert loop.runner.keys[-1] != evidence, "the recovery goes on without it"
    (left,) = [e.fact for e in loop.log.entries if isinstance(e.fact, f.ActionAbandoned)]
    assert left.withdrawn
    assert "nothing was heard of it" in left.reason


def test_an_act_that_was_not_begun_and_one_of_a_supervisor_that_stood_still_are_not_stuck() -> None:
    loop = Loop().start()
    stuck(loop, 2000)
    assert not loop.runner.abandoned, "it waits behind another, which is asked about itself"
    loop.runner.progress_of["start/1"] = 0
    stuck(loop, 10)
    loop.clock.advance(5000.0)
    loop.turn()
    assert not loop.runner.abandoned


def test_a_look_that_comes_late_tells_the_engine_for_how_long_nobody_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal waited for its disk, and the trainer may have waited for the same one."""
    loop = Loop().launched()
    away: list[float] = []
    monkeypatch.setattr(loop.engine.detectors, "away", away.append)
    for seconds in (TICK_S, STOOD_STILL_S, 8.0, TICK_S):
        loop.clock.advance(seconds)
        loop.turn()
    assert away == [0.0, 0.0, 8.0 - TICK_S, 0.0]


def test_while_there_is_more_to_read_the_time_in_which_nobody_looked_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop().launched()
    away: list[float] = []
    monkeypatch.setattr(loop.engine.detectors, "away", away.append)
    loop.telemetry.has_more = True
    loop.clock.advance(8.0)
    loop.turn()
    assert away == []
    loop.telemetry.has_more = False
    loop.turn()
    assert away == [8.0 - TICK_S]


def test_a_policy_that_was_read_is_applied_when_no_action_is_under_way_and_nothing_is_decided_after_it() -> None:
    loop = Loop().launched()
    loop.telemetry.batches.append([RequestReading("1", "ada", ApplyPolicy("/p/fix.yaml", "f" * 64))])
    loop.turn()
    loop.crash()  # its recovery begins
    assert {key.split("/")[0] for key in loop.runner.keys} >= {"policy", "capture"}
    loop.runner.found("policy/1", LoadedPolicy("/p/fix.yaml", "f" * 64, "fix"))
    loop.turn()
    assert not loop.daemon.is_outdated, "evidence is being saved"
    loop.runner.done(next(key for key in loop.runner.keys if key.startswith("capture")))
    asked = len(loop.runner.submitted)
    loop.turn()
    assert loop.daemon.is_outdated
    assert len(loop.runner.submitted) == asked, "what follows is handed over by whoever goes on with the new policy"
    assert isinstance(loop.log.entries[-1].fact, f.PolicyApplied)


def test_the_next_act_of_a_plan_is_handed_over_before_the_sources_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop().launched().crash()
    loop.runner.done("capture/1/2")
    handed_over: list[list[str]] = []
    monkeypatch.setattr(loop.telemetry, "poll", lambda now_s: handed_over.append(loop.runner.keys) or [])
    loop.turn()
    assert handed_over[0][-1] == "quarantine/2"


def test_between_two_acts_of_a_plan_no_source_but_the_stream_is_asked_and_no_head_is_waited_for() -> None:
    loop = Loop().launched().crash()
    asked: list[str] = []
    loop.telemetry.poll = lambda now_s: asked.append("all") or []  # type: ignore[func-returns-value, method-assign]
    loop.telemetry.poll_steps = lambda now_s: asked.append("steps") or []  # type: ignore[func-returns-value, method-assign]
    for key in ("capture/1/2", "quarantine/2", "start/2"):
        assert loop.runner.keys[-1] == key
        loop.runner.done(key)
        settled = loop.log.settled
        loop.daemon.turn(loop.clock.now_s(), only_steps=True)
        assert (loop.log.settled == settled) is (key != "start/2")
    assert asked == ["steps", "steps", "all"], "with the last act of the plan the round is whole again"
