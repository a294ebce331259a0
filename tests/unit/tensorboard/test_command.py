"""`sentinel tensorboard`: a finished run, an old one, a supervised one, and what a person gets wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.errors import UsageError
from sentinel.journal.run_lock import RunLock
from sentinel.tensorboard.command import ASIDE, make_tensorboard
from sentinel.tensorboard.survivors import Begun
from tests.unit.tensorboard.board_kit import board_of, draw, effective, everything, loss_of, rows, series, write
from tests.unit.told_run import write_run

SURVIVING = [(n, loss_of(1 if n <= 100 else 2 if n <= 350 else 3, n)) for n in range(1, 601)]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    place = write_run(tmp_path / "run")
    write(place, 1, rows(1, 1, 131), resumed=0)
    write(place, 2, rows(2, 101, 384), resumed=100)
    write(place, 3, rows(3, 351, 600), resumed=350)
    return place


def test_a_run_older_than_boards_gets_them(run_dir: Path) -> None:
    printed = CliRunner().invoke(app, ["tensorboard", str(run_dir)])
    assert printed.exit_code == 0, printed.output
    first, second = printed.stdout.splitlines()
    assert first == f"{run_dir}/tensorboard: 3 attempt(s), effective up to step 600, 2 incident(s)"
    assert second == f"look at it with: tensorboard --logdir {run_dir}/tensorboard"
    assert series(effective(run_dir)) == SURVIVING
    assert [len(series(board_of(run_dir, n))) for n in (1, 2, 3)] == [131, 284, 250]
    assert series(effective(run_dir), "sentinel/incident") == [(132, 1.0), (379, 2.0)]
    assert not (run_dir / ASIDE).exists()


def test_whatever_was_damaged_is_made_anew(run_dir: Path) -> None:
    make_tensorboard(run_dir)
    whole = everything(run_dir)
    for path in (run_dir / "tensorboard").rglob("*.sentinel"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    make_tensorboard(run_dir)
    assert everything(run_dir) == whole


def test_a_board_whose_stream_is_gone_stays_and_is_stitched(run_dir: Path) -> None:
    make_tensorboard(run_dir)
    whole = everything(run_dir)
    (run_dir / "attempts" / "0001" / "metrics.jsonl").unlink()
    make_tensorboard(run_dir)
    assert everything(run_dir) == whole


def test_a_run_that_goes_on_unwatched_is_adopted_with_its_charts(run_dir: Path, tmp_path: Path) -> None:
    """Its supervisor was killed, somebody asked for the charts, and the next supervisor goes on with them."""
    place = write_run(tmp_path / "unwatched", until=29)
    whole, torn = rows(1, 1, 40)[:30], rows(1, 31, 31)[0]
    write(place, 1, [*whole, torn[:20]], resumed=0, end="")
    make_tensorboard(place)
    assert series(effective(place)) == [(n, loss_of(1, n)) for n in range(1, 31)]
    write(place, 1, [torn[20:]])
    draw(place, [Begun(1, 0)])
    assert series(effective(place)) == [(n, loss_of(1, n)) for n in range(1, 32)]


def test_what_lies_beside_the_boards_stays(run_dir: Path) -> None:
    theirs = run_dir / "tensorboard" / "mine" / "events.out.tfevents.1.host"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"theirs")
    make_tensorboard(run_dir)
    assert theirs.read_bytes() == b"theirs"


def test_a_supervised_run_is_left_to_its_supervisor(run_dir: Path) -> None:
    with RunLock.acquire(run_dir):
        with pytest.raises(UsageError, match="is supervised, and it has no tensorboard/"):
            make_tensorboard(run_dir)
        effective(run_dir).mkdir(parents=True)
        assert "kept up to date by the run's supervisor\nlook at it with: tensorboard --logdir" in make_tensorboard(run_dir)
    assert list(effective(run_dir).iterdir()) == []


def test_what_cannot_be_written_is_a_sentence(run_dir: Path) -> None:
    (run_dir / "tensorboard").write_text("a file in the way")
    with pytest.raises(UsageError, match=r"tensorboard.*: cannot be written: .*; mend that"):
        make_tensorboard(run_dir)


def test_a_run_that_never_wrote_a_step_has_an_empty_board(tmp_path: Path) -> None:
    place = write_run(tmp_path / "run", until=1)
    assert "0 attempt(s), effective up to step 0, 0 incident(s)" in make_tensorboard(place)
