"""What the TensorBoard of a run costs: a step's row, the files, the search after a restart, the cut of a rollback, memory."""

from __future__ import annotations

import json
import resource
import shutil
import time
from pathlib import Path

import pytest

from sentinel.tensorboard.board import PLACE, Board
from sentinel.tensorboard.survivors import Begun

pytestmark = pytest.mark.bench
ROWS = 200_000
NAMES = (
    "loss", "grad_norm", "lr", "param_norm", "param_norm/rank-0", "param_norm/rank-1", "activation_norm", "nonfinite_count",
    "clip_coef", "tokens_per_s", "step_time_s", "data_time_s",
)  # fmt: skip


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(board: Board, attempts: list[Begun]) -> float:
    start = time.process_time()
    while board.advance(attempts, (), 0.0):
        pass
    return time.process_time() - start


def test_boards(tmp_path: Path) -> None:
    stream = tmp_path / "attempts" / "0001" / "metrics.jsonl"
    stream.parent.mkdir(parents=True)
    with stream.open("w") as file:
        for step in range(1, ROWS + 1):
            row = {"kind": "step", "step": step, "time_s": 1.7e9 + step, "samples": [[step * 16, step * 16 + 16]]}
            file.write(json.dumps(row | dict.fromkeys(NAMES, 1.0 + step * 1e-7)) + "\n")
    before_mb = peak_mb()
    board = Board(tmp_path)
    drawn_s = timed(board, [Begun(1, 0)])
    path = board.event_path(1)
    size_mb = path.stat().st_size / 1e6
    print(f"\n{ROWS} rows of {len(NAMES)} metrics: {drawn_s / ROWS * 1e6:.1f} us a row (read, encoded, written twice)")
    print(f"{size_mb * 1e6 / ROWS:.0f} bytes a row and file, {size_mb / drawn_s:.1f} MB/s")
    print(f"memory grew {peak_mb() - before_mb:.1f} MB")
    print(f"idle look: {timed(board, [Begun(1, 0)]) * 1e6:.0f} us")
    board.close()
    print(f"restart with the note: {timed(Board(tmp_path), [Begun(1, 0)]) * 1e3:.1f} ms")
    shutil.copy(tmp_path / "tensorboard" / PLACE, tmp_path / "note")
    (tmp_path / "tensorboard" / PLACE).unlink()
    print(f"restart without it: {timed(Board(tmp_path), [Begun(1, 0)]):.2f} s")
    print(f"a rollback to the middle: {timed(Board(tmp_path), [Begun(1, 0, True), Begun(2, ROWS // 2)]):.2f} s")
