"""Old checkpoints are given up one at a time, in a healthy run only, and nothing that is planned reckons with them."""

from __future__ import annotations

from math import nan

import pytest

from sentinel.engine import evolve
from sentinel.engine.retention import RETRY_S
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import ResumePoint, SampleRange, SettingsInForce
from sentinel.model.events import ActionDone
from sentinel.model.incidents import IncidentState
from sentinel.model.operator_requests import LeaveOut, PruneCheckpoints
from sentinel.model.readings import CheckpointRead
from sentinel.model.saved import ReadBack, SavedNumbers
from tests.builders import BATCH, Bench, build_policy

SMALL = {"numeric": [{"rollback": {"before_onset": "20 steps"}}, {"page": {}, "then": "stop_now"}]}
POLICY = build_policy(
    SMALL,
    detectors={"spike": {"metrics": ["loss"], "window": "40 steps", "level": "4 steps", "min_history": "40 steps"},
               "onset_lookback": "20 steps"},
    checkpoints={"retain": {"last": 2, "every": "100 steps"}},
)  # fmt: skip


def trained(last: int = 200, read: bool = True, **more: object) -> Bench:
    """A checkpoint every 20 steps, each read whole behind training where `read`. A probation is 60 steps, and a
    rollback reaches 40: of 200 steps, 160 lies within reach."""
    bench = Bench(POLICY, **more).launched()  # type: ignore[arg-type]
    for step in range(20, last + 1, 20):
        bench.steps(step - 19, step).checkpoint(step)
        if read:
            bench.read(step)
    return bench


def steps_of(bench: Bench) -> list[int]:
    return [c.step for c in bench.state.checkpoints]


def gone_back(step: int) -> f.AttemptLaunched:
    return f.AttemptLaunched(2, ResumePoint(step, "x"), SettingsInForce(), "a person")


def prune_all(bench: Bench) -> list[int]:
    gone = []
    for _ in range(20):
        if not any(key.startswith("prune") for key in bench.state.pending):
            return gone
        gone.append(bench.state.pending[bench.key("prune")].step)  # type: ignore[union-attr]
        bench.done("prune")
    raise AssertionError("no end of it")


def test_one_after_the_other_goes_the_oldest_first() -> None:
    bench = trained()
    assert [action.step for action in bench.decided(a.PruneCheckpoint)] == [20], "the next waits until that one is gone"
    assert prune_all(bench) == [20, 40, 60, 80, 120]
    assert steps_of(bench) == [100, 140, 160, 180, 200]
    assert [c.step for c in bench.state.pruned] == [20, 40, 60, 80, 120]
    first = bench.decided(a.PruneCheckpoint)[0]
    assert (first.key, first.digest) == ("prune/20/1-20", "1-20")
    assert first.reason.startswith("older than the newest 2, at no multiple of 100 steps")


def test_it_is_out_of_every_plan_from_the_decision_on() -> None:
    assert 20 not in steps_of(trained())


def test_without_a_word_in_the_policy_nothing_is_ever_deleted() -> None:
    bench = Bench().launched()
    for step in range(20, 401, 20):
        bench.steps(step - 19, step).checkpoint(step)
    assert not bench.decided(a.PruneCheckpoint)


def test_observe_only_deletes_nothing() -> None:
    assert not trained(observe_only=True).decided(a.PruneCheckpoint)


def test_an_open_incident_and_its_probation_keep_everything() -> None:
    bench = trained(120)
    prune_all(bench)
    before = len(bench.decided(a.PruneCheckpoint))
    bench.exits(signal=9)
    bench.launched().steps(121, 140).checkpoint(140).read(140).steps(141, 160).checkpoint(160).read(160)
    assert bench.incident.state is IncidentState.PROBATION
    assert len(bench.decided(a.PruneCheckpoint)) == before
    for step in (180, 200, 220):
        bench.steps(step - 19, step).checkpoint(step).read(step)
    assert bench.incident.state is IncidentState.RECOVERED
    assert len(bench.decided(a.PruneCheckpoint)) > before


def test_a_supervisor_that_died_asks_again_and_takes_the_directory_it_still_sees_for_nothing_new() -> None:
    bench = trained()
    bench.die()
    assert 20 not in steps_of(bench)
    assert [action.step for action in bench.decided(a.PruneCheckpoint)] == [20]
    assert prune_all(bench) == [20, 40, 60, 80, 120]


@pytest.mark.parametrize("dies_after", range(205, 219))
def test_killed_at_any_event_nothing_is_decided_twice(dies_after: int) -> None:
    bench = trained(dies_after=dies_after)
    prune_all(bench)
    keys = [action.key for action in bench.decided(a.PruneCheckpoint)]
    assert len(set(keys)) == len(keys)
    assert steps_of(bench) == [100, 140, 160, 180, 200]


def test_one_that_cannot_be_deleted_stays_and_is_tried_again_much_later() -> None:
    bench = trained()
    bench.fails("prune", "Permission denied")
    assert 20 in steps_of(bench)
    assert any("the checkpoint of step 20 stays: Permission denied" in note.reason for note in bench.of(f.Noted))
    bench.steps(201, 220).checkpoint(220).read(220)
    assert len(bench.decided(a.PruneCheckpoint)) == 1, "not at every checkpoint"
    bench.now_s += RETRY_S
    bench.steps(221, 240).checkpoint(240).read(240)
    assert prune_all(bench)[-1] == 20, "behind those that were not tried yet"


