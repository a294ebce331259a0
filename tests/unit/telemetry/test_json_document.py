"""JSON that is no line a row: Megatron's golden values, arrays of rows, objects of columns, objects within lines."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.model.readings import StepReading
from sentinel.telemetry import json_document
from sentinel.telemetry.log_formats import UnreadableLog, open_log
from sentinel.telemetry.log_reader import read_to_end

ROWS = [{"step": n, "loss": 3 - n / 100, "lr": 1e-4, "note": "x"} for n in range(1, 21)]


def read(path: Path, text: str) -> tuple[str, list[StepReading]]:
    path.write_text(text)
    found, reader = open_log(path)
    rows = list(read_to_end(reader))
    assert reader.damaged == 0
    return found, rows


def test_golden_values_by_step(tmp_path: Path) -> None:
    """As Megatron-LM writes them since 2025; "nan" in quotes is what was not logged."""
    series = {"start_step": 1, "end_step": 15, "step_interval": 5}
    golden = {
        "lm loss": {**series, "values": {"1": 10.86, "5": 10.87, "10": 10.83, "15": math.nan}},
        "num-zeros": {**series, "values": {"1": 1696.0, "5": 1776.0, "10": 1413.0, "15": 1801.0}},
        "iteration-time": {**series, "values": {"1": "nan", "5": 0.1, "10": 0.1, "15": 0.1}},
    }
    for indent in (None, 4):
        found, rows = read(tmp_path / "golden_values_dev_dgx_h100.json", json.dumps(golden, indent=indent))
        assert (found, [row.step for row in rows]) == ("json", [1, 5, 10, 15])
        assert rows[0].metrics == {"loss": 10.86, "num-zeros": 1696.0}
        assert rows[1].metrics == {"loss": 10.87, "num-zeros": 1776.0, "step_time_s": 0.1}
        assert math.isnan(rows[3].metrics["loss"])


def test_golden_values_in_lists(tmp_path: Path) -> None:
    golden = {
        "lm loss": {"start_step": 0, "end_step": 20, "step_interval": 5, "values": [10.8, 10.7, 10.6, 10.5]},
        "iteration_timing_avg": 0.119,
    }
    found, rows = read(tmp_path / "golden_values.json", json.dumps(golden))
    assert (found, [(row.step, row.metrics) for row in rows]) == (
        "json",
        [(0, {"loss": 10.8}), (5, {"loss": 10.7}), (10, {"loss": 10.6}), (15, {"loss": 10.5})],
    )


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    "document",
    [
        ROWS,
        {"config": {"width": 1}, "history": ROWS},
        {"step": [row["step"] for row in ROWS], "loss": [row["loss"] for row in ROWS]},
    ],
    ids=["rows", "a-member", "columns"],
)
def test_rows_and_columns(tmp_path: Path, document: object, indent: int | None) -> None:
    found, rows = read(tmp_path / "history.json", json.dumps(document, indent=indent))
    assert (found, [(row.step, row.metrics["loss"]) for row in rows]) == ("json", [(row["step"], row["loss"]) for row in ROWS])


def test_a_document_that_grows_gives_out_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps(ROWS[:10]))
    reader = open_log(path)[1]
    assert [row.step for row in reader.poll(0.0)] == list(range(1, 11))
    assert reader.poll(1.0) == []
    path.write_text(json.dumps(ROWS))
    assert [row.step for row in reader.poll(2.0)] == list(range(11, 21))
    path.write_text(json.dumps(ROWS)[:-20])
    assert reader.poll(3.0) == []
    assert (reader.damaged, reader.first_damage) == (1, "it is no JSON document that holds steps")


def test_a_document_written_anew_before_the_first_look_is_read_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps(ROWS[:3]))
    reader = open_log(path)[1]
    path.write_text(json.dumps(ROWS[10:14]))
    assert [row.step for row in reader.poll(0.0)] == [11, 12, 13, 14]
    reader = open_log(path)[1]
    reader.close()
    assert [row.step for row in reader.poll(0.0)] == [11, 12, 13, 14]


def test_a_document_too_large_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_document, "DOCUMENT_BYTES_MAX", 100)
    with pytest.raises(UsageError, match=r"history\.json: a JSON document .* jq -c"):
        read(tmp_path / "history.json", json.dumps(ROWS))


def test_a_document_without_steps_is_no_log(tmp_path: Path) -> None:
    for text in ('{"message": "Not Found"}', "[1, 2]", '{"a": [1, 2], "b": {"values": 3}}', "[" * 5000, '[{"loss": 1}]', "{"):
        with pytest.raises(UnreadableLog, match="not recognised"):
            read(tmp_path / "a.json", text)


def test_metrics_that_are_nested_in_a_line_are_found(tmp_path: Path) -> None:
    nested = {"train": {"loss": 2.5, "grad_norm": 0.5}, "val": {"loss": 2.6}}
    found, rows = read(tmp_path / "a.jsonl", "".join(json.dumps({"step": n, **nested}) + "\n" for n in (1, 2)))
    assert (found, [row.step for row in rows]) == ("metrics", [1, 2])
    assert rows[0].metrics == {"loss": 2.5, "grad_norm": 0.5, "val_loss": 2.6}


def test_lines_of_dllogger(tmp_path: Path) -> None:
    data = {"reduced_train_loss": 10.9, "lr": 1e-6, "global_step": 16.0, "train_step_timing in s": 92.3}
    line = {"timestamp": "1739210331.7", "type": "LOG", "step": 16, "data": data}
    found, rows = read(tmp_path / "dllogger.json", 2 * f"DLLL {json.dumps(line)}\n")
    assert (found, rows[0].step) == ("metrics", 16)
    assert rows[0].metrics == {"loss": 10.9, "lr": 1e-6, "step_time_s": 92.3}


def test_our_own_receipt_nests_and_is_no_step(tmp_path: Path) -> None:
    start = {"kind": "start", "v": 1, "resume_step": 0, "tokens_per_step": 100, "effective": {"step": 7, "loss": 1.0}}
    _, rows = read(tmp_path / "metrics.jsonl", json.dumps(start) + '\n{"step":1,"loss":2.5}\n')
    assert [(row.step, row.metrics) for row in rows] == [(1, {"loss": 2.5, "consumed_tokens": 100.0})]


def test_a_key_of_thousands_of_digits_is_no_step(tmp_path: Path) -> None:
    """Python refuses to make a number of it, and that ended the command with a traceback."""
    path = tmp_path / "golden_values.json"
    path.write_text('{"lm loss": {"start_step": 1, "step_interval": 1, "values": {"%s": 1.0, "2": 2.0}}}' % ("9" * 5000))
    assert [reading.step for reading in read_to_end(json_document.JsonDocumentLog(path))] == [2]


@pytest.mark.parametrize("place", ['"start_step": -5', '"step_interval": 0', '"start_step": "a"', '"step_interval": 2.5'])
def test_values_whose_steps_are_unknown_are_not_given_some(tmp_path: Path, place: str) -> None:
    path = tmp_path / "golden_values.json"
    path.write_text(f'{{"lm loss": {{{place}, "values": [1.0, 2.0]}}}}')
    assert json_document.rows_of_document(path) is None
    path.write_text('{"lm loss": {"values": [1.0, 2.0]}}')
    assert json_document.rows_of_document(path) == [(0, 0.0, {"loss": 1.0}), (1, 0.0, {"loss": 2.0})]
