import os
from collections.abc import Iterable

import pytest

from sentinel.model.readings import EndReading, Reading, Receipt, SourceReading, StepReading, TrainerNote
from sentinel.telemetry import metrics_jsonl, tailed_file
from sentinel.telemetry.metrics_jsonl import MetricsStream


def steps_of(readings: Iterable[Reading]) -> list[int]:
    return [reading.step for reading in readings if isinstance(reading, StepReading)]


def words_of(readings: Iterable[Reading]) -> list[SourceReading]:
    return [reading for reading in readings if isinstance(reading, SourceReading)]


@pytest.fixture
def stream(world):
    stream = MetricsStream(world.run_dir, 1)
    assert [word.ok for word in words_of(stream.poll(0.0))] == [True]  # the first look of all is said
    yield stream
    stream.close()


def test_a_file_that_is_not_there_yet_is_no_blindness(world, stream) -> None:
    for now_s in range(100):
        assert stream.poll(float(now_s)) == []


def test_lines_come_in_order_and_once(world, stream) -> None:
    world.start(1)
    world.steps(1, 1, 3)
    first = stream.poll(1.0)
    assert isinstance(first[0], Receipt)
    assert steps_of(first) == [1, 2, 3]
    world.write(
        1, {"kind": "event", "event": "checkpoint_committed", "step": 3}, {"kind": "end", "step": 3, "reason": "finished"}
    )
    assert stream.poll(2.0) == [TrainerNote(1, "checkpoint_committed", 3, 0.0, {}), EndReading(1, 3, "finished")]
    assert stream.poll(3.0) == []


def test_a_note_without_a_step_belongs_to_the_last_step(world, stream) -> None:
    world.steps(1, 1, 7)
    world.write(1, {"kind": "event", "event": "override_applied", "step": None})
    assert stream.poll(1.0)[-1] == TrainerNote(1, "override_applied", 7, 0.0, {})


def test_a_torn_last_line_waits_for_its_newline(world, stream) -> None:
    world.write(1, b'{"step":1,"lo')
    assert stream.poll(1.0) == []
    world.write(1, b'ss":2.0}')
    assert stream.poll(2.0) == []
    world.write(1, b"\n")
    assert steps_of(stream.poll(3.0)) == [1]
    assert stream.damaged == 0


def test_a_torn_line_followed_by_more_is_counted_and_said_once(world, stream) -> None:
    world.write(1, b'{"step":1,"lo\n')
    world.steps(1, 2, 3)
    readings = stream.poll(1.0)
    assert steps_of(readings) == [2, 3]
    (word,) = words_of(readings)
    assert word.ok
    assert "1 damaged line(s)" in word.reason
    assert str(stream.path) in word.reason
    world.steps(1, 4, 4)
    assert words_of(stream.poll(2.0)) == []


def test_damage_is_said_at_the_first_the_tenth_and_the_hundredth_line(world, stream) -> None:
    for number in range(1, 31):
        world.write(1, b"garbage\n", {"step": number})
    assert [word.reason.split(": ")[1].split()[0] for word in words_of(stream.poll(1.0))] == ["1", "10"]
    assert stream.damaged == 30


def test_blank_lines_are_no_damage(world, stream) -> None:
    world.write(1, b"\n  \n\r\n", {"step": 1})
    assert steps_of(stream.poll(1.0)) == [1]
    assert stream.damaged == 0


def test_many_damaged_lines_in_a_row_are_blindness_that_ends_with_a_good_line(world, stream) -> None:
    world.write(1, b"this is another program's log\n" * 500)
    assert [word.ok for word in words_of(stream.poll(1.0))] == [True, True, False]  # said at the 1st, the 10th, and blind
    assert words_of(stream.poll(2.0)) == []
    world.steps(1, 1, 2)
    readings = stream.poll(3.0)
    assert [word.ok for word in words_of(readings)] == [True]
    assert steps_of(readings) == [1, 2]


def test_a_replaced_file_is_read_to_its_end_before_its_successor(world, stream) -> None:
    world.steps(1, 1, 2)
    assert steps_of(stream.poll(1.0)) == [1, 2]
    world.steps(1, 3, 3)
    world.stream(1).rename(world.attempt(1) / "metrics.jsonl.1")
    world.steps(1, 4, 5)
    readings = stream.poll(2.0)
    assert steps_of(readings) == [3, 4, 5]
    assert words_of(readings) == []


def test_a_truncated_file_is_read_again_from_its_start(world, stream) -> None:
    world.steps(1, 1, 5)
    stream.poll(1.0)
    world.stream(1).write_bytes(b'{"step":6}\n')
    readings = stream.poll(2.0)
    assert steps_of(readings) == [6]
    assert [(word.ok, "cut to 11 bytes" in word.reason) for word in words_of(readings)] == [(True, True)]


def test_a_file_rewritten_longer_in_place_is_read_again_from_its_start(world, stream) -> None:
    world.steps(1, 1, 2)
    stream.poll(1.0)
    world.stream(1).write_bytes(b"".join(b'{"step":%d,"loss":1.5}\n' % step for step in range(10, 100)))
    readings = stream.poll(2.0)
    assert steps_of(readings) == list(range(10, 100))
    assert ["rewritten in place" in word.reason for word in words_of(readings)] == [True]


