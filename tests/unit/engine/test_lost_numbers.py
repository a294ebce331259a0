"""A hole in the numbers: the trainer could not write them, and what they would have shown is not known. It heals nothing."""

from __future__ import annotations

import errno

import pytest

from sentinel.client import Stream
from sentinel.client import line_file as line_file_module
from sentinel.engine.sources import HOLES_RECORDED
from sentinel.model import facts as f
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.model.readings import TrainerNote
from sentinel.plan.holes import add_hole, count_seen, end_of_last
from sentinel.plan.trust import judge_trust
from sentinel.report.text import _missing_words
from sentinel.run_files.stream_lines import parse_line
from sentinel.terminal.words import describe
from tests.builders import Bench
from tests.unit.engine.test_lapsing import change, obeyed, trained, verdicts
from tests.unit.engine.test_patience_and_probation import spiked


def lost(bench: Bench, first: int, last: int, **more: object) -> Bench:
    count = last - first + 1
    fields = {"file": "metrics.jsonl", "lines": count, "steps": count, "first_step": first, "last_step": last}
    fields |= {"first_s": 100.0, "last_s": 170.0, "errno": "ENOSPC", "reason": "No space left on device"}
    bench.note("lines_lost", last, **(fields | more))
    return bench


def test_it_is_on_record_once_with_its_steps_and_why_however_often_the_stream_is_read() -> None:
    bench = lost(Bench().launched().steps(1, 20), 21, 60).steps(61, 65)
    bench.die().die()
    (fact,) = bench.of(f.NumbersMissing)
    assert (fact.attempt, fact.file, fact.lines, fact.first_step, fact.last_step) == (1, "metrics.jsonl", 40, 21, 60)
    assert (fact.first_s, fact.last_s, fact.error) == (100.0, 170.0, "ENOSPC")
    line = describe(fact, bench.now_s, bench.state)
    assert line is not None
    assert line.text == (
        "attempt 1: the numbers of steps 21 to 60 are missing; the trainer lost 40 lines of metrics.jsonl within 70 s: "
        "No space left on device (ENOSPC). What they would have shown is not known"
    )
    assert bench.state.attempt is not None
    assert bench.state.attempt.holes == ((21, 60),)
    assert not bench.state.incidents


