"""Rows of a trainer that knows nothing of the stream become its stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.stream import Stream
from sentinel.model.readings import StepReading
from sentinel.telemetry.progress_lines import ProgressLines
from sentinel.trainers.loading import load_profile
from sentinel.trainers.renewed import Renewed
from sentinel.trainers.sources import count_rows, open_sources, write_counts
from sentinel.trainers.spec import TrainerSpec
from sentinel.trainers.stream_writer import Writer


def written(
    tmp_path: Path, profile: str, steps: list[list[int]], resume: int | None = None, **asserted: Any
) -> list[dict[str, Any]]:
    path = tmp_path / "metrics.jsonl"
    spec = TrainerSpec(load_profile(profile), ("t",), {}, "/", None, asserted, resume, resume is None)
    writer = Writer(Stream(path, 1), spec)
    for batch in steps:
        writer.take([StepReading(1, step, 0.0, (), {"loss": 2.0, "time_s": 5.0}) for step in batch], 1.0)
    writer.begin()
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("steps", "asked", "resumed"),
    [
        ([[1, 2, 3]], None, 0),
        ([[10], [20]], None, 0),
        ([[5001, 5002]], None, 5000),  # it went on by itself
        ([[61], [62]], 60, 60),
        ([[70], [80]], 65, 65),  # logged every ten steps, saved between two of them
        ([[1, 2]], 60, 0),  # it did not go on from what it was to
        ([[90], [91]], 60, 89),
        ([[61]], 60, 60),  # it ended behind its first row
    ],
)
def test_where_it_began_is_read_off_its_first_rows(
    tmp_path: Path, steps: list[list[int]], asked: int | None, resumed: int
) -> None:
    receipt, *rows = written(tmp_path, "megatron:root=/x", steps, asked)
    assert (receipt["kind"], receipt["resume_step"], receipt["effective"]) == ("start", resumed, {})
    assert [row["step"] for row in rows] == [step for batch in steps for step in batch]


@pytest.mark.parametrize(
    ("steps", "reached"),
    [
        ([*range(1, 101), *range(1, 61)], 160),  # the second epoch
        ([*range(1, 101), *range(1, 101), *range(1, 61)], 260),  # the third
        ([*range(10, 101, 10), *range(10, 51, 10)], 150),  # printed every ten steps: five rows at least
        ([*range(1, 101), *range(1, 11)], 100),  # an evaluation of ten steps, or a few steps trained again
        ([*range(1, 101), *range(1, 61), 101], 101),
        ([step for step in range(1, 101) for _ in range(8)], 100),  # eight ranks print each step
        ([1, 2, *[1] * 7, *[2] * 7], 2),  # seven of them a step behind
    ],
)
def test_step_numbers_that_begin_anew_are_told_once_and_the_trainer_is_not_taken_to_hang(steps: list[int], reached: int) -> None:
    numbering = Renewed()
    for step in steps:
        numbering.take(step)
    assert numbering.reached == reached
    assert numbering.is_renewed is (reached not in (2, 100, 101))


def test_a_loop_that_counts_within_each_epoch_says_that_it_is_not_judged(tmp_path: Path) -> None:
    epochs = [[*range(1, 51)], [*range(1, 51)], [*range(1, 51)]]
    rows = written(tmp_path, "exit-only", epochs)
    remarks = [row["reason"] for row in rows if row.get("event") == "remark"]
    assert len(remarks) == 1
    assert remarks[0].startswith("its step numbers begin anew: step 1 came behind step 50.")


def test_without_a_row_there_is_no_receipt(tmp_path: Path) -> None:
    assert written(tmp_path, "exit-only", [[]]) == []


def test_a_trainer_that_counts_from_zero_is_counted_from_one(tmp_path: Path) -> None:
    receipt, *rows = written(tmp_path, "nanogpt:root=/x", [[0, 1], [2]])
    assert (receipt["resume_step"], [row["step"] for row in rows]) == (0, [1, 2, 3])


def test_a_batch_is_known_by_its_step(tmp_path: Path) -> None:
    receipt, *rows = written(tmp_path, "megatron:root=/x", [[1, 2, 3], [7]], skip=[[3, 6]])
    assert [row["samples"] for row in rows] == [[[0, 1]], [[1, 2]], [[2, 3]], [[6, 7]]]
    assert not receipt["samples_from_steps"], "rows that are missing show what was left out"


@pytest.mark.parametrize(
    ("steps", "reckoned"),
    [
        ([[91, 92]], False),
        ([[61], [92], [93]], False),  # the first two rows are a skip apart
        ([[70], [100], [110]], True),
    ],
)
def test_what_is_left_out_right_behind_the_resume_point_does_not_move_it(
    tmp_path: Path, steps: list[list[int]], reckoned: bool
) -> None:
    first = steps[0][0]
    skip = [[60, 90]] if first == 91 else [[61, 91]] if first == 61 else [[72, 95]]
    receipt, *rows = written(tmp_path, "megatron:root=/x", steps, 60, skip=skip)
    assert (receipt["resume_step"], receipt["samples_from_steps"]) == (60, reckoned)
    assert [row["step"] for row in rows] == [step for batch in steps for step in batch]


def test_one_that_goes_on_elsewhere_than_it_was_to_is_seen_beside_a_skip_too(tmp_path: Path) -> None:
    receipt, *_ = written(tmp_path, "megatron:root=/x", [[91, 92]], 60, skip=[[70, 90]])
    assert receipt["resume_step"] == 90


def test_of_every_tenth_step_the_rows_show_nothing_of_what_was_left_out(tmp_path: Path) -> None:
    receipt, *rows = written(tmp_path, "megatron:root=/x", [[10], [20]], skip=[[12, 15]])
    assert receipt["samples_from_steps"]
    assert rows[1]["samples"] == [[10, 12], [15, 20]]


def test_where_a_skip_costs_no_step_the_batches_behind_it_come_earlier(tmp_path: Path) -> None:
    receipt, *rows = written(tmp_path, "megatron-deepspeed:root=/x", [[9, 10], [11, 12]], 8, skip=[[2, 4], [10, 13]])
    assert receipt["samples_from_steps"]
    assert [row["samples"] for row in rows] == [[[8, 9]], [[9, 10]], [[13, 14]], [[14, 15]]]


def test_rows_without_a_clock_of_their_own_are_spread_over_the_time_between_two_looks(tmp_path: Path) -> None:
    _, *rows = written(tmp_path, "megatron:root=/x", [[1, 2], [3, 4, 5]])
    times = [row["time_s"] for row in rows]
    assert times == sorted(times)
    assert times[0] > 1e9, "and a metric of that name does not take its place"


def times(tmp_path: Path, batches: list[tuple[float, list[int]]]) -> list[float]:
    """Of the rows, from batches with the second in which each was seen; the follower began at 0."""
    path, now_s = tmp_path / "metrics.jsonl", 0.0
    spec = TrainerSpec(load_profile("megatron:root=/x"), ("t",), {}, "/", None, {}, None, True)
    writer = Writer(Stream(path, 1), spec, lambda: now_s)
    for now_s, steps in batches:
        writer.take([StepReading(1, step, 0.0, (), {"loss": 2.0}) for step in steps], now_s)
    return [line["time_s"] for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "step"]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([(60.0, [1]), (60.5, [2]), (61.0, [3])], [60.0, 60.5, 61.0]),  # the minute before the first is no step
        ([(60.0, [1, 2]), (61.0, [3, 4])], [59.5, 60.0, 60.5, 61.0]),
        ([(0.5, [1, 2]), (61.0, [3, 4])], [0.25, 0.5, 30.75, 61.0]),  # never before the follower began
        ([(60.0, [1, 2]), (61.9, []), (62.0, [])], [30.0, 60.0]),  # nobody knows, and more does not come
    ],
)
def test_what_came_before_the_first_rows_is_no_time_of_theirs(
    tmp_path: Path, batches: list[tuple[float, list[int]]], expected: list[float]
) -> None:
    assert times(tmp_path, batches) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("profile", "command", "steps", "early"),
    [
        ("megatron:root=/x", "t --train-iters 500", 500, False),
        ("megatron:root=/x", "t --train-iters=500 --exit-duration-in-mins 230", 500, True),
        ("megatron:root=/x,steps=600", "bash t.sh", 600, False),
        ("megatron:root=/x", "t --train-samples 5e6", None, False),
        ("hf-trainer:root=/x", "t --max_steps 1e3", 1000, True),
        ("hf-trainer:root=/x", "t --max_steps -1", None, True),
        ("hf-trainer:root=/x", "t --max_steps", None, True),
        ("lightning:root=/x,steps_flag=--steps", "t --steps 40", 40, True),
        ("exit-only", "t --steps 40", None, True),
    ],
)
def test_the_last_step_is_what_the_command_names(
    tmp_path: Path, profile: str, command: str, steps: int | None, early: bool
) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = Writer(Stream(path, 1), TrainerSpec(load_profile(profile), tuple(command.split()), {}, "/", None, {}, None, True))
    writer.take([StepReading(1, step, 0.0, (), {"loss": 2.0}) for step in (1, 2)], 1.0)
    writer.begin()
    receipt = json.loads(path.read_text().splitlines()[0])
    assert (receipt["steps"], receipt["may_end_early"]) == (steps, early)


def test_files_that_come_later_are_read_and_those_before_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "version_0").mkdir()
    (tmp_path / "version_0" / "metrics.csv").write_text("step,train_loss\n1,2.0\n2,2.0\n")
    profile = load_profile(f"lightning:root={tmp_path}")
    spec = TrainerSpec(profile, ("t",), {}, "/", tmp_path, {}, None, True)
    counts = count_rows(spec)
    (tmp_path / "version_0" / "metrics.csv").write_text("step,train_loss\n1,2.0\n2,2.0\n3,2.0\n")
    (tmp_path / "attempts" / "0001").mkdir(parents=True)
    write_counts(tmp_path, 1, counts)
    source, _ = open_sources(tmp_path, 1, spec)
    assert [row.step for row in source.poll()] == [3], "which the trainer wrote before anybody looked"
    (tmp_path / "version_1").mkdir()
    (tmp_path / "version_1" / "metrics.csv").write_text("step,train_loss\n3,1.5\n4,1.25\n")
    assert [(row.step, row.metrics["loss"]) for row in source.finish()] == [(3, 1.5), (4, 1.25)]


LINES = {"metrics.csv": "{},{}\n", "metrics.jsonl": '{{"step": {}, "train/loss": {}}}\n'}


def rows_of(name: str, *steps: int) -> str:
    head = "step,train/loss\n" if name.endswith(".csv") else ""
    return head + "".join(LINES[name].format(step, 2.0 + step / 64) for step in steps)


@pytest.mark.parametrize("name", sorted(LINES))
@pytest.mark.parametrize("is_seen_empty", [True, False])
def test_a_file_that_a_launch_begins_anew_is_read_from_its_beginning(tmp_path: Path, name: str, is_seen_empty: bool) -> None:
    """Passed over is only what still stands there: of a file that was cut off or replaced, nothing."""
    spec = TrainerSpec(load_profile(f"hf-trainer:root=out,metrics={name}"), ("t",), {}, str(tmp_path), None, {}, 4, False)
    (tmp_path / name).write_text(rows_of(name, *range(1, 7)))
    (tmp_path / "attempts" / "0002").mkdir(parents=True)
    write_counts(tmp_path, 2, count_rows(spec))
    (source,) = open_sources(tmp_path, 2, spec)
    assert source.poll() == [], "what stood there"
    if is_seen_empty:
        (tmp_path / name).write_text("")
        assert source.poll() == []
    (tmp_path / name).write_text(rows_of(name, 5, 6, 7))
    assert [row.step for row in source.poll()] == [5, 6, 7]
    (again,) = open_sources(tmp_path, 2, spec)
    assert [(row.step, row.metrics["loss"]) for row in again.finish()] == [(step, 2.0 + step / 64) for step in (5, 6, 7)]


def test_the_step_of_a_printed_dictionary_stands_in_the_bar_behind_it() -> None:
    parse = ProgressLines()
    lines = [
        b"  0%|          | 0/300 [00:00<?, ?it/s]",
        b"                     ",
        b"{'loss': '2.345', 'grad_norm': 'nan', 'learning_rate': '4.9e-05', 'epoch': '0.1'}",
        b"  1%|          | 3/300 [00:00<00:05, 50.0it/s]",
        b" 50%|#####     | 5/10 [00:00<00:05, 50.0it/s]",
        b"{'loss': 2.25, 'eval_loss': 2.5}",
        b"{'train_runtime': '4.006', 'train_loss': '1.085'}",
        b" 10%|#         | 1/10 [00:00<00:05, 50.0it/s]",
        b"  2%|          | 6/300 [00:00<00:05, 50.0it/s]",
        b"  2%|          | 7/300 [00:00<00:05, 50.0it/s]",
        b"{'broken': ",
        b"{" * 20_000,
    ]
    rows = [row for row in map(parse, lines) if row is not None]
    assert [row.step for row in rows] == [3, 6]
    assert rows[0].metrics["loss"] == 2.345
    assert rows[0].metrics["grad_norm"] != rows[0].metrics["grad_norm"], "NaN"
    assert (rows[1].metrics["loss"], rows[1].metrics["val_loss"]) == (2.25, 2.5)


def test_a_follower_that_is_started_again_goes_on_where_the_one_before_ended(tmp_path: Path) -> None:
    path = tmp_path / "attempts" / "0001" / "metrics.jsonl"
    spec = TrainerSpec(load_profile("megatron:root=/x"), ("t",), {}, "/", None, {}, 60, False)
    rows = [StepReading(1, step, 0.0, (), {"loss": 2.0}) for step in range(61, 68)]
    for seen in (rows[:4], rows[:4], rows):
        writer = Writer(Stream(path, 1), spec)
        writer.recall(tmp_path, 1)
        writer.take(list(seen), 1.0)
        writer.begin()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["start"] + ["step"] * 7
    assert [line["step"] for line in lines[1:]] == list(range(61, 68))
    assert lines[-1]["samples"] == [[66, 67]]


@pytest.mark.parametrize(
    ("profile", "resume", "adopted"),
    [("exit-only", None, True), ("megatron:root=/x", None, True), ("megatron:root=/x", 60, False)],
)
def test_who_finds_its_checkpoints_by_itself_says_so(tmp_path: Path, profile: str, resume: int | None, adopted: bool) -> None:
    receipt, *_ = written(tmp_path, profile, [[121], [122]], resume)
    assert receipt["adopted"] is adopted
