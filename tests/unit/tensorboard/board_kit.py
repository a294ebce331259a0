"""Streams to draw boards from, and boards read back record by record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sentinel.model.incidents import Incident
from sentinel.telemetry.event_records import FOOTER, HEADER, Scalar, crc32c, masked, read_scalars
from sentinel.tensorboard.board import Board
from sentinel.tensorboard.survivors import Begun

CREATED_S = 1.7e9


def loss_of(attempt: int, step: int) -> float:
    """What tells an attempt's step from another's; a float32 holds it."""
    return attempt + step / 1024


def rows(attempt: int, first: int, last: int, every: int = 1) -> list[str]:
    return [
        json.dumps(
            {"kind": "step", "step": n, "time_s": CREATED_S + n, "loss": loss_of(attempt, n), "grad_norm": 0.5, "mfu": 0.25}
        )
        for n in range(first, last + 1, every)
    ]


def write(run_dir: Path, attempt: int, lines: Sequence[str], resumed: int | None = None, end: str = "\n") -> Path:
    """Append to an attempt's stream; `resumed`: begin with a receipt that says so."""
    path = run_dir / "attempts" / f"{attempt:04d}" / "metrics.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = [] if resumed is None else [json.dumps({"kind": "start", "v": 1, "attempt": attempt, "resume_step": resumed})]
    with path.open("a") as file:
        file.write("\n".join([*head, *lines]) + end)
    return path


def draw(run_dir: Path, attempts: Sequence[Begun], incidents: tuple[Incident, ...] = ()) -> None:
    """As a supervisor that was started just now."""
    board = Board(run_dir)
    while board.advance(attempts, incidents, CREATED_S):
        pass
    board.close()


def messages(path: Path) -> list[bytes]:
    """The messages of a file in which every record is whole and sound."""
    data, place, found = path.read_bytes(), 0, []
    while place < len(data):
        size, check = HEADER.unpack_from(data, place)
        assert masked(crc32c(data[place : place + 8])) == check, f"{path}: the length at byte {place}"
        message = data[place + 12 : place + 12 + size]
        assert len(message) == size, f"{path}: the record at byte {place} is torn"
        assert masked(crc32c(message)) == FOOTER.unpack_from(data, place + 12 + size)[0], f"{path}: the record at byte {place}"
        found.append(message)
        place += size + 16
    return found


def scalars(folder: Path) -> list[Scalar]:
    """Every scalar of a run as TensorBoard would read it: its files by name."""
    files = sorted(path for path in folder.iterdir() if "tfevents" in path.name)
    return [scalar for path in files for message in messages(path) for scalar in read_scalars(message)]


def series(folder: Path, tag: str = "lm loss") -> list[tuple[int, float]]:
    """One chart, in the order it was written."""
    return [(step, value) for step, _, name, value in scalars(folder) if name == tag]


def board_of(run_dir: Path, attempt: int) -> Path:
    return run_dir / "tensorboard" / f"attempt-{attempt:04d}"


def effective(run_dir: Path) -> Path:
    return run_dir / "tensorboard" / "effective"


def everything(run_dir: Path) -> dict[str, bytes]:
    """What a reader sees: every event file by its place."""
    folder = run_dir / "tensorboard"
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*tfevents*")) if p.is_file()}