def test_what_the_client_writes_is_what_the_supervisor_reads(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    stream, really = Stream(tmp_path / "m.jsonl", 1), line_file_module.os.write
    stream.step(20, loss=2.0)

    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(line_file_module.os, "write", full)
    stream.step(21, loss=2.0)
    stream.step(22, loss=2.0)
    monkeypatch.setattr(line_file_module.os, "write", really)
    stream.step(23, loss=2.0)
    note = parse_line((tmp_path / "m.jsonl").read_bytes().splitlines()[1], 1)
    assert isinstance(note, TrainerNote)
    bench = Bench().launched().steps(1, 20)
    bench.says(note)
    (fact,) = bench.of(f.NumbersMissing)
    assert (fact.lines, fact.first_step, fact.last_step, fact.error, fact.reason) == (2, 21, 22, "EDQUOT", "Disk quota exceeded")


def test_a_spike_with_a_hole_behind_it_has_not_healed_until_enough_rows_behind_the_hole_say_so() -> None:
    bench = lost(spiked().steps(73, 80), 81, 200).steps(201, 209)
    assert bench.incident.state is IncidentState.OPEN
    bench.steps(210, 216)
    assert (bench.incident.state, bench.incident.benign) == (IncidentState.RECOVERED, True)


def probation() -> Bench:
    bench = spiked().steps(73, 76, loss=3.0).launched()
    return bench.steps(bench.resumed_from + 1, 90)


def test_steps_that_nobody_saw_are_no_steps_of_a_probation() -> None:
    bench = lost(probation(), 91, 300).steps(301, 330)
    assert bench.incident.state is IncidentState.PROBATION
    assert bench.incident.tries[-1].outcome is Outcome.PENDING
    bench.steps(331, 360)
    assert bench.incident.state is IncidentState.RECOVERED
    assert bench.of(f.RungJudged)[-1].outcome is Outcome.WORKED


def test_a_run_that_finishes_unseen_is_not_called_healed() -> None:
    """The disk stays full to the end: heartbeats show that steps were made, and no line tells of them."""
    bench = probation().steps(91, 100)
    for step in range(101, 160):
        bench.now_s += 1.0
        bench.beat("forward", step)
    bench.tick()
    assert "step lines" in bench.state.blind
    bench.exits(code=0)
    assert bench.incident.state is IncidentState.UNKNOWN
    assert "before it was known" in bench.incident.verdict


def test_a_crash_is_watched_for_steps_that_were_seen() -> None:
    bench = Bench().launched().steps(1, 50).checkpoint(50).steps(51, 60)
    bench.exits(signal=9).launched().steps(51, 70)
    lost(bench, 71, 130).steps(131, 140)
    assert bench.incident.state is IncidentState.PROBATION
    bench.steps(141, 185)
    assert bench.incident.state is IncidentState.RECOVERED


def test_a_setting_that_was_taken_back_is_not_proven_needless_by_steps_nobody_saw() -> None:
    bench = trained()
    change(bench, "clip_norm", 0.3, 15)
    bench.steps(81, 100).tick()
    obeyed(bench)
    lost(bench.steps(101, 110), 111, 170).steps(171, 180).tick()
    assert verdicts(bench) == []
    bench.steps(181, 230).tick()
    assert verdicts(bench) == [("clip_norm", "proven")]


def test_a_checkpoint_is_not_proven_by_steps_nobody_saw() -> None:
    bench = lost(Bench().launched().steps(1, 50).checkpoint(50), 51, 120).steps(121, 140)
    assert [found.word for found in judge_trust(bench.state, 60, 140)] == ["candidate"]
    (found,) = judge_trust(bench.state, 60, 180)
    assert (found.word, "60 steps beyond it" in found.reason) == ("proven", True)


def test_lines_that_an_attached_loop_dropped_are_a_hole_too() -> None:
    bench = Bench().launched().steps(1, 20)
    bench.note("lines_dropped", 31, count=10)
    (fact,) = bench.of(f.NumbersMissing)
    assert (fact.lines, fact.first_step, fact.last_step, fact.error) == (10, 21, 30, "")


def test_events_alone_are_a_remark_and_no_hole() -> None:
    bench = lost(Bench().launched().steps(1, 20), 20, 20, lines=3, steps=0, first_step=None, last_step=None)
    assert not bench.of(f.NumbersMissing)
    assert any("3 lines of metrics.jsonl" in note.reason for note in bench.of(f.Noted))


@pytest.mark.parametrize("nonsense", [{"lines": "many"}, {"first_step": 9, "last_step": 2}, {"last_step": 2**60}, {"lines": -1}])
def test_what_makes_no_sense_is_no_hole(nonsense: dict[str, object]) -> None:
    bench = lost(Bench().launched().steps(1, 20), 21, 30, **nonsense)
    assert not bench.of(f.NumbersMissing)


def test_a_disk_that_is_full_every_minute_does_not_fill_the_journal() -> None:
    bench = Bench().launched().steps(1, 5)
    for first in range(10, 10 + 4 * (HOLES_RECORDED + 10), 4):
        lost(bench, first, first + 1)
    assert len(bench.of(f.NumbersMissing)) == HOLES_RECORDED
    assert bench.engine.unwritten_remarks == 10
    assert count_seen(bench.engine._live.holes, 9, 13) == 2


def test_counting() -> None:
    holes = [(5, 8), (20, 20)]
    assert [count_seen(holes, *span) for span in ((0, 4), (4, 8), (4, 9), (6, 20), (20, 30), (9, 3))] == [4, 0, 1, 11, 10, -6]
    assert [end_of_last(holes, step) for step in (4, 6, 10, 25)] == [0, 6, 8, 20]
    kept: list[tuple[int, int]] = []
    for hole in ((1, 2), (1, 2), (5, 6), (9, 9)):
        add_hole(kept, hole, 2)
    assert kept == [(1, 6), (9, 9)], "too much counts as unseen, never too little"


def test_the_status_names_the_steps() -> None:
    assert _missing_words([[4, 4], [7, 9]]).startswith("the numbers of steps 4, 7 to 9: the trainer could not write them")
    assert "and 2 stretches before" in _missing_words([[n, n] for n in range(7)])


def test_what_stands_in_the_stream_was_seen_and_what_is_to_come_cannot_be_lost() -> None:
    """A trainer that says so of every step, or of all steps to come, must not keep an incident from being judged."""
    for claims in (lambda step: (1, 2**50), lambda step: (step, 2**50), lambda step: (step, step)):
        bench = Bench().launched()
        for step in range(1, 140):
            if step > 55:
                lost(bench, *claims(step))
            bench.steps(step, step, loss=2.0134 if step < 71 else 3.0271)
            if bench.state.plan is not None:
                break
        assert bench.incident.tries[-1].remedy.rollback_to_step is not None
    honest = lost(spiked().steps(73, 76, loss=3.0), 77, 130).steps(131, 131, loss=3.0)
    assert honest.engine._live.holes == [(77, 130)]


def test_steps_behind_a_checkpoint_that_lies_ahead_of_every_step_seen_prove_nothing() -> None:
    bench = Bench().launched().steps(1, 119).checkpoint(100_000)
    bench.exits(signal=9).launched().steps(100_001, 100_030)
    assert bench.incident.state is IncidentState.PROBATION
    bench.die()
    bench.steps(100_031, 100_059)
    assert bench.incident.state is IncidentState.PROBATION
    bench.steps(100_060, 100_075)
    assert bench.incident.state is IncidentState.RECOVERED


def test_a_run_that_finishes_unseen_calls_a_person_and_does_not_take_the_call_back_at_once() -> None:
    bench = probation().steps(91, 100)
    lost(bench, 101, 200)
    bench.exits(code=0)
    assert bench.state.ended == "finished"
    assert bench.incident.state is IncidentState.UNKNOWN
    assert bench.incident.page is not None
    assert bench.incident.page.is_open
    assert [one.key for one in bench.of(f.ActionAbandoned) if one.key.startswith("page/")] == []
