"""A run looked at again and again: only what is new is read, and what cannot be read is said and not raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import UsageError
from sentinel.journal.session import take_run
from sentinel.report.drawn import METRICS_MAX, DrawnAttempt
from sentinel.report.following import FollowedRun
from sentinel.report.reading import read_status
from sentinel.run_files.stream import PIECE_BYTES
from sentinel.streams.curve import Curve
from tests.unit.told_run import at, told, write_run, write_stream


def test_a_look_reads_what_has_been_written_since_the_last_one(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    write_stream(run_dir, 2, [101, 102], loss=7.0)
    run = FollowedRun(run_dir)
    snapshot = run.refresh()
    assert (snapshot.state.label, snapshot.step, snapshot.newest["loss"], snapshot.total_steps) == ("probation", 102, 7.0, 600)
    assert (snapshot.supervisor, snapshot.trouble) == ("gone", "")
    assert len(run.entries()) == snapshot.seq == len(told(42))

    with take_run(run_dir) as session:
        for when, fact in told(100)[len(told(42)) :]:
            session.journal.append(at(when), [fact], session.epoch)
    write_stream(run_dir, 3, [351])
    later = run.refresh()
    assert [entry.seq for entry in run.entries(snapshot.seq)] == list(range(snapshot.seq + 1, later.seq + 1))
    assert (later.state.attempt.attempt, later.step) == (3, 351)
    assert later.now_s >= at(96.5), "session time is never before the last entry"


def test_a_journal_that_is_gone_is_said_and_what_was_known_stays(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    run = FollowedRun(run_dir)
    known = run.refresh()
    (run_dir / JOURNAL_NAME).rename(tmp_path / "aside")
    blind = run.refresh()
    assert blind.state == known.state
    assert "journal" in blind.trouble
    (tmp_path / "aside").rename(run_dir / JOURNAL_NAME)
    assert run.refresh().trouble == ""


def test_what_is_no_run_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the directory of a run"):
        FollowedRun(tmp_path)


def test_every_attempt_is_drawn_piece_by_piece(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    for attempt, steps in ((1, range(1, 133)), (2, range(101, 381)), (3, range(351, 20_000))):
        write_stream(run_dir, attempt, list(steps))
    run = FollowedRun(run_dir)
    run.refresh()
    looks = 0
    while run.draw():
        looks += 1
    assert looks > 0, "the third stream is longer than a piece"
    drawn = {number: attempt.curves["loss"].buckets for number, attempt in run.attempts.items()}
    assert {number: (buckets[0][0], run.attempts[number].newest_step) for number, buckets in drawn.items()} == {
        1: (1, 132), 2: (101, 380), 3: (351, 19_999),
    }  # fmt: skip


def test_a_torn_last_line_waits_and_counts_once_the_attempt_is_over(tmp_path: Path) -> None:
    path = write_stream(tmp_path, 1, [1, 2])
    with path.open("a") as file:
        file.write('{"kind": "step", "step": 3, "loss": 4.0}')
    drawn = DrawnAttempt(tmp_path, 1)
    drawn.advance(is_over=False)
    assert drawn.newest_step == 2
    drawn.advance(is_over=True)
    assert (drawn.newest_step, drawn.newest) == (3, {"loss": 4.0})


def test_damage_endless_lines_and_made_up_names_stop_nothing(tmp_path: Path) -> None:
    path = write_stream(tmp_path, 1, [1])
    names = ", ".join(f'"m{number}": 1.0' for number in range(2 * METRICS_MAX))
    with path.open("a") as file:
        file.write(
            "{not json\n"
            + "x" * (3 << 20)
            + "\n"
            + f'{{"step": 2, {names}}}\n'
            + '{"step": 2, "loss": 1}\n{"step": 5, "loss": "NaN"}\n'
        )
    drawn = DrawnAttempt(tmp_path, 1)
    pieces = 0
    while drawn.advance(is_over=False):
        pieces += 1
    assert pieces < (4 << 20) // PIECE_BYTES + 3
    assert drawn.newest_step == 5
    assert len(drawn.curves) == METRICS_MAX
    assert drawn.curves["loss"].non_finite == [5]


def test_a_stream_written_anew_is_drawn_anew(tmp_path: Path) -> None:
    write_stream(tmp_path, 1, list(range(1, 50)))
    drawn = DrawnAttempt(tmp_path, 1)
    drawn.advance(is_over=False)
    before = drawn.changes
    write_stream(tmp_path, 1, [1, 2])
    drawn.advance(is_over=False)
    assert (drawn.newest_step, len(drawn.curves["loss"].buckets)) == (2, 2)
    assert drawn.changes > before


def test_a_long_stream_tells_its_newest_line_while_it_is_still_being_drawn(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=42)
    write_stream(run_dir, 2, list(range(101, 20_001)), loss=8.0)
    run = FollowedRun(run_dir)
    snapshot = run.refresh()
    assert run.attempts[2].newest_step is not None
    assert run.attempts[2].newest_step < 20_000, "the stream is longer than a piece"
    assert (snapshot.step, snapshot.newest["loss"]) == (20_000, 8.0)


def test_many_attempts_of_many_metrics_are_drawn_coarser_and_the_newest_as_finely_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = write_run(tmp_path / "run")
    for attempt, steps in ((1, range(1, 901)), (2, range(101, 141)), (3, range(351, 951))):
        write_stream(run_dir, attempt, list(steps), grad_norm=1.0)
    monkeypatch.setattr("sentinel.report.following.BUCKETS_KEPT", 100)
    run = FollowedRun(run_dir)
    run.refresh()
    while run.draw():
        pass
    assert sum(run.attempts[number].buckets for number in (1, 2)) <= 100
    assert len(run.attempts[3].curves["loss"].buckets) == 600
    assert len(run.attempts[2].curves["loss"].buckets) == 40, "a short one takes no memory that is worth having"
    long = run.attempts[1].curves["loss"]
    assert (long.buckets[0][0], len(long.buckets)) == (1, 57), "all of it, each point for sixteen steps"


def test_a_curve_made_coarser_goes_on_where_it_was() -> None:
    for count in range(1, 70):
        coarse, whole = Curve(buckets_max=64), Curve(buckets_max=4)
        for step in range(count):
            coarse.add(step, float(step))
        coarse.coarsen(4)
        for step in range(count, 200):
            coarse.add(step, float(step))
        for step in range(200):
            whole.add(step, float(step))
        assert coarse.buckets == whole.buckets, f"made coarser after {count} steps"


def test_a_curve_keeps_its_peaks_in_bounded_memory() -> None:
    curve = Curve(buckets_max=16)
    for step in range(10_000):
        curve.add(step, 9.0 if step == 7_777 else 2.0)
    assert len(curve.buckets) <= 32
    assert max(high for _, _, high in curve.buckets) == 9.0
    assert curve.halvings == 9


def test_how_many_steps_the_run_is_to_have_is_known_while_a_new_attempt_starts(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=94)
    write_stream(run_dir, 2, [101])
    run = FollowedRun(run_dir)
    snapshot = run.refresh()
    attempt = snapshot.state.attempt
    assert attempt is not None
    assert (attempt.attempt, attempt.receipt_s, snapshot.total_steps) == (3, None, 600)
    assert read_status(run_dir)["total_steps"] == 600
    write_stream(run_dir, 3, []).write_text('{"kind": "start", "v": 1, "attempt": 3, "resume_step": 350, "steps": 700}\n')
    assert run.refresh().total_steps == 600, "looked up once, until the newest attempt says another"
