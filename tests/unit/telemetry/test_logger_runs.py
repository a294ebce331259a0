"""Runs that Weights & Biases and MLflow keep on disk, byte by byte as their libraries write them, growing and damaged."""

from __future__ import annotations

import json
import math
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.model.readings import StepReading
from sentinel.telemetry.log_formats import UnreadableLog, open_log
from sentinel.telemetry.log_reader import LogReader, read_to_end
from sentinel.telemetry.wandb_log import BLOCK_BYTES, HEAD_BYTES
from tests.unit.telemetry.event_kit import part

HEAD = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
ROWS = [{"_step": step, "train/loss": 2.0 + 1 / step, "_timestamp": 1.7e9 + step, "_runtime": step} for step in range(1, 1200)]


def history(row: dict[str, object]) -> bytes:
    """A row; a name with dots is nested."""
    items = (
        b"".join(part(2, level.encode()) for level in name.split(".")) + b"\x82\x01" + length(json.dumps(value).encode())
        for name, value in row.items()
    )
    return part(2, b"".join(part(1, item) for item in items))


def length(data: bytes) -> bytes:
    return part(0, data)[1:]


def wandb_file(*messages: bytes) -> bytes:
    out = bytearray(HEAD)
    for message in messages:
        rest, is_first = message, True
        while is_first or rest:
            left = BLOCK_BYTES - len(out) % BLOCK_BYTES
            if left < 7:
                out += bytes(left)
                continue
            data, rest = rest[: left - 7], rest[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[is_first, not rest]
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + data), len(data), kind) + data
            is_first = False
    return bytes(out)


def read(path: Path, format: str = "auto") -> tuple[LogReader, list[StepReading]]:
    _, reader = open_log(path, format)
    return reader, list(read_to_end(reader))


def test_a_wandb_run_is_read_through_its_blocks_and_past_what_is_no_row(tmp_path: Path) -> None:
    file = tmp_path / "run-ab12.wandb"
    table = part(2, part(1, part(2, b"table") + b"\x82\x01" + length(b'"' + b"x" * 70_000 + b'"')))
    rows = list(map(history, ROWS))
    file.write_bytes(wandb_file(part(17, b"run"), *rows[:600], part(3, b"summary"), table, *rows[600:]))
    assert open_log(file)[0] == "wandb"
    reader, found = read(file)
    assert (reader.damaged, [row.step for row in found]) == (0, [row["_step"] for row in ROWS])
    assert found[0].metrics == {"loss": 3.0}
    assert found[0].time_s == 1.7e9 + 1
    assert read(tmp_path)[1] == found, "the folder of the run"


def test_the_step_is_the_trainers_own_where_it_logs_one_and_rows_of_it_are_one(tmp_path: Path) -> None:
    logged = [
        {"_step": 0, "train/global_step": 50, "train/loss": 2.5, "text": "x", "flag": True},
        {"_step": 1, "train/global_step": 50, "eval/loss": 2.7},
        {"_step": 2, "train/global_step": 100, "train/loss": "NaN", "train.grad_norm": 0.5},
    ]
    (tmp_path / "run.wandb").write_bytes(wandb_file(*map(history, logged)))
    _, rows = read(tmp_path / "run.wandb")
    assert [(row.step, row.metrics) for row in rows[:1]] == [(50, {"loss": 2.5, "val_loss": 2.7})]
    assert (rows[1].step, rows[1].metrics["grad_norm"], math.isnan(rows[1].metrics["loss"])) == (100, 0.5, True)


def test_a_wandb_file_that_grows_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    whole, file = wandb_file(*map(history, ROWS)), tmp_path / "run-ab12.wandb"
    found: list[StepReading] = []
    file.write_bytes(whole[:HEAD_BYTES])
    _, reader = open_log(file)
    for end in range(HEAD_BYTES, len(whole) + 4999, 4999):
        file.write_bytes(whole[:end])
        found += reader.poll(0.0)
        while reader.has_more:
            found += reader.poll(0.0)
    assert [row.step for row in found] == [row["_step"] for row in ROWS[:-1]], "the newest may still get a value"
    assert [row.step for row in reader.finish()] == [1199]
    assert reader.damaged == 0


