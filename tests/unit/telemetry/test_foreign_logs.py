"""Logs of other trainers: JSON lines under other names, what trainers print, compressed files, tables other tools export."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.model.readings import StepReading
from sentinel.telemetry.csv_log import CsvLines
from sentinel.telemetry.json_log import JsonLines
from sentinel.telemetry.log_formats import EmptyLog, NoStepYet, UnreadableLog, open_log
from sentinel.telemetry.log_reader import LogReader, read_to_end
from sentinel.telemetry.printed_log import PrintedLines


def read(path: Path, content: str | bytes, format: str = "auto") -> tuple[str, list[StepReading], LogReader]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found, reader = open_log(path, format)
    return found, list(read_to_end(reader)), reader


NANOGPT = """number of parameters: 123.59M
step 0: train loss 10.9897, val loss 10.9898
iter 0: loss 10.9897, time 37014.88ms, mfu -100.00%
iter 10: loss 9.7219, time 210.15ms, mfu 3.12%
"""
LLMC = "s:0 tel:11.0089\ns:0 trl:11.0112 lr:4.29e-07 norm:15.35\ns:1 trl:10.9538 lr:8.57e-07 norm:15.10\ns:1 hel:0.2465\n"
MODDED = """step:0/1750 val_loss:10.8258 train_time:0ms step_avg:nanms
step:1/1750 train_loss:10.8258 train_time:180ms step_avg:180.1ms
step:2/1750 train_loss:nan train_time:280ms step_avg:140.1ms
"""
TORCHTITAN = (
    "[rank0]:[titan] 2025-01-01 00:00:01,123 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.2718  \x1b[33mmemory: 21.0GiB\n"
    "[rank0]:[titan] 2025-01-01 00:00:02,123 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  9.1  grad_norm: 1.2  lr: 3e-4\n"
)
METASEQ = "\n".join(
    f'2022-01-01 | INFO | train_inner | {{"loss": "{9 - n}.5", "num_updates": "{n}", "gnorm": "0.8", "lr": "1e-4"}}'
    for n in range(1, 4)
)
TRAINER = """  0%|          | 0/1000 [00:00<?, ?it/s]\r{'loss': 2.31, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.01}
{'loss': 2.2, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.02}
{'eval_loss': 2.25, 'eval_runtime': 1.5, 'epoch': 0.02}
{'train_runtime': 100.0, 'train_loss': 2.3, 'epoch': 0.02}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NANOGPT, [(0, {"loss": 10.9897, "val_loss": 10.9898}), (10, {"loss": 9.7219})]),
        (LLMC, [(0, {"loss": 11.0112, "val_loss": 11.0089, "grad_norm": 15.35}), (1, {"loss": 10.9538, "grad_norm": 15.1})]),
        (MODDED, [(0, {"val_loss": 10.8258}), (1, {"loss": 10.8258}), (2, {"loss": math.nan})]),
        (TORCHTITAN, [(1, {"loss": 12.2718}), (10, {"loss": 9.1, "grad_norm": 1.2, "lr": 3e-4})]),
        (METASEQ, [(n, {"loss": 9 - n + 0.5, "grad_norm": 0.8}) for n in range(1, 4)]),
        (TRAINER, [(1, {"loss": 2.31, "grad_norm": 0.5}), (2, {"loss": 2.2, "val_loss": 2.25, "grad_norm": math.nan})]),
    ],
    ids=["nanogpt", "llm.c", "modded", "torchtitan", "metaseq", "trainer"],
)
def test_what_trainers_print(tmp_path: Path, text: str, expected: list[tuple[int, dict[str, float]]]) -> None:
    found, rows, reader = read(tmp_path / "out.txt", text)
    assert (found, reader.damaged) == ("text", 0)
    assert [row.step for row in rows] == [step for step, _ in expected]
    for row, (_, metrics) in zip(rows, expected, strict=True):
        for name, value in metrics.items():
            assert row.metrics[name] == pytest.approx(value, nan_ok=True), (row.step, name)


def test_lines_without_a_step_are_counted_and_that_is_said(tmp_path: Path) -> None:
    assert "counted" in read(tmp_path / "out.txt", TRAINER)[2].remark
    assert read(tmp_path / "nano.txt", NANOGPT)[2].remark == ""


def test_prose_about_steps_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(NoStepYet, match="not recognised"):
        read(tmp_path / "notes.txt", "At step 900 the loss was 4, and then we went home.\nIt is a loss.\n" * 9)


def test_json_lines_under_other_names(tmp_path: Path) -> None:
    lines = '{"_step": 1, "train/loss": 2.5, "_timestamp": 1700000000.5, "eval/loss": 2.6}\n{"_step": 2.0, "train/loss": "NaN"}\n'
    found, rows, reader = read(tmp_path / "history.jsonl", lines)
    assert (found, reader.damaged, [row.step for row in rows]) == ("metrics", 0, [1, 2])
    assert (rows[0].time_s, rows[0].metrics) == (1700000000.5, {"loss": 2.5, "val_loss": 2.6})
    assert math.isnan(rows[1].metrics["loss"])
    factory = '{"current_steps": 10, "total_steps": 99, "loss": 2.3, "lr": 1e-05, "epoch": 0.1, "elapsed_time": "0:00:10"}\n'
    assert [(row.step, row.metrics["loss"]) for row in read(tmp_path / "trainer_log.jsonl", factory)[1]] == [(10, 2.3)]
    found, rows, _ = read(tmp_path / "b.jsonl", '{"iteration": "7", "lm loss": 2.5, "consumed_train_samples": 70}\n')
    assert (rows[0].step, rows[0].metrics) == (7, {"loss": 2.5, "consumed_samples": 70.0})


