"""kill -9 of the supervisor after any event: what is launched, taken, judged and counted is the same as if it had lived."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.engine import evolve
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.state import RunState
from tests.builders import Bench, build_policy

Story = Callable[[Bench], None]


def crash(bench: Bench) -> None:
    bench.launched().steps(1, 55).checkpoint(50)
    bench.exits(signal=9).launched()
    bench.steps(51, 116).ends(116)


def crash_again_at_the_same_step(bench: Bench) -> None:
    bench.launched().steps(1, 55).checkpoint(50)
    for _ in range(3):
        bench.exits(signal=9).launched()
        bench.steps(bench.resumed_from + 1, 54)
    bench.exits(signal=9)


def poison(bench: Bench) -> None:
    bench.launched().steps(1, 70).checkpoint(50)
    bench.steps(71, 78, loss=8.0)
    bench.launched().steps(51, 145).ends(145)


def poison_that_is_skipped_at_the_second_try(bench: Bench) -> None:
    bench.launched()
    for step in range(1, 120):
        bench.step(step)
        if step % 20 == 0:
            bench.checkpoint(step)
    bench.steps(120, 127, loss=8.0)
    bench.launched().steps(bench.resumed_from + 1, 118).steps(119, 124, loss=8.0)
    bench.launched().steps(bench.resumed_from + 1, 190).ends(190)


def not_a_number(bench: Bench) -> None:
    bench.launched().steps(1, 58).checkpoint(50).checkpoint(58)
    bench.step(59, nan)
    bench.launched().steps(bench.resumed_from + 1, 125).ends(125)


def crash_in_patience(bench: Bench) -> None:
    bench.launched().steps(1, 70).checkpoint(50).checkpoint(70)
    bench.steps(71, 72, loss=8.0)
    bench.exits(signal=9).launched()
    bench.steps(51, 140).ends(140)


STORIES: list[Story] = [
    crash, crash_again_at_the_same_step, poison, poison_that_is_skipped_at_the_second_try, not_a_number, crash_in_patience,
]  # fmt: skip


def what_happened(bench: Bench) -> list[object]:
    state = bench.state
    return [
        [(x.attempt, x.resume, x.overrides) for x in bench.of(f.AttemptLaunched)],
        [(x.attempt, x.outcome, x.last_step) for x in bench.of(f.AttemptEnded)],
        [(x.incident, x.remedy.words, x.remedy.rollback_to_step, x.step) for x in bench.of(f.RungTaken)],
        [(x.incident, x.outcome) for x in bench.of(f.RungJudged)],
        [(x.incident, x.to) for x in bench.of(f.IncidentMoved)],
        [(i.kind, i.onset_step, i.break_step, i.steps_lost, i.samples, i.state) for i in state.incidents],
        [x.finding.key for x in bench.of(f.FindingRecorded)],
        [(x.attempt, x.step) for x in bench.of(f.CheckpointCommitted)],
        len(state.interventions_s), len(state.restarts_s), state.without_progress, state.ended, dict(state.pending),
    ]  # fmt: skip


@pytest.mark.parametrize("quiet", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["decides", "quiet"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_supervisor_killed_after_any_event_loses_and_doubles_nothing(story: Story, quiet: bool) -> None:
    """Quiet events are rows of a run that trains: nothing is decided at them, and at the next one neither."""
    lived = Bench()
    story(lived)
    assert lived.of(f.IncidentOpened), "a story in which nothing goes wrong tests nothing"
    busy = {at for decided in lived.decided_at for at in (decided - 1, decided, decided + 1)}
    for events in range(1, lived.told):  # after the last one the run is over
        if (events in busy) is quiet:
            continue
        killed = Bench(dies_after=events)
        story(killed)
        assert killed.epoch == 2
        assert what_happened(killed) == what_happened(lived), f"killed after event {events}"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_no_story_has_two_living_attempts_or_resumes_past_an_open_onset(story: Story) -> None:
    bench = Bench()
    story(bench)
    state = RunState()
    for entry in bench.entries:
        if isinstance(entry.fact, f.AttemptLaunched):
            assert all(attempt.is_over for attempt in state.attempts)
            step = entry.fact.resume.step if entry.fact.resume else 0
            assert all(i.limit_step is None or step < i.limit_step for i in state.open_incidents)
        state = evolve(state, entry.at_s, entry.fact)


@given(st.integers(0, len(STORIES) - 1), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_every_prefix_of_a_journal_folds_and_another_supervisor_can_start_from_it(which: int, share: float) -> None:
    """A batch is written whole or not at all, but the fold itself takes any prefix."""
    bench = Bench()
    STORIES[which](bench)
    bench.entries = bench.entries[: int(share * len(bench.entries))]
    bench.folded = RunState()
    for entry in bench.entries:
        bench.folded = evolve(bench.folded, entry.at_s, entry.fact)
    bench.start()
    assert bench.state.run_id == "run"


def test_what_was_decided_is_asked_for_again_and_not_decided_again() -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    bench.exits(signal=9)
    before = dict(bench.state.pending)
    bench.die().die()
    assert dict(bench.state.pending) == before
    assert len(bench.decided(a.Capture)) == 1


def test_a_launch_that_is_not_confirmed_is_not_watched_before_it_is() -> None:
    """Its exit would be read while its plan waits for the start, and nobody would treat it."""
    bench = Bench().launched()
    bench.steps(1, 20)
    bench.exits(signal=9)
    while not any(key.startswith("start/") for key in bench.state.pending):
        bench.done(next(iter(bench.state.pending)))
    bench.die()
    assert bench.engine.watched == 0
    bench.done("start/2")
    assert bench.engine.watched == 2
    bench.exits(signal=9)
    assert bench.state.plan is not None


def test_a_long_wait_before_a_launch_is_not_counted_as_silence() -> None:
    bench = Bench().launched(receipt=False).beat("init")
    bench.exits(code=1).launched(receipt=False).beat("init").exits(code=1)
    while not any(key.startswith("start/") for key in bench.state.pending):
        bench.done(next(iter(bench.state.pending)))
    bench.die()
    bench.tick(3600.0)
    assert [i.kind for i in bench.state.incidents] == ["crash"]


def test_an_attempt_killed_before_its_stream_was_read_to_the_end_has_ended_when_the_next_is_launched() -> None:
    bench = Bench().launched()
    bench.steps(1, 50).checkpoint(50)
    bench.steps(51, 70)
    bench.steps(71, 78, loss=8.0)
    taken = bench.incident.tries[-1].taken_step
    bench.now_s += 5
    bench.start()  # nothing of the stream has been read again when the kill is done
    bench.carry_out(ends_killed=False)
    first, second = bench.state.attempts
    assert first.is_over
    assert first.outcome == "killed"
    assert not second.is_over
    assert bench.incident.steps_lost == taken - 50


def test_giving_up_goes_on_when_the_supervisor_died_over_it() -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    bench.note("override_refused", 20, id=bench.state.overrides.id, reason="no")
    assert bench.state.giving_up == "stop_now"
    bench.die()
    bench.done("kill/1")
    bench.exits(signal=9)
    assert (bench.state.ended, len(bench.state.attempts)) == ("failed", 1)


def test_a_giving_up_whose_kill_was_impossible_is_tried_again_by_the_next_supervisor() -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    bench.note("override_refused", 20, id=bench.state.overrides.id, reason="no")
    bench.fails("kill/1", "processes survive SIGKILL")
    assert not bench.state.ended
    assert not any(key.startswith("kill") for key in bench.state.pending)
    bench.die()
    assert any(key.startswith("kill/1") for key in bench.state.pending)


def test_a_person_who_starts_a_failed_run_again_gets_a_launch() -> None:
    bench = Bench().launched(receipt=False)
    bench.exits(code=3)
    assert bench.state.ended == "failed"
    bench.done("page").die()
    assert bench.state.ended == ""
    assert bench.plan_kinds == ["Quarantine", "StartAttempt"]


def test_a_failed_run_whose_page_was_never_sent_is_not_taken_for_answered() -> None:
    bench = Bench().launched(receipt=False)
    bench.exits(code=3)
    bench.die()
    assert bench.state.ended == "failed"
    assert not bench.plan_kinds
    assert [key for key in bench.state.pending if key.startswith("page/")], "and it is still to be sent"


def test_a_hold_outlives_a_supervisor_that_died() -> None:
    hold = [{"page": {"severity": "critical"}, "then": "hold"}]
    rules = [{"alert": "Crash", "on": "crash", "playbook": "other"}]
    policy = build_policy(rules=rules, playbooks={"other": hold}, without=("numeric",))
    bench = Bench(policy).launched()
    bench.steps(1, 3).exits(signal=9)
    assert bench.state.label == "held"
    bench.done("page").die()
    assert bench.state.label == "held"
    assert not bench.plan_kinds


def test_a_policy_changed_between_two_sessions_may_have_lost_the_playbook() -> None:
    bench = Bench().launched()
    bench.steps(1, 60)
    bench.steps(61, 62, loss=8.0)
    assert bench.incident.is_waiting
    rules = [{"alert": "Crash", "on": "crash", "playbook": "other"}]
    page = [{"page": {"severity": "critical"}, "then": "stop_now"}]
    bench.policy = build_policy(rules=rules, playbooks={"other": page}, without=("numeric",))
    bench.die()
    bench.steps(63, 80, loss=8.0)
    bench.exits(signal=9)
    assert bench.state.ended == "failed"