def test_one_that_could_not_be_deleted_and_was_moved_aside_since_does_not_come_back() -> None:
    state, key = trained().state, "prune/20/1-20"
    stays = evolve(evolve(state, 1.0, gone_back(180)), 2.0, f.ActionAbandoned(key, "x"))
    assert 20 in [c.step for c in stays.checkpoints], "the run still has it in its past"
    aside = evolve(evolve(state, 1.0, gone_back(10)), 2.0, f.ActionAbandoned(key, "x"))
    assert not aside.checkpoints
    assert 20 not in [c.step for c in aside.pruned], "nobody deleted it"


def test_what_of_it_could_not_be_deleted_yet_is_told() -> None:
    bench = trained()
    bench.tell(ActionDone(bench.key("prune"), "x was taken away and cannot be deleted yet: Permission denied"))
    assert any(note.about == "checkpoints" for note in bench.of(f.Noted))


def test_a_run_does_not_start_from_scratch_because_its_checkpoints_were_deleted() -> None:
    """An onset far behind what is kept: nobody would have thought of it, so a person is called."""
    bench = trained()
    prune_all(bench)
    bench.recall(*(f.CheckpointCondemned(step, "bad", True, "bytes") for step in steps_of(bench)))
    bench.step(201, nan)
    assert bench.state.giving_up or bench.state.ended
    assert not [x for x in bench.decided(a.StartAttempt) if x.attempt > 1]
    assert "was deleted (spec.checkpoints.retain)" in bench.decided(a.SendPage)[-1].text


def test_a_person_who_would_skip_what_lies_before_all_that_is_left_is_refused() -> None:
    bench = trained()
    prune_all(bench)
    said = bench.asks(LeaveOut(SampleRange(0, BATCH)))
    assert (said.granted, "no checkpoint from before sample 0 is left" in said.answer) == (False, True)


# What nobody has read whole.


ZEROS = "state.json: sha256 is 2c2bc349, the manifest says 6bfc33db"


def answers(bench: Bench, damage: str = "") -> int:
    """The checkpoint that retention had read; its step."""
    action = bench.state.pending[bench.key("anchor")]
    assert isinstance(action, a.ReadAnchor)
    saved = None if damage else SavedNumbers(action.digest, read=ReadBack("remembered", 1, 1, 1, 1))
    bench.tell(ActionDone(action.key, "", CheckpointRead(action.step, action.digest, saved, damage)))
    return action.step


def test_nothing_goes_before_one_that_stays_was_read_whole() -> None:
    bench = trained(read=False)
    assert not bench.decided(a.PruneCheckpoint)
    assert len(bench.decided(a.ReadAnchor)) == 1, "one at a time"
    step = answers(bench)
    assert [action.sound for action in bench.decided(a.PruneCheckpoint)] == [f"checkpoints/step-{step:08d}"]
    assert min(prune_all(bench)) == 20
    assert step in steps_of(bench)


def test_while_each_newer_one_is_damaged_inside_the_good_ones_of_before_stay() -> None:
    """Zeros of the right size: training goes on, and every checkpoint becomes proven."""
    bench = trained(read=False)
    good = answers(bench)
    prune_all(bench)
    for step in range(220, 601, 20):
        bench.steps(step - 19, step).checkpoint(step)
        if any(key.startswith("anchor") for key in bench.state.pending):
            assert answers(bench, ZEROS) > good
        while any(key.startswith("prune") for key in bench.state.pending):
            bench.done("prune")
        assert good in steps_of(bench)
    assert len([c for c in bench.state.checkpoints if c.condemned]) > 10, "one is read for each that is committed"


def test_a_checkpoint_that_cannot_be_read_is_no_reason_to_delete_and_a_note_says_so() -> None:
    bench = trained(read=False)
    bench.fails("anchor", "Input/output error")
    assert not bench.decided(a.PruneCheckpoint)
    assert any("cannot be read whole: Input/output error; nothing older is deleted" in note.reason for note in bench.of(f.Noted))


def test_a_person_who_asks_for_room_has_one_read_first_and_knows_which() -> None:
    bench = trained(read=False)
    bench.fails("anchor", "busy")
    answer = bench.asks(PruneCheckpoints(1))
    assert answer.granted
    assert answer.answer.startswith("the checkpoint of step 200 is read whole first, for none that stays was read whole yet")
    assert answers(bench) == 200
    assert {action.step for action in bench.decided(a.PruneCheckpoint)} == {20, 40, 60, 80, 120}


def test_a_person_gets_no_room_for_one_that_is_damaged() -> None:
    bench = trained(read=False)
    bench.fails("anchor", "busy")
    bench.asks(PruneCheckpoints(1))
    answers(bench, ZEROS)
    assert not bench.decided(a.PruneCheckpoint)
    assert bench.of(f.Noted)[-1].reason.startswith("nothing is deleted: none that stays is known to hold")
