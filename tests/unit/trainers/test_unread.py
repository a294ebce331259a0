"""A source from which no row comes is told of early: which field saw what, and which profile would read what is printed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from sentinel.client.run_layout import attempt_folder, stream_path
from sentinel.client.stream import Stream
from sentinel.model.readings import SourceReading
from sentinel.telemetry.follower_remarks import FollowerRemarks
from sentinel.telemetry.log_formats import HEAD_BYTES, PREAMBLE_BYTES, format_at_end
from sentinel.trainers import follow
from sentinel.trainers.adding import how_to_add_metric, how_to_add_rows
from sentinel.trainers.loading import load_profile
from sentinel.trainers.remarks import FollowerNotes
from sentinel.trainers.sources import RowSource, count_rows, metric_places
from sentinel.trainers.spec import TrainerSpec
from sentinel.trainers.unread import LONG_S, OTHER_S, Unread

MEGATRON = " iteration {:8d}/     100 | consumed samples: 160 | elapsed time per iteration (ms): 20.0 | learning rate: 1.0E-03 | lm loss: 2.0E+00 |\n"  # noqa: E501
TALK = b"loading shard 17 of the data set, and nothing else\n"


def unread(tmp_path: Path, trainer: str, attempt: int = 1) -> tuple[Unread, Path]:
    logs = attempt_folder(tmp_path, attempt) / "logs"
    logs.mkdir(parents=True)
    spec = TrainerSpec(load_profile(trainer), ("t",), {}, str(tmp_path), tmp_path / "ck", {}, None, True)
    return Unread(tmp_path, attempt, spec, 0.0), logs / "launcher.out"


def test_what_another_profile_reads_is_told_at_once_and_once(tmp_path: Path) -> None:
    found, printed = unread(tmp_path, "nanogpt:root=ck")
    printed.write_bytes(TALK)
    assert found.why(5.0) == ""
    printed.write_text(MEGATRON.format(1) + MEGATRON.format(2))
    said = found.why(10.0)
    assert said.startswith("no row in 10 s: spec.metrics (from: output, format: text) of the profile nanogpt saw 2")
    assert "and no line that it knows; what is printed reads as that of --trainer megatron" in said
    assert found.why(15.0) == ""


def test_eight_mebibytes_without_a_line_are_told(tmp_path: Path) -> None:
    found, printed = unread(tmp_path, "megatron:root=ck")
    printed.write_bytes(TALK * (PREAMBLE_BYTES // len(TALK) - 1))
    assert found.why(5.0) == "", "it may still talk before it trains"
    with printed.open("ab") as file:
        file.write(TALK * 2)
    said = found.why(10.0)
    assert "(from: output, format: megatron) of the profile megatron saw 8.4 MB of what it prints, and no line" in said
    assert "print a line such as 'step: 120 | loss: 2.3172" in said


@pytest.mark.parametrize("trainer", ["exit-only", "megatron:root=ck"])
def test_a_trainer_that_is_silent_for_long_is_told_of(tmp_path: Path, trainer: str) -> None:
    found, _ = unread(tmp_path, trainer)
    assert found.why(LONG_S - 1.0) == ""
    assert "saw 0 B of what it prints, and no line that it knows" in found.why(LONG_S + 10.0)


def test_a_trainer_that_ended_without_a_row_is_told_of_however_short_it_was(tmp_path: Path) -> None:
    found, printed = unread(tmp_path, "nanogpt:root=ck")
    assert "no row in 0 s" not in found.why(0.2)
    printed.write_text(MEGATRON.format(1) + MEGATRON.format(2))
    said = found.why_at_end()
    assert said.startswith("the trainer ended without a row: spec.metrics (from: output, format: text) of the profile nanogpt")
    assert "what is printed reads as that of --trainer megatron" in said


@pytest.mark.parametrize("has_read", [True, False])
def test_a_relaunch_without_a_row_is_no_fault_of_a_profile_that_has_read_rows(tmp_path: Path, has_read: bool) -> None:
    if has_read:
        Stream(stream_path(tmp_path, 2), 2).step(7, loss=2.0)
    found, _ = unread(tmp_path, "nanogpt:root=ck", attempt=4)
    assert bool(found.why_at_end()) is not has_read


def test_no_sentence_counts_no_seconds(tmp_path: Path) -> None:
    found, printed = unread(tmp_path, "nanogpt:root=ck")
    printed.write_text(MEGATRON.format(1) + MEGATRON.format(2))
    assert found.why(0.2).startswith("no row yet: spec.metrics")


@pytest.mark.parametrize("prints_rows", [True, False])
def test_the_supervisor_hears_of_it_at_the_end(tmp_path: Path, prints_rows: bool) -> None:
    """The follower begins when the trainer is gone already: what is left is what it says."""
    folder = tmp_path / "attempts" / "0001"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "launcher.out").write_text("step 1: loss 2.0\nstep 2: loss 1.9\n" if prints_rows else "")
    spec = TrainerSpec(load_profile("megatron:root=ck"), ("t",), {}, str(tmp_path), tmp_path / "ck", {}, None, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "read_trainer_spec", lambda *_: spec)
        patch.setattr(follow.os, "nice", lambda _: 0)
        follow.follow(tmp_path, 1, gone())
    said = [reading.reason for reading in FollowerRemarks(tmp_path, 1).poll()]
    (why,) = [sentence for sentence in said if "without a row" in sentence]
    assert ("--trainer nanogpt" in why) is prints_rows
    assert ("print a line such as" in why) is not prints_rows


def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        ("megatron:root=ck", "print it beside the loss: step: 120"),
        ("lightning", "log it under the name lr beside the loss, into {root}/**/metrics.csv or"),
        ("hf-trainer:root=ck,metrics=trainer_state", "stands in trainer_state.json"),
        ("nanogpt:root=ck,metrics=runs/", 'add_scalar("lr", value, step)'),
        ("nanogpt:root=ck,metrics=wandb", 'wandb.log({"lr": value}, step=step)'),
        ("nanogpt:root=ck,metrics=mlflow", 'mlflow.log_metric("lr", value, step=step)'),
        ("exit-only:metrics=none", "the profile reads no numbers"),
    ],
)
def test_what_is_missing_is_added_where_the_profile_reads(trainer: str, words: str) -> None:
    said = how_to_add_metric(load_profile(trainer).spec.metrics, "lr")
    assert words in said
    assert ("print" in said) is trainer.startswith("megatron"), "what is printed nobody reads there"


@pytest.mark.parametrize("metrics", ["output", "log.csv", "runs/", "wandb", "mlflow", "trainer_state"])
def test_the_loss_is_not_told_to_be_logged_beside_itself(metrics: str) -> None:
    reads = load_profile(f"nanogpt:root=ck,metrics={metrics}").spec.metrics
    assert "beside" not in how_to_add_metric(reads, "loss")
    assert "beside" not in how_to_add_rows(reads, "nanogpt")
    assert "beside the loss" in how_to_add_metric(reads, "lr") or metrics == "trainer_state"


def test_a_file_that_is_not_there_and_one_that_reads_as_nothing(tmp_path: Path) -> None:
    found, printed = unread(tmp_path, "nanogpt:root=ck,metrics=log.csv")
    printed.write_text("step 1: loss 2.0\nstep 2: loss 2.0\n")
    assert found.why(OTHER_S - 5.0) == "", "rows in a file may come later than what is printed"
    said = found.why(OTHER_S + 1.0)
    assert f"spec.metrics (from: file) of the profile nanogpt saw nothing at {tmp_path}/log.csv" in said
    assert said.endswith("what is printed has rows: --trainer nanogpt:metrics=output?")
    (tmp_path / "log.csv").write_bytes(TALK * 200_000)
    assert f"saw {tmp_path}/log.csv, 10.2 MB, and no row that it knows" in found.why(OTHER_S + 10.0)


@pytest.mark.parametrize("trainer", ["megatron:root=ck", "hf-trainer:root=ck,metrics=trainer_state", "exit-only:metrics=none"])
def test_a_profile_without_files_of_rows_names_no_place(tmp_path: Path, trainer: str) -> None:
    spec = TrainerSpec(load_profile(trainer), ("t",), {}, str(tmp_path), tmp_path / "ck", {}, None, True)
    assert (metric_places(spec), count_rows(spec)) == ([], {})


def test_a_profile_that_names_no_numbers_is_asked_for_none(tmp_path: Path) -> None:
    found, _ = unread(tmp_path, "exit-only:metrics=none")
    assert found.why(2 * LONG_S) == ""


def test_before_there_is_a_stream_a_remark_reaches_the_supervisor_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "attempts" / "0001").mkdir(parents=True)
    path = tmp_path / "attempts" / "0001" / "metrics.jsonl"
    remarks, stream, heard = FollowerNotes(tmp_path, 1), Stream(path, 1), FollowerRemarks(tmp_path, 1)
    assert heard.poll() == []
    for sentence in ("no row yet", "no row yet", "nor a checkpoint"):
        remarks.add(sentence)
        remarks.send(stream)
    assert heard.poll() == [SourceReading("trainer", True, said, remark=True) for said in ("no row yet", "nor a checkpoint")]
    assert heard.poll() == []
    assert not path.exists(), "a stream begins with its receipt"
    stream.event("receipt")
    remarks.send(stream)
    said = [json.loads(line).get("reason") for line in path.read_text().splitlines()]
    assert said == [None, "no row yet", "nor a checkpoint"]
    assert heard.poll() == []


def test_a_log_that_talks_for_long_before_its_first_line_is_read_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "launcher.out"
    log.write_bytes(TALK * ((HEAD_BYTES + PREAMBLE_BYTES) // len(TALK) + 1))
    assert format_at_end(log) is None
    source = RowSource(log, "auto")
    assert source.poll() == []
    with log.open("a") as file:
        file.write("step 1: loss 2.0\nstep 2: loss 1.9\n")
    assert format_at_end(log) == "text"
    assert [row.step for row in source.finish()] == [1, 2]
