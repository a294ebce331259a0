import json
import math

import pytest

from sentinel.model.attempts import SampleRange
from sentinel.model.readings import RANKS_END, EndReading, Receipt, StepReading, TrainerNote
from sentinel.run_files.stream_lines import parse_line


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_step_line_becomes_a_reading_with_its_samples_and_its_numbers() -> None:
    text = line(
        kind="step", step=1001, time_s=12.5, samples=[[10, 20], [30, 35]], loss=2.41, overflow=0, **{"grad_norm/h.0": 1.5}
    )
    metrics = {"loss": 2.41, "overflow": 0.0, "grad_norm/h.0": 1.5}
    assert parse_line(text, 3) == StepReading(3, 1001, 12.5, (SampleRange(10, 20), SampleRange(30, 35)), metrics)


@pytest.mark.parametrize("text", [b'{"step":1,"loss":"NaN"}', b'{"step":1,"loss":NaN}'])
def test_a_nan_is_read_as_the_string_and_as_the_bare_token(text: bytes) -> None:
    reading = parse_line(text, 1)
    assert isinstance(reading, StepReading)
    assert math.isnan(reading.metrics["loss"])


@pytest.mark.parametrize("text", [b'{"step":1,"loss":"-Infinity"}', b'{"step":1,"loss":-Infinity}', b'{"step":1,"loss":-1e999}'])
def test_an_infinity_is_read_as_the_string_and_as_the_bare_token(text: bytes) -> None:
    reading = parse_line(text, 1)
    assert isinstance(reading, StepReading)
    assert reading.metrics["loss"] == -math.inf


def test_metrics_that_are_no_numbers_are_left_out() -> None:
    text = line(step=1, loss=2.0, good=True, nothing=None, words="hello", many=[1, 2], deep={"a": 1})
    reading = parse_line(text, 1)
    assert isinstance(reading, StepReading)
    assert reading.metrics == {"loss": 2.0}


def test_an_integer_too_large_for_a_float_is_infinite() -> None:
    reading = parse_line(b'{"step":1,"loss":1' + b"0" * 400 + b"}", 1)
    assert isinstance(reading, StepReading)
    assert reading.metrics["loss"] == math.inf


def test_impossible_sample_ranges_are_left_out() -> None:
    reading = parse_line(line(step=1, samples=[[5, 5], [9, 3], [-1, 4], [1], "x", [True, 7], [2, 4]]), 1)
    assert isinstance(reading, StepReading)
    assert reading.samples == (SampleRange(2, 4),)


@pytest.mark.parametrize("time_s", ["NaN", None, "yesterday", math.inf, True])
def test_a_time_that_is_no_time_is_zero(time_s: object) -> None:
    reading = parse_line(line(step=1, time_s=time_s), 1)
    assert isinstance(reading, StepReading)
    assert reading.time_s == 0.0


def test_a_whole_float_is_a_step() -> None:
    assert isinstance(parse_line(b'{"step":7.0}', 1), StepReading)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"nonsense", b'{"step":1', b'{"loss":1.0}', b'{"step":-1}', b'{"step":1.5}', b'{"step":true}', b'{"step":null}',
        b"[1,2]", b"3", b'{"step":1}{"step":2}', b"\x00\x00\x00", b"\xff\xfe", b"[" * 100_000, b'{"step":1' + b"0" * 5000 + b"}",
        b'{"step":' + b"9" * 30 + b"}",
    ],
)  # fmt: skip
def test_a_damaged_line_is_a_value_error_and_nothing_else(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_line(text, 1)


def test_an_unknown_kind_is_no_reading_and_no_error() -> None:
    assert parse_line(b'{"kind":"weather","sun":true}', 1) is None


def test_a_receipt_keeps_what_is_in_force() -> None:
    text = line(
        kind="start",
        time_s=1.0,
        resume_step=1000,
        resume_digest="ab",
        world_size=8,
        overrides={"id": "ov-1"},
        effective={"lr": 1},
    )
    assert parse_line(text, 2) == Receipt(2, 1.0, 1000, "ab", 8, {"id": "ov-1"}, {"lr": 1})


def test_a_receipt_of_nonsense_still_says_that_the_trainer_came_up() -> None:
    text = line(kind="start", resume_step=None, world_size="two", overrides=[], effective=7, resume_digest=5)
    assert parse_line(text, 2) == Receipt(2, 0.0, 0, None, 1, {}, {}, is_size_known=False)


def test_how_many_ranks_there_can_be_is_known_from_the_trainer_alone() -> None:
    own, followed = (parse_line(line(kind="start", world_size=2, **more), 1) for more in ({}, {"trainer": "nanogpt"}))
    assert isinstance(own, Receipt)
    assert isinstance(followed, Receipt)
    assert own.rank_end == 2
    assert followed.rank_end == RANKS_END


def test_an_event_keeps_its_own_fields() -> None:
    note = parse_line(line(kind="event", event="checkpoint_committed", step=5, time_s=2.0, path="x", seconds=3.1), 1)
    assert note == TrainerNote(1, "checkpoint_committed", 5, 2.0, {"path": "x", "seconds": 3.1})


def test_an_end_line_gives_its_reason() -> None:
    assert parse_line(line(kind="end", step=20, reason="finished"), 1) == EndReading(1, 20, "finished")


def test_bytes_that_are_no_utf8_inside_a_text_do_not_lose_the_line() -> None:
    reading = parse_line(b'{"step":3,"loss":1.0,"host":"\xff"}', 1)
    assert isinstance(reading, StepReading)
    assert reading.metrics == {"loss": 1.0}
