"""The directory of the checkpoints cannot be read while a run stops or dies: what was saved meanwhile is neither passed over nor
moved aside, and nothing starts from scratch because nothing was seen."""

from __future__ import annotations

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.events import ActionDone
from sentinel.model.operator_requests import RollBack
from sentinel.model.readings import CheckpointReading, SourceReading
from sentinel.model.records import FoundCheckpoints
from tests.builders import BATCH, Bench

SAVED = CheckpointReading(60, "checkpoints/step-00000060", 1, 60 * BATCH, "1-60")


def blind(known: int = 0) -> Bench:
    bench = Bench().launched().steps(1, 40)
    if known:
        bench.checkpoint(known)
    bench.tell(SourceReading("checkpoints", False, "stale file handle"))
    return bench.steps(41, 60)


def find(bench: Bench, *found: CheckpointReading) -> Bench:
    bench.tell(ActionDone(bench.key("find/"), "", FoundCheckpoints(found)))
    return bench


@pytest.mark.parametrize("known", [0, 40])
def test_a_run_that_was_stopped_blind_goes_on_from_what_is_found(known: int) -> None:
    bench = blind(known)
    bench.wants_stop()
    bench.exits(code=6)
    assert bench.state.ended == "stopped"
    bench.die()
    assert "FindCheckpoints" in bench.plan_kinds
    known_before = [CheckpointReading(40, "checkpoints/step-00000040", 1, 40 * BATCH, "1-40")] if known else []
    find(bench, *known_before, SAVED)
    assert bench.resumed_from == 60
    bench.carry_out()
    assert bench.state.attempt is not None
    assert bench.state.attempt.resumed_step == 60
    assert not bench.state.quarantined


def test_one_that_died_blind_too_and_the_rung_is_the_same() -> None:
    bench = blind(40).exits(signal=9)
    kinds = bench.plan_kinds
    assert kinds.index("FindCheckpoints") < kinds.index("VerifyCheckpoint")
    bench.done("capture/")
    find(bench, SAVED)
    assert bench.resumed_from == 60
    assert "FindCheckpoints" not in bench.plan_kinds
    bench.carry_out()
    assert bench.incident.tries[-1].remedy.rollback_to_step == 60


def test_where_nothing_more_is_found_the_plan_goes_on_and_the_directory_is_not_read_again() -> None:
    bench = blind(40).exits(signal=9)
    bench.done("capture/")
    find(bench, CheckpointReading(40, "checkpoints/step-00000040", 1, 40 * BATCH, "1-40"))
    assert bench.resumed_from == 40
    bench.launched().steps(41, 45).exits(signal=9)
    assert "FindCheckpoints" not in bench.plan_kinds


def test_a_directory_that_stays_unreadable_ends_in_a_sentence_and_starts_nothing() -> None:
    bench = blind()
    bench.wants_stop()
    bench.exits(code=6)
    bench.die()
    bench.fails("find/", "checkpoints: Stale file handle", 1.0)
    assert bench.state.ended == "failed"
    assert "which checkpoints there are cannot be read" in bench.state.end_reason
    assert len(bench.of(f.AttemptLaunched)) == 1
    assert "which checkpoints there are cannot be read" in bench.decided(a.SendPage)[-1].text, "though of no incident"
    bench.done("page/").die()
    find(bench, SAVED)
    assert bench.resumed_from == 60, "and the next start looks again"


def test_what_could_be_read_again_before_the_end_needs_no_second_look() -> None:
    bench = blind()
    bench.tell(SourceReading("checkpoints", True, "it can be read"))
    bench.checkpoint(60).exits(signal=9)
    assert "FindCheckpoints" not in bench.plan_kinds
    assert bench.resumed_from == 60


def test_a_stop_while_it_is_read_starts_nothing() -> None:
    bench = blind(40).exits(signal=9)
    bench.done("capture/")
    bench.wants_stop()
    assert bench.state.ended == "stopped"
    assert not [action for action in bench.decided(a.StartAttempt) if action.attempt == 2]


def test_where_a_person_says_from_where_nothing_is_chosen_anew() -> None:
    bench = blind(40)
    assert bench.asks(RollBack(40)).granted
    assert "FindCheckpoints" not in bench.plan_kinds


def profiled() -> Bench:
    """A trainer under a profile: its checkpoints are sealed behind it, so what is known may not be all there is."""
    bench = Bench(settable=())
    bench.done("find/")
    return bench.launched().steps(1, 40).checkpoint(40).steps(41, 65)


def test_under_a_profile_every_relaunch_looks_again_first() -> None:
    bench = profiled().exits(signal=9)
    assert bench.resumed_from == 40
    bench.done("capture/")
    find(bench, SAVED)
    assert bench.resumed_from == 60
    bench.done("capture/")
    find(bench, SAVED)
    assert "FindCheckpoints" in bench.plan_kinds, "once for each plan"
    bench.carry_out()
    assert bench.state.attempt is not None
    assert bench.state.attempt.resumed_step == 60


def test_what_its_source_told_before_the_answer_came_is_chosen_as_well() -> None:
    bench = profiled().exits(signal=9)
    bench.done("capture/")
    bench.tell(SAVED)
    find(bench, SAVED)
    assert bench.resumed_from == 60
