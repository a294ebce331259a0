"""`sentinel tensorboard LOG`: anybody's log as boards, and what a person gets wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.client import Stream
from sentinel.errors import UsageError
from sentinel.telemetry.log_formats import open_log
from sentinel.telemetry.log_reader import read_to_end
from sentinel.tensorboard.board import PLACE
from sentinel.tensorboard.command import draw
from sentinel.tensorboard.log_board import ROWS_AT_ONCE
from tests.unit.tensorboard.board_kit import scalars, series

LAYERS = {f"{kind}/h.{layer}": 0.25 for kind in ("grad_norm", "activation_norm", "activation_max") for layer in range(3)}


def launch(path: Path, first: int, last: int, level: float) -> None:
    """As the bundled trainer writes it without a supervisor: one launch after another into the same file."""
    stream = Stream(path, 0)
    common = {"world_size": 1, "params": 10, "tokens_per_step": 64, "effective": {}, "overrides": {}}
    stream.start(resume_step=first - 1, resume_digest=None, **common)
    for step in range(first, last + 1):
        stream.step(step, samples=[[step, step + 1]], loss=level + step / 1024, peak_memory_bytes=2**30, mfu=0.5, **LAYERS)
    stream.event("checkpoint_committed", step=last, path="p")
    stream.end(last, "finished")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    launch(tmp_path / "out" / "metrics.jsonl", 1, 30, 1.0)
    launch(tmp_path / "out" / "metrics.jsonl", 21, 40, 2.0)
    return tmp_path / "out" / "metrics.jsonl"


def test_a_run_without_a_supervisor_gets_its_boards_beside_its_stream(log: Path) -> None:
    for place in (log, log.parent):
        printed = CliRunner().invoke(app, ["tensorboard", str(place)])
        assert printed.exit_code == 0, printed.output
        first, second = printed.stdout.splitlines()
        assert first == f"{log}.tensorboard: metrics log, 2 attempt(s), 50 steps, the last 40"
        assert second == f"look at it with: tensorboard --logdir {log}.tensorboard"
    boards = log.with_name("metrics.jsonl.tensorboard")
    assert series(boards / "attempt-0001") == [(n, 1.0 + n / 1024) for n in range(1, 31)]
    assert series(boards / "attempt-0002") == [(n, 2.0 + n / 1024) for n in range(21, 41)]
    surviving = [(n, (1.0 if n <= 20 else 2.0) + n / 1024) for n in range(1, 41)]
    assert series(boards / "effective") == surviving
    tags = {tag for *_, tag, _ in scalars(boards / "attempt-0001")}
    assert tags == {"lm loss", "mem-max-allocated-bytes", "mfu", "consumed_tokens", *LAYERS}


def test_what_is_drawn_reads_back_under_the_names_of_the_trainer(log: Path) -> None:
    draw(log)
    _, reader = open_log(log.with_name("metrics.jsonl.tensorboard") / "effective")
    assert set(next(iter(read_to_end(reader))).metrics) == {"loss", "peak_memory_bytes", "mfu", "consumed_tokens", *LAYERS}


def test_somebody_elses_log_goes_where_one_says_and_stays_as_it_is(tmp_path: Path) -> None:
    theirs = tmp_path / "train.csv"
    theirs.write_text("step,loss,lr\n" + "".join(f"{n},{3 - n / 1024},0.5\n" for n in range(1, ROWS_AT_ONCE * 2 + 10)) + "x,y\n")
    before = theirs.read_bytes()
    said = draw(theirs, tmp_path / "boards")
    assert "csv log, 1 attempt(s)" in said
    assert "1 damaged, left out, the first: line" in said
    assert [step for step, _ in series(tmp_path / "boards" / "effective")] == list(range(1, ROWS_AT_ONCE * 2 + 10))
    assert theirs.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["boards", "train.csv"]


def test_drawn_again_there_is_nothing_left_of_before_and_what_lies_beside_stays(log: Path) -> None:
    boards = log.with_name("metrics.jsonl.tensorboard")
    draw(log)
    mine = boards / "attempt-0001" / "notes.txt"
    mine.write_text("mine")
    log.write_text("".join(json.dumps({"step": n, "loss": 1.0}) + "\n" for n in range(1, 6)))
    draw(log)
    assert [step for step, _ in series(boards / "effective")] == [1, 2, 3, 4, 5]
    assert not (boards / "attempt-0002").exists()
    assert mine.read_text() == "mine"


def test_what_a_person_gets_wrong_is_a_sentence(log: Path, tmp_path: Path) -> None:
    prose = tmp_path / "prose.txt"
    prose.write_text("no numbers here\n")
    with pytest.raises(UsageError, match="not recognised as a log"):
        draw(prose)
    with pytest.raises(UsageError, match="no such format"):
        draw(log, format="parquet")
    with pytest.raises(UsageError, match="it holds no journal"):
        draw(tmp_path)
    with pytest.raises(UsageError, match="there is no such directory"):
        draw(tmp_path / "nothing")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / PLACE).write_text("{}")
    with pytest.raises(UsageError, match="which its supervisor keeps; name another directory with --out"):
        draw(log, kept)
    (tmp_path / "in-the-way").write_text("")
    with pytest.raises(UsageError, match="in-the-way"):
        draw(log, tmp_path / "in-the-way")
