"""CSV logs: any order of columns, gaps, values that are no number, and every kind of damage."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel.model.readings import StepReading
from sentinel.telemetry.csv_log import CsvLines
from sentinel.telemetry.log_reader import LineLog, read_to_end


def read(tmp_path: Path, text: str | bytes) -> tuple[list[StepReading], LineLog]:
    path = tmp_path / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    log = LineLog(path, CsvLines())
    return list(read_to_end(log)), log


def test_an_empty_cell_was_not_logged_and_nan_was(tmp_path: Path) -> None:
    rows, log = read(tmp_path, "step,loss,grad_norm,loss_scale,lr\n1,2.5,,65536,1e-4\n2,nan,inf,,\n")
    assert [row.step for row in rows] == [1, 2]
    assert rows[0].metrics == {"loss": 2.5, "loss_scale": 65536.0, "lr": 1e-4}
    assert math.isnan(rows[1].metrics["loss"])
    assert rows[1].metrics["grad_norm"] == math.inf
    assert log.damaged == 0


def test_columns_are_found_by_name_and_further_numbers_are_metrics(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, "mfu;train_loss;note;Global Step;Learning Rate\n0.4;3.1;warm;10.0;0.01\n0.5;3.0;;11;0.02\n")
    assert [(row.step, row.metrics) for row in rows] == [
        (10, {"mfu": 0.4, "loss": 3.1, "lr": 0.01}),
        (11, {"mfu": 0.5, "loss": 3.0, "lr": 0.02}),
    ]


def test_quotes_returns_and_a_mark_at_the_start_are_no_damage(tmp_path: Path) -> None:
    rows, log = read(tmp_path, b'\xef\xbb\xbf"step","loss"\r\n"1","2.5"\r\n\r\n2,2.4\r\n')
    assert [(row.step, row.metrics) for row in rows] == [(1, {"loss": 2.5}), (2, {"loss": 2.4})]
    assert log.damaged == 0


def test_damaged_rows_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    rows, log = read(tmp_path, "step,loss\n1,2.5\n2\n3,2.5,9\nx,1\n4.5,1\n-1,2\n5,2.4x\n6,2.3\n")
    assert [row.step for row in rows] == [1, 6]
    assert log.damaged == 6
    assert log.first_damage.startswith("line 3: 1 cells under 2 columns")


def test_a_header_written_again_by_a_resumed_run_is_no_damage(tmp_path: Path) -> None:
    rows, log = read(tmp_path, "step,loss\n1,2.5\nstep,loss\n2,2.4\n")
    assert [row.step for row in rows] == [1, 2]
    assert log.damaged == 0


def test_a_last_line_without_its_newline_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    rows, log = read(tmp_path, "step,loss\n1,2.5\n2,2.4")
    assert [row.step for row in rows] == [1, 2]
    rows, log = read(tmp_path, "step,loss,lr\n1,2.5,1\n2,2.")
    assert ([row.step for row in rows], log.damaged) == ([1], 1)


def test_a_time_column_is_the_time_and_no_metric(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, "wall_time,step,loss\n1700000000.5,1,2\nnan,2,2\n")
    assert [(row.time_s, set(row.metrics)) for row in rows] == [(1700000000.5, {"loss"}), (0.0, {"loss"})]


@given(st.binary(max_size=400))
def test_no_bytes_raise_anything_but_a_value_error(noise: bytes) -> None:
    parse = CsvLines()
    assert parse(b"step,loss") is None
    for line in noise.split(b"\n"):
        try:
            reading = parse(line)
        except ValueError:
            continue
        assert reading is None or reading.step >= 0


def test_without_a_step_column_there_is_no_header() -> None:
    with pytest.raises(ValueError, match="is the step"):
        CsvLines()(b"epoch,loss")