def test_our_own_start_line_tells_the_tokens() -> None:
    parse = JsonLines()
    assert parse(b'{"kind":"start","v":1,"resume_step":0,"tokens_per_step":1000}') is None
    reading = parse(b'{"step":7,"loss":2.5}')
    assert reading is not None
    assert reading.metrics == {"loss": 2.5, "consumed_tokens": 7000.0}
    counted = parse(b'{"step":8,"loss":2.5,"consumed_tokens":7500}')
    assert counted is not None
    assert counted.metrics["consumed_tokens"] == 7500.0, "what a trainer counts itself is not guessed anew"


def test_exports_of_weights_and_biases_and_lightning(tmp_path: Path) -> None:
    export = '"Step","gpt, big - train/loss","gpt, big - train/loss__MIN","gpt, big - train/loss__MAX"\n"1","2.5","2.5","2.5"\n'
    assert read(tmp_path / "wandb.csv", export)[1][0].metrics == {"loss": 2.5}
    both = '"Step","a - train/loss","b - train/loss"\n1,2.5,2.6\n2,2.5,2.6\n'
    with pytest.raises(UnreadableLog, match="several runs stand side by side"):
        read(tmp_path / "both.csv", both)
    lightning = "epoch,lr,step,train_loss_step,val_loss\n0,0.1,49,2.5,\n0,,49,,2.7\n0,0.1,99,2.4,\n"
    rows = read(tmp_path / "metrics.csv", lightning)[1]
    assert [(row.step, row.metrics.get("loss"), row.metrics.get("val_loss")) for row in rows] == [(49, 2.5, 2.7), (99, 2.4, None)]


def test_numbers_as_people_and_libraries_write_them(tmp_path: Path) -> None:
    rows = read(
        tmp_path / "a.csv", "step;loss\r\n1;2,5\r\n2;-nan(ind)\r\n3;1.#QNAN\r\n4;NA\r\n5;None\r\n6.0;-inf\r\n1e1;Infinity\r\n"
    )[1]
    assert [(row.step, row.metrics.get("loss")) for row in rows if row.step in (1, 4, 5)] == [(1, 2.5), (4, None), (5, None)]
    assert all(math.isnan(row.metrics["loss"]) for row in rows if row.step in (2, 3))
    assert [(row.step, row.metrics["loss"]) for row in rows[-2:]] == [(6, -math.inf), (10, math.inf)]


def test_a_table_without_a_usable_header_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLog, match="numbers and no names"):
        read(tmp_path / "bare.csv", "1,2.5\n2,2.4\n")
    with pytest.raises(UnreadableLog, match=r"no column .* is the step \(it has epoch, loss\)"):
        read(tmp_path / "epochs.csv", "epoch,loss\n1,2.5\n2,2.4\n")


def test_a_new_header_is_in_force_from_there_on() -> None:
    parse = CsvLines()
    rows = [parse(line) for line in (b"step,loss", b"1,2.5", b"step,lr,loss", b"2,0.1,2.4", b"epoch,step,loss", b"0,3,2.3")]
    assert [row.metrics["loss"] for row in rows if row is not None] == [2.5, 2.4, 2.3]


ROWS = 100_000  # of packed logs: 1.5 MB, more than is unpacked at once


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_compressed_logs_are_read_as_they_are(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    lines = "step,loss\n" + "".join(f"{n},{2 + 1 / n:.6f}\n" for n in range(1, ROWS + 1))
    found, rows, reader = read(tmp_path / "log.csv.packed", pack(lines.encode()))
    assert (found, len(rows), rows[-1].step, reader.damaged, reader.remark) == ("csv", ROWS, ROWS, 0, "")
    assert read(tmp_path / "b", pack(NANOGPT.encode()))[0] == "text"
    with pytest.raises(EmptyLog):
        read(tmp_path / "c", pack(b""))


def test_compressed_data_that_breaks_off_is_read_so_far(tmp_path: Path) -> None:
    dice = random.Random(1)
    data = gzip.compress(b"step,loss\n" + b"".join(b"%d,%f\n" % (n, dice.random()) for n in range(1, ROWS + 1)))
    _, rows, reader = read(tmp_path / "log.csv.gz", data[: len(data) * 2 // 3])
    assert ROWS / 3 < len(rows) < ROWS
    assert "breaks off" in reader.remark
    with pytest.raises(UnreadableLog, match=r"junk\.gz"):
        read(tmp_path / "junk.gz", gzip.compress(b"step,loss\n1,2\n") + b"trailing junk")


def test_an_endless_line_in_compressed_data_is_cut_and_counted(tmp_path: Path) -> None:
    data = gzip.compress(b"step,loss\n1,2\n" + b"x" * 5_000_000 + b"\n2,2\n")
    _, rows, reader = read(tmp_path / "log.gz", data, "csv")
    assert ([row.step for row in rows], reader.damaged) == ([1, 2], 1)


def test_what_we_do_not_unpack_names_who_does(tmp_path: Path) -> None:
    for head, word in ((b"PK\x03\x04", "unzip"), (b"\x28\xb5\x2f\xfd", "zstd -d"), ("step,loss\n".encode("utf-16"), "iconv")):
        with pytest.raises(UnreadableLog, match=word):
            read(tmp_path / "packed", head if word == "iconv" else head + b"\0" * 20)
    with pytest.raises(UnreadableLog, match="a JSON document without steps in it"):
        read(tmp_path / "settings.json", '{\n "width": 1,\n "depth": 2\n}\n')


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_a_value_error(noise: bytes) -> None:
    for parse in (JsonLines(), PrintedLines()):
        for line in (noise, b"step 5: loss 2.5 " + noise, b'{"step":1,"loss":2,"x":"' + noise):
            try:
                reading = parse(line)
            except ValueError:
                continue
            assert reading is None or reading.step >= 0
