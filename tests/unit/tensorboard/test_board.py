"""The boards as a reader finds them: after rollbacks, after every kind of end, and after what trainers should not do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.model.readings import Receipt, StepReading
from sentinel.telemetry.log_formats import open_log
from sentinel.telemetry.log_reader import read_to_end
from sentinel.telemetry.rewind import Rewind
from sentinel.tensorboard import event_file
from sentinel.tensorboard.board import PLACE, Board
from sentinel.tensorboard.survivors import Begun
from tests.unit.tensorboard.board_kit import (
    CREATED_S,
    board_of,
    draw,
    effective,
    everything,
    loss_of,
    rows,
    scalars,
    series,
    write,
)
from tests.unit.told_run import state_of, told

ROLLED_BACK = [Begun(1, 0, True), Begun(2, 100, True), Begun(3, 40)]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """1 trained to 130, 2 went on from 100 to 120, 3 was sent back to 40 and stands at 60."""
    write(tmp_path, 1, rows(1, 1, 130), resumed=0)
    write(tmp_path, 2, rows(2, 101, 120), resumed=100)
    write(tmp_path, 3, rows(3, 41, 60), resumed=40)
    return tmp_path


def of(attempt: int, first: int, last: int) -> list[tuple[int, float]]:
    return [(step, loss_of(attempt, step)) for step in range(first, last + 1)]


def test_each_attempt_stays_whole_and_effective_is_what_survives(run_dir: Path) -> None:
    draw(run_dir, ROLLED_BACK)
    assert [series(board_of(run_dir, n)) for n in (1, 2, 3)] == [of(1, 1, 130), of(2, 101, 120), of(3, 41, 60)]
    assert series(effective(run_dir)) == of(1, 1, 40) + of(3, 41, 60)
    assert {tag for _, _, tag, _ in scalars(board_of(run_dir, 1))} == {"lm loss", "grad-norm", "mfu"}
    times = {step: wall_s for step, wall_s, _, _ in scalars(effective(run_dir))}
    assert times[60] == CREATED_S + 60


def test_kept_up_while_the_run_lives_it_comes_to_the_same(run_dir: Path, tmp_path: Path) -> None:
    live = tmp_path / "live"
    board = Board(live)
    write(live, 1, rows(1, 1, 60), resumed=0)
    board.advance([Begun(1, 0)], (), CREATED_S)
    assert series(effective(live)) == of(1, 1, 60)
    write(live, 1, rows(1, 61, 130))
    board.advance([Begun(1, 0)], (), CREATED_S)
    board.advance([Begun(1, 0, True), Begun(2, 100)], (), CREATED_S)
    assert series(effective(live)) == of(1, 1, 100), "cut when the next is launched, before it makes a step"
    write(live, 2, rows(2, 101, 120), resumed=100)
    board.advance([Begun(1, 0, True), Begun(2, 100)], (), CREATED_S)
    assert series(effective(live)) == of(1, 1, 100) + of(2, 101, 120)
    write(live, 3, rows(3, 41, 60), resumed=40)
    board.advance(ROLLED_BACK, (), CREATED_S)
    draw(run_dir, ROLLED_BACK)
    assert everything(live) == everything(run_dir)


def test_a_live_reader_never_meets_a_file_that_comes_back_or_bytes_that_change(run_dir: Path) -> None:
    """The usual loader of TensorBoard reads on where it stood, and opens no name again that was away."""
    seen: dict[str, bytes] = {}
    gone: set[str] = set()
    board = Board(run_dir)
    for attempts in ([Begun(1, 0)], [Begun(1, 0, True), Begun(2, 100)], ROLLED_BACK, [*ROLLED_BACK[:2], Begun(3, 40, True)]):
        while board.advance(attempts, (), CREATED_S):
            pass
        now = {name: data for name, data in everything(run_dir).items() if "incidents" not in name}
        for name, data in seen.items():
            assert name not in now or now[name].startswith(data) or data.startswith(now[name]), name
        gone |= set(seen) - set(now)
        assert not gone & set(now)
        seen |= now
    assert gone == {"effective/events.out.tfevents.0000000002.sentinel"}


def test_a_run_killed_anywhere_is_completed_without_a_step_twice(run_dir: Path, tmp_path: Path) -> None:
    """Every file cut at many places, with and without the note of how far they were: the successor ends at the same bytes."""
    draw(run_dir, ROLLED_BACK)
    whole = everything(run_dir)
    place = run_dir / "tensorboard" / PLACE
    noted = place.read_bytes()
    for name, data in whole.items():
        path = run_dir / "tensorboard" / name
        for length in sorted({0, 1, 11, 12, 40, len(data) - 1, len(data) - 5, *range(0, len(data), 397)}):
            for note in (noted, b"", b'{"v": 1, "attempts": {"1": [0, 5]}}'):
                path.write_bytes(data[:length])
                place.write_bytes(note)
                draw(run_dir, ROLLED_BACK)
                found = everything(run_dir)
                if "incidents" in name:  # a damaged sheet is followed by a new one
                    assert sorted(found.values()) == sorted(whole.values())
                    for other in set(found) - set(whole):
                        (run_dir / "tensorboard" / other).unlink()
                else:
                    assert found == whole, (name, length, note)
                path.write_bytes(data)


def test_garbage_behind_the_last_record_is_cut_off(run_dir: Path) -> None:
    draw(run_dir, ROLLED_BACK)
    whole = everything(run_dir)
    (run_dir / "tensorboard" / PLACE).unlink()
    for path in (run_dir / "tensorboard").rglob("*.sentinel"):
        with path.open("ab") as file:
            file.write(bytes(700))
    draw(run_dir, ROLLED_BACK)
    assert everything(run_dir) == whole


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_however_the_run_goes_effective_is_the_surviving_lineage(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Attempts of any length from any step, supervisors that come and go, streams written in any pieces, lines torn."""
    run_dir = tmp_path_factory.mktemp("run")
    attempts: list[Begun] = []
    surviving: dict[int, float] = {}
    board = Board(run_dir)
    for number in range(1, data.draw(st.integers(2, 6)) + 1):
        after = data.draw(st.sampled_from([0, *surviving])) if surviving else 0
        count, every = data.draw(st.integers(0, 30)), data.draw(st.sampled_from([1, 1, 3]))
        first = (after // every + 1) * every
        lines = rows(number, first, first + count, every) if count else []
        attempts = [Begun(b.attempt, b.after_step, True) for b in attempts] + [Begun(number, after)]
        surviving = {step: loss for step, loss in surviving.items() if step <= after}
        surviving |= {step: loss_of(number, step) for step in range(first, first + count + 1, every) if count}
        says = data.draw(st.booleans())
        text = "".join(line + "\n" for line in lines)
        cut = data.draw(st.integers(0, len(text)))
        for piece in (text[:cut], text[cut:]):
            write(run_dir, number, [piece], resumed=after if says and piece is text[:cut] else None, end="")
            if says and piece is text[:cut]:
                path = run_dir / "attempts" / f"{number:04d}" / "metrics.jsonl"
                head, _, rest = path.read_text().partition("}")
                path.write_text(f"{head}}}\n{rest.lstrip()}")
            if data.draw(st.booleans()):
                board.close()
                board = Board(run_dir)
            while board.advance(attempts, (), CREATED_S):
                pass
    assert series(effective(run_dir)) == sorted(surviving.items())
    board.close()


def test_steps_that_fall_back_within_an_attempt_are_told_once(tmp_path: Path) -> None:
    write(tmp_path, 1, [*rows(1, 1, 20), *rows(7, 10, 30)])
    draw(tmp_path, [Begun(1, 0)])
    assert series(effective(tmp_path)) == of(1, 1, 20) + of(7, 21, 30)


def test_a_trainer_that_began_lower_than_it_said_makes_no_zigzag(tmp_path: Path) -> None:
    write(tmp_path, 1, rows(1, 1, 50))
    write(tmp_path, 2, rows(2, 21, 40))
    draw(tmp_path, [Begun(1, 0, True), Begun(2, 40)])
    assert series(effective(tmp_path)) == of(1, 1, 20) + of(2, 21, 40)


def test_a_step_repeated_at_the_resume_is_the_parents(tmp_path: Path) -> None:
    write(tmp_path, 1, rows(1, 1, 50))
    write(tmp_path, 2, rows(2, 40, 60), resumed=40)
    draw(tmp_path, [Begun(1, 0, True), Begun(2, 40)])
    assert series(effective(tmp_path)) == of(1, 1, 40) + of(2, 41, 60)


def test_damaged_lines_torn_ends_and_missing_streams_cost_nothing_else(tmp_path: Path) -> None:
    good = rows(1, 1, 30)
    write(tmp_path, 1, [*good[:10], "{garbage", "x" * 3_000_000, *good[10:29]], resumed=0)
    write(tmp_path, 1, [good[29]], end="")
    draw(tmp_path, [Begun(1, 0)])
    assert series(effective(tmp_path)) == of(1, 1, 29), "a line without its end may grow"
    draw(tmp_path, [Begun(1, 0, True), Begun(2, 30), Begun(3, 30)])
    assert series(effective(tmp_path)) == of(1, 1, 30)


def test_attempts_the_state_no_longer_knows_are_cut_all_the_same(run_dir: Path) -> None:
    draw(run_dir, [Begun(1, 0)])
    draw(run_dir, [Begun(2, 100, True), Begun(3, 40)])
    assert series(effective(run_dir)) == of(1, 1, 40) + of(3, 41, 60)


def test_a_full_disk_costs_the_charts_a_while_and_no_step(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(run_dir, ROLLED_BACK)
    whole = everything(run_dir)
    shutil.rmtree(run_dir / "tensorboard")
    really, left = event_file.write_fully, 4000

    def until_full(handle: int, data: bytes) -> None:
        nonlocal left
        really(handle, data[:left])
        left -= min(left, len(data))
        if left == 0:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(event_file, "write_fully", until_full)
    for more in (3000, 5000, 7000):
        with pytest.raises(OSError, match="No space"):
            draw(run_dir, ROLLED_BACK)
        left = more
    left = 10**9
    draw(run_dir, ROLLED_BACK)
    assert everything(run_dir) == whole


def test_replay_reads_an_effective_board_as_one_run_without_a_relaunch(run_dir: Path) -> None:
    draw(run_dir, ROLLED_BACK, state_of(told()).incidents)
    found, reader = open_log(effective(run_dir))
    read = list(read_to_end(reader))
    assert (found, reader.damaged, [row.step for row in read]) == ("tensorboard", 0, list(range(1, 61)))
    assert set(read[5].metrics) == {"loss", "grad_norm", "mfu"}
    followed = list(Rewind().follow(read))
    assert not any(isinstance(one, Receipt) for one in followed)
    assert all(isinstance(one, StepReading) for one in followed)


def test_an_attempt_that_was_taken_for_over_and_lives_is_followed_again(tmp_path: Path) -> None:
    write(tmp_path, 1, rows(1, 1, 20))
    draw(tmp_path, [Begun(1, 0, True)])
    write(tmp_path, 1, rows(1, 21, 30))
    draw(tmp_path, [Begun(1, 0)])
    assert series(effective(tmp_path)) == of(1, 1, 30)
