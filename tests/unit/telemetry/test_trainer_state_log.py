"""trainer_state.json of a Hugging Face Trainer, read in pieces."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sentinel.telemetry.log_reader import read_to_end
from sentinel.telemetry.trainer_state import TrainerStateLog, looks_like_trainer_state


def write(folder: Path, history: list[object], tail: str = "") -> Path:
    path = folder / "trainer_state.json"
    state = {"best_metric": None, "global_step": 30, "is_world_process_zero": True, "log_history": history, "max_steps": 30}
    text = json.dumps(state, indent=2)
    path.write_text(text[: text.rindex('"max_steps"') - 6] + tail if tail else text)
    return path


def history(count: int) -> list[object]:
    return [{"epoch": 0.1, "grad_norm": 0.5, "learning_rate": 1e-4, "loss": 3.0, "step": 10 * n} for n in range(1, count + 1)]


def test_training_and_evaluation_of_a_step_are_one_reading(tmp_path: Path) -> None:
    entries = [*history(2), {"epoch": 0.1, "eval_loss": 2.9, "eval_runtime": 1.5, "step": 20}, *history(3)[2:]]
    rows = list(read_to_end(TrainerStateLog(write(tmp_path, entries))))
    assert [row.step for row in rows] == [10, 20, 30]
    assert (rows[1].metrics["loss"], rows[1].metrics["val_loss"], rows[1].metrics["lr"]) == (3.0, 2.9, 1e-4)


def test_values_that_are_no_number(tmp_path: Path) -> None:
    entries = [{"loss": math.nan, "grad_norm": "Infinity", "note": "x", "ok": True, "step": 1}, {"step": 2, "loss": None}]
    rows = list(read_to_end(TrainerStateLog(write(tmp_path, list(entries)))))
    assert math.isnan(rows[0].metrics["loss"])
    assert set(rows[0].metrics) == {"loss", "grad_norm"}
    assert rows[1].metrics == {}


def test_a_long_history_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.telemetry.trainer_state.CHUNK_CHARS", 37)
    log = TrainerStateLog(write(tmp_path, history(500)))
    assert [row.step for row in read_to_end(log)] == [10 * n for n in range(1, 501)]
    assert log.damaged == 0


def test_a_document_cut_short_gives_what_it_has_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, history(50))
    path.write_text(path.read_text()[:4000])
    log = TrainerStateLog(path)
    rows = list(read_to_end(log))
    assert 20 < len(rows) < 50
    assert (log.damaged, "ends inside" in log.first_damage) == (1, True)


def test_a_state_written_anew_gives_only_what_is_new(tmp_path: Path) -> None:
    log = TrainerStateLog(write(tmp_path, history(3)))
    assert [row.step for row in log.poll(0.0)] == [10, 20, 30]
    assert log.poll(0.0) == []
    write(tmp_path, history(5))
    assert [row.step for row in log.poll(0.0)] == [40, 50]


@pytest.mark.parametrize("text", ['{"step": 1, "loss": 2}\n{"step": 2, "loss": 2}\n', "{}", "[1]", '{"log_historic": 1}'])
def test_other_json_is_no_trainer_state(text: str) -> None:
    assert not looks_like_trainer_state(text.encode())
