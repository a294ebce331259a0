"""Which checkpoints the run has, which of them may be resumed from, and what happens when one turns out to be damaged."""

from __future__ import annotations

from math import nan

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.events import ActionFailed
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import Receipt
from tests.builders import Bench, build_policy


def crashed() -> Bench:
    bench = Bench().launched()
    bench.steps(1, 20).checkpoint(20).steps(21, 40).checkpoint(40).steps(41, 60).checkpoint(60)
    return bench.exits(signal=9)


def steps_of(bench: Bench) -> list[int]:
    return [c.step for c in bench.state.checkpoints]


def test_each_checkpoint_is_recorded_once_however_often_it_is_read() -> None:
    bench = Bench().launched()
    bench.steps(1, 20).checkpoint(20).checkpoint(20).die()
    assert len(bench.of(f.CheckpointCommitted)) == 1


def test_one_of_another_attempt_above_the_resume_step_is_not_ours() -> None:
    bench = crashed()
    bench.launched().steps(61, 70).checkpoint(80, attempt=1)
    assert steps_of(bench) == [20, 40, 60]
    bench.checkpoint(70)
    assert steps_of(bench) == [20, 40, 60, 70]


def test_a_manifest_that_names_no_attempt_is_this_ones() -> None:
    bench = Bench().launched()
    bench.steps(1, 20).checkpoint(20, attempt=0)
    assert [(c.step, c.attempt) for c in bench.state.checkpoints] == [(20, 1)]
    assert [m.step for m in bench.state.attempts[0].marks] == [20]


def test_what_was_moved_aside_is_forgotten() -> None:
    bench = Bench().launched()
    bench.steps(1, 20).checkpoint(20).steps(21, 60).checkpoint(60).step(61, nan)
    bench.launched()
    assert steps_of(bench) == [20]
    assert bench.of(f.CheckpointsQuarantined)[0].above_step == 20


def test_a_checkpoint_seen_between_the_choice_and_the_move_is_moved_too() -> None:
    bench = Bench().launched()
    bench.steps(1, 20).checkpoint(20).steps(21, 60).step(61, nan)
    bench.checkpoint(61).launched()
    assert steps_of(bench) == [20]


def test_a_damaged_one_is_condemned_and_the_next_older_is_taken_with_everything_newer_moved_aside() -> None:
    bench = crashed()
    bench.done("capture").fails("verify/2/60", "sha256 differs")
    assert bench.resumed_from == 40
    bench.done("capture").fails("verify/2/40", "sha256 differs")
    bench.launched()
    assert bench.resumed_from == 20
    assert bench.decided(a.Quarantine)[-1].above_step == 20
    remedy = bench.incident.tries[-1].remedy
    assert remedy.rollback_to_step == 20
    assert remedy.reason == "resume from the checkpoint of step 20, the newest; the checkpoint of step 40 is damaged"
    assert bench.state.attempts[-1].why == remedy.reason
    assert bench.incident.steps_lost == 40
    assert len(bench.incident.tries) == 1


def all_damaged() -> Bench:
    bench = crashed()
    for step in (60, 40, 20):
        bench.done("capture").fails(f"verify/2/{step}", "sha256 differs")
    return bench


def test_when_all_are_damaged_a_person_is_called_and_nothing_starts_from_scratch() -> None:
    bench = all_damaged()
    assert bench.state.ended == "failed"
    assert not bench.decided(a.Quarantine)
    assert len(bench.state.attempts) == 1
    assert "does not start from scratch" in bench.decided(a.SendPage)[-1].text


def test_a_person_who_starts_the_run_again_may_have_mended_one_and_all_are_looked_at_again() -> None:
    bench = all_damaged().done("page").die()
    assert bench.resumed_from == 60
    bench.fails("verify/2/60", "sha256 differs")
    assert bench.resumed_from == 40
    bench.launched()
    assert bench.state.attempts[-1].resumed_step == 40


def test_one_that_cannot_be_read_is_not_damaged_and_none_older_is_taken() -> None:
    """An outage says nothing about the checkpoint: when it outlasts the retries, a person is called."""
    bench = crashed().done("capture").fails("verify/2/60", "Stale file handle", retry_in_s=5.0)
    assert not any(c.condemned for c in bench.state.checkpoints)
    assert bench.state.ended == "failed"
    assert "unable to act: checkpoint of step 60 cannot be read: Stale file handle" in bench.decided(a.SendPage)[-1].text
    bench.done("page").die()
    assert bench.resumed_from == 60


