"""The thread: it keeps up, says once what went wrong, and never holds up whoever started it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.model.readings import SourceReading
from sentinel.model.state import RunState
from sentinel.tensorboard import keeper
from sentinel.tensorboard.board import Board
from sentinel.tensorboard.keeper import BoardKeeper, NoBoards, open_boards
from tests.integration.supervised import wait_for
from tests.unit.tensorboard.board_kit import effective, rows, series, write
from tests.unit.told_run import state_of, told


@pytest.fixture
def state() -> RunState:
    return state_of(told(29))


def test_it_keeps_up_and_draws_what_is_left_when_it_is_closed(tmp_path: Path, state: RunState) -> None:
    write(tmp_path, 1, rows(1, 1, 5), resumed=0)
    boards = BoardKeeper(tmp_path, lambda: state, every_s=0.01)
    wait_for("the first steps", lambda: effective(tmp_path).is_dir() and len(series(effective(tmp_path))) == 5)
    write(tmp_path, 1, rows(1, 6, 9))
    boards.close()
    boards.close()
    assert [step for step, _ in series(effective(tmp_path))] == list(range(1, 10))
    assert boards.poll(0.0) == []


def test_what_cannot_be_written_is_remarked_once_and_said_at_the_end(
    tmp_path: Path, state: RunState, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(keeper, "AGAIN_S", 0.001)
    (tmp_path / "tensorboard").write_text("in the way")
    write(tmp_path, 1, rows(1, 1, 5))
    tries = threading.Semaphore(0)
    really = Board.__init__

    def counted(self: Board, run_dir: Path) -> None:
        tries.release()
        really(self, run_dir)

    monkeypatch.setattr(Board, "__init__", counted)
    boards = BoardKeeper(tmp_path, lambda: state, every_s=0.001)
    for _ in range(3):
        assert tries.acquire(timeout=10)
    boards.close()
    (said,) = boards.poll(0.0)
    assert isinstance(said, SourceReading)
    assert (said.source, said.ok, said.remark) == ("tensorboard", True, True)
    assert str(tmp_path / "tensorboard") in said.reason
    assert "`sentinel tensorboard" in capsys.readouterr().err


def test_when_the_trouble_is_over_it_goes_on(tmp_path: Path, state: RunState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "AGAIN_S", 0.001)
    (tmp_path / "tensorboard").write_text("in the way")
    write(tmp_path, 1, rows(1, 1, 5))
    boards = BoardKeeper(tmp_path, lambda: state, every_s=0.001)
    wait_for("the remark", lambda: boards.poll(0.0))
    (tmp_path / "tensorboard").unlink()
    wait_for("the steps", lambda: effective(tmp_path).is_dir() and len(series(effective(tmp_path))) == 5)
    boards.close()


def test_a_bug_in_it_costs_the_charts_and_is_said(tmp_path: Path, state: RunState) -> None:
    broken = replace(state, incidents=("no incident",))  # type: ignore[arg-type]
    boards = BoardKeeper(tmp_path, lambda: broken, every_s=0.001)
    (said,) = wait_for("the remark", lambda: boards.poll(0.0))
    assert "AttributeError" in said.reason
    boards.close()


def test_a_disk_that_hangs_holds_nobody_up(
    tmp_path: Path, state: RunState, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hangs, may_go_on = threading.Event(), threading.Event()

    def hang(self: Board, *_: object) -> bool:
        hangs.set()
        may_go_on.wait(30)
        return False

    monkeypatch.setattr(Board, "advance", hang)
    monkeypatch.setattr(keeper, "CLOSE_S", 0.01)
    boards = BoardKeeper(tmp_path, lambda: state, every_s=0.001)
    assert hangs.wait(10)
    assert boards.poll(0.0) == []
    boards.close()
    assert "is not complete" in capsys.readouterr().err
    may_go_on.set()


def test_unwanted_it_is_not_there(tmp_path: Path, state: RunState) -> None:
    boards = open_boards(tmp_path, lambda: state, is_wanted=False)
    assert isinstance(boards, NoBoards)
    assert boards.poll(0.0) == []
    boards.close()
    assert list(tmp_path.iterdir()) == []


def test_a_long_past_is_not_drawn_on_by_a_keeper_that_was_closed(
    tmp_path: Path, state: RunState, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(keeper, "CLOSE_S", 0.0)
    monkeypatch.setattr(keeper, "PAUSE_S", 0.001)
    monkeypatch.setattr(Board, "advance", lambda *_: True)
    boards = BoardKeeper(tmp_path, lambda: state, every_s=0.001)
    boards.close()
    wait_for("the thread's end", lambda: not boards._thread.is_alive())
    assert "is not complete" in capsys.readouterr().err