def test_a_file_that_vanished_is_blindness_after_a_grace_and_its_return_ends_it(world, stream) -> None:
    world.steps(1, 1, 2)
    stream.poll(1.0)
    world.stream(1).unlink()
    assert stream.poll(2.0) == []
    assert stream.poll(3.9) == []
    assert [word.ok for word in words_of(stream.poll(4.0))] == [False]
    assert stream.poll(5.0) == []
    world.steps(1, 3, 3)
    readings = stream.poll(6.0)
    assert steps_of(readings) == [3]
    assert [word.ok for word in words_of(readings)] == [True]


def test_a_directory_in_the_place_of_the_file_is_blindness_said_once(world, stream) -> None:
    world.stream(1).mkdir()
    assert [word.ok for word in words_of(stream.poll(1.0))] == [False]
    assert stream.poll(2.0) == []
    world.stream(1).rmdir()
    assert [word.ok for word in words_of(stream.poll(3.0))] == [True]


def test_a_pipe_in_the_place_of_the_file_blocks_nobody(world, stream) -> None:
    os.mkfifo(world.attempt(1) / "metrics.jsonl")
    (word,) = words_of(stream.poll(1.0))
    assert (word.ok, "not a regular file" in word.reason) == (False, True)


def test_a_file_without_read_permission_is_blindness(world, stream, monkeypatch) -> None:
    world.steps(1, 1, 2)

    def refuse(path: object, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(tailed_file.os, "open", refuse)
        assert [(word.ok, "Permission denied" in word.reason) for word in words_of(stream.poll(1.0))] == [(False, True)]
    assert steps_of(stream.poll(2.0)) == [1, 2]


def test_a_failed_read_closes_the_file_and_goes_on_where_it_was(world, stream, monkeypatch) -> None:
    world.steps(1, 1, 2)
    stream.poll(1.0)
    world.steps(1, 3, 4)

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(tailed_file.os, "pread", fail)
        assert [(word.ok, word.reason) for word in words_of(stream.poll(2.0))] == [(False, f"{stream.path}: Input/output error")]
    readings = stream.poll(3.0)
    assert steps_of(readings) == [3, 4]
    assert [word.ok for word in words_of(readings)] == [True]


def test_a_poll_is_bounded_and_says_that_there_is_more(world, stream, monkeypatch) -> None:
    monkeypatch.setattr(metrics_jsonl, "LINES_PER_POLL", 10)
    world.steps(1, 1, 25)
    batches = []
    for _ in range(3):
        batches.append(steps_of(stream.poll(1.0)))
        more = stream.has_more
    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert [step for batch in batches for step in batch] == list(range(1, 26))
    assert not more


def test_a_poll_reads_a_bounded_number_of_bytes(world, stream, monkeypatch) -> None:
    monkeypatch.setattr(tailed_file, "BLOCK_BYTES", 64)
    world.steps(1, 1, 40)
    steps: list[int] = []
    polls = 0
    while polls == 0 or stream.has_more:
        steps += steps_of(stream.poll(1.0))
        polls += 1
        assert polls < 100
    assert steps == list(range(1, 41))
    assert polls > 1


def test_a_line_longer_than_any_line_may_be_is_left_out(world, stream, monkeypatch) -> None:
    monkeypatch.setattr(tailed_file, "BLOCK_BYTES", 256)
    world.write(1, {"step": 1}, b'{"step":2}' + b" " * 2000 + b"\n", {"step": 3})
    readings = stream.poll(1.0)
    while stream.has_more:
        readings += stream.poll(1.0)
    assert steps_of(readings) == [1, 3]
    assert stream.damaged == 1


def test_a_hole_of_a_terabyte_is_passed_in_one_step_and_what_stands_behind_it_is_read(world, stream) -> None:
    """truncate -s +1T under a living trainer: the next rows lie behind it, and at a block a turn an exit waited for a day."""
    world.write(1, {"step": 1})
    with world.stream(1).open("ab") as file:
        file.truncate(file.tell() + (1 << 40))
    readings = [*stream.poll(1.0), *stream.poll(1.0), *stream.poll(1.0)]
    assert not stream.has_more
    world.write(1, {"step": 2}, {"step": 3}, {"step": 4})  # the first stands on the line of the hole
    for _ in range(4):
        readings += stream.poll(2.0)
    assert steps_of(readings) == [1, 3, 4]
    assert not stream.has_more


def test_at_the_end_a_whole_line_without_a_newline_counts_and_a_torn_one_is_damage(world, stream) -> None:
    world.write(1, {"step": 1}, b'{"step":2}')
    assert steps_of(stream.poll(1.0)) == [1]
    assert steps_of(stream.finish()) == [2]
    world.write(1, b'\n{"step":3,"lo')
    assert stream.poll(2.0) == []
    assert [word.ok for word in words_of(stream.finish())] == [True]
    assert stream.damaged == 1


def test_looking_again_loses_and_doubles_nothing(world, stream) -> None:
    world.steps(1, 1, 3)
    stream.poll(1.0)
    stream.look_again()
    world.steps(1, 4, 5)
    assert steps_of(stream.poll(2.0)) == [4, 5]


@pytest.mark.parametrize(
    ("listed", "known"),
    [
        ({}, None),
        ({"capabilities": "skip"}, None),
        ({"capabilities": []}, ()),
        ({"capabilities": ["live_overrides", "telepathy", 7, ["skip"], "skip"]}, ("skip", "live_overrides")),
    ],
)
def test_what_a_receipt_lists_that_it_can_do_is_read_as_far_as_it_is_known(world, stream, listed, known) -> None:
    world.write(1, {"kind": "start", "attempt": 1, **listed})
    assert stream.poll(1.0)[0].capabilities == known