def test_where_the_playbook_would_keep_training_nothing_is_left_to_train() -> None:
    tell = [{"resume": {"from": "newest"}}, {"page": {"severity": "warning"}, "then": "keep_training"}]
    bench = Bench(build_policy(playbooks={"restart": tell})).launched()
    bench.steps(1, 20).checkpoint(20).exits(signal=9).done("capture").fails("verify/2/20", "sha256 differs")
    assert bench.state.ended == "failed"


def test_the_next_older_one_still_keeps_clear_of_every_open_onset() -> None:
    """Two numeric incidents are open: the older onset holds for the damaged checkpoint's replacement as well."""
    page = {"page": {"severity": "critical"}, "then": "stop_now"}
    numeric = [{"rollback": {"before_onset": "5 steps"}}, page]
    bench = Bench(build_policy(playbooks={"numeric": numeric})).launched()
    for step in range(1, 61):
        bench.step(step)
        if step % 10 == 0:
            bench.checkpoint(step)
    bench.steps(61, 62, loss=8.0)
    bench.launched()
    assert bench.state.attempts[-1].resumed_step == 50
    for step in range(51, 100):
        bench.step(step)
        if step % 10 == 0:
            bench.checkpoint(step)
    bench.steps(100, 101, loss=8.0)
    assert [i.state for i in bench.state.incidents] == [IncidentState.PROBATION, IncidentState.OPEN]
    assert bench.resumed_from == 60, "before the older onset, at 61; not so far before it as that incident's own playbook goes"
    bench.done("capture").done("kill").exits(signal=9).fails("verify/3/60", "sha256 differs")
    assert bench.resumed_from == 50


def test_of_a_trainer_under_a_profile_only_what_its_first_row_shows_is_said() -> None:
    bench = crashed()
    bench.launched(receipt=False).says(Receipt(2, bench.now_s, 40, None, 1, {}, {}, profile="mine"))
    (note,) = [fact.reason for fact in bench.of(f.Noted) if fact.about == "resume"]
    assert note.startswith("its first row follows step 40, and it was to go on from step 60: ")
    assert "was passed over" not in note


def test_a_resume_older_than_asked_is_noted_and_one_newer_is_an_incident() -> None:
    bench = crashed()
    bench.launched(receipt=False).receipt(resume_step=40)
    assert any("resumed at step 40, not 60" in fact.reason for fact in bench.of(f.Noted))
    assert bench.state.attempts[-1].resumed_step == 40
    bench = crashed()
    bench.launched(receipt=False).receipt(resume_step=70)
    assert bench.incident.kind == "override_mismatch"


def test_the_cost_of_a_save_is_kept_whichever_word_of_it_comes_first() -> None:
    bench = Bench().launched()
    bench.steps(1, 20)
    bench.note("checkpoint_committed", 20, seconds=2.5)
    bench.checkpoint(20)
    bench.steps(21, 40).checkpoint(40).note("checkpoint_committed", 40, seconds=3.5)
    for _ in range(2):
        assert [(m.step, m.save_s) for m in bench.state.attempts[0].marks] == [(20, 2.5), (40, 3.5)]
        bench.die()


def test_a_save_behind_training_costs_what_training_stood_still_for_it() -> None:
    bench = Bench().launched()
    bench.steps(1, 20).checkpoint(20).note("checkpoint_committed", 20, seconds=40.0, blocked_s=0.5)
    assert [(m.step, m.save_s) for m in bench.state.attempts[0].marks] == [(20, 0.5)]


def test_a_cost_that_is_no_number_is_no_cost() -> None:
    bench = Bench().launched()
    bench.steps(1, 20).checkpoint(20)
    for seconds in (nan, -1.0, "fast", None, float("inf")):
        assert bench.note("checkpoint_committed", 20, seconds=seconds) == ()


def test_one_that_is_never_read_to_its_end_is_told_and_the_next_older_is_taken() -> None:
    bench = crashed().done("capture")
    bench.tell(ActionFailed(bench.key("verify/2/60"), "nothing was heard of it for 600 s", None, overdue=True))
    assert "could not be read" in bench.of(f.PageRaised)[-1].text
    assert bench.done("capture").key("verify/2/40")
    left = bench.of(f.ActionAbandoned)[-1]
    assert left.withdrawn
    condemned = bench.of(f.CheckpointCondemned)[-1]
    assert (condemned.step, condemned.evidence) == (60, "unread")