@given(st.data())
def test_damage_costs_its_block_and_is_said(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = bytearray(wandb_file(*map(history, ROWS)))
    at = data.draw(st.integers(HEAD_BYTES, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    file = tmp_path_factory.mktemp("wandb") / "run-x.wandb"
    file.write_bytes(whole)
    reader, rows = read(file)
    lost = {row["_step"] for row in ROWS} - {row.step for row in rows}
    assert len(rows) > len(ROWS) / 2
    assert reader.damaged == 1 or (at % BLOCK_BYTES > BLOCK_BYTES - 7 and not lost)
    assert "checksum" in reader.first_damage or "not whole" in reader.first_damage or not lost
    whole_rows = {row["_step"]: row["train/loss"] for row in ROWS}
    assert all(row.metrics["loss"] == whole_rows[row.step] for row in rows), "nothing is read out of damage"


@given(st.binary(max_size=3000))
def test_any_bytes_behind_the_head_are_no_crash(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    file = tmp_path_factory.mktemp("wandb") / "run-x.wandb"
    file.write_bytes(HEAD + noise)
    assert read(file)[1] == []


def mlflow_run(place: Path, **metrics: list[tuple[int, float]]) -> Path:
    run = place / "mlruns" / "0" / "2cd4436fb77a49b8"
    for name, values in metrics.items():
        file = run / "metrics" / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as lines:
            lines.writelines(f"{1_700_000_000_000 + step} {value} {step}\n" for step, value in values)
    (run / "meta.yaml").write_text("run_id: 2cd4436fb77a49b8\n")
    return run


def test_the_metrics_of_an_mlflow_run_become_rows_by_step(tmp_path: Path) -> None:
    run = mlflow_run(
        tmp_path, train__loss=[(step, 1 + 1 / step) for step in range(1, 9001)], eval_loss=[(500, 2.0), (501, math.nan)]
    )
    assert open_log(run)[0] == "mlflow"
    reader, rows = read(run)
    assert (reader.damaged, [row.step for row in rows]) == (0, list(range(1, 9001)))
    assert rows[499].metrics == {"loss": 1 + 1 / 500, "val_loss": 2.0}
    assert math.isnan(rows[500].metrics["val_loss"])
    assert rows[0].time_s == 1_700_000_000.001


def test_an_mlflow_run_that_grows_joins_what_its_files_say_of_one_step(tmp_path: Path) -> None:
    run = mlflow_run(tmp_path, loss=[(1, 3.0), (2, 2.0)], lr=[(1, 0.1)])
    _, reader = open_log(run)
    assert [row.metrics for row in reader.poll(0.0)] == [{"loss": 3.0, "lr": 0.1}]
    mlflow_run(tmp_path, lr=[(2, 0.2)], grad_norm=[(2, 0.5), (3, 0.6)])
    assert [row.metrics for row in reader.poll(0.0)] == [{"loss": 2.0, "lr": 0.2, "grad_norm": 0.5}]
    with (run / "metrics" / "loss").open("a") as file:
        file.write("no number at all\n1700000000003 1.5 3\n17000")
    assert reader.poll(0.0) == []
    assert [row.metrics for row in reader.finish()] == [{"grad_norm": 0.6, "loss": 1.5}]
    assert (reader.damaged, reader.first_damage) == (1, "metrics/loss: b'no number at all' is no time, value and step")


def test_what_is_no_run_is_refused_with_what_to_name(tmp_path: Path) -> None:
    run = mlflow_run(tmp_path, loss=[(1, 3.0)])
    with pytest.raises(UnreadableLog, match="name the folder of one run of MLflow, mlruns/EXPERIMENT/RUN"):
        open_log(run / "metrics" / "loss", "mlflow")
    with pytest.raises(UnreadableLog, match="a directory; only logs of TensorBoard, Weights & Biases and MLflow"):
        open_log(run, "csv")
