"""`sentinel tensorboard`: the boards of a run, finished or older than boards are, made anew from its streams, or of a log."""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import closing
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.run_layout import JOURNAL_NAME, STREAM_NAME, TENSORBOARD
from sentinel.errors import AlreadySupervised, UsageError
from sentinel.journal.run_lock import RunLock
from sentinel.report.reading import read_run
from sentinel.telemetry.tensorboard import event_files
from sentinel.tensorboard.board import EFFECTIVE, PLACE, Board
from sentinel.tensorboard.event_file import SHEET
from sentinel.tensorboard.log_board import draw_log, folder_beside
from sentinel.tensorboard.survivors import Begun, bounds

FLAG = "--no-tensorboard"
ASIDE = ".tensorboard.new"


def draw(place: Path, out: Path | None = None, format: str = "auto") -> str:
    """The boards of a run directory or of a log; what there is, and the command that shows it. Raises as the two below do."""
    log = log_at(place)
    if log is None:
        if out is not None:
            raise UsageError(f"--out {out}: is for a log; the boards of a run lie in {place / TENSORBOARD}")
        return make_tensorboard(place)
    folder = folder_beside(log) if out is None else out
    return f"{draw_log(log, folder, format)}\n{_look(folder)}"


def log_at(place: Path) -> Path | None:
    """The log that is meant; None for a run directory, and for what is neither. A directory of event files is a log; of the
    directory a trainer writes to without a supervisor its stream is."""
    if not place.is_dir():
        return place if place.exists() else None
    if (place / JOURNAL_NAME).exists():
        return None
    if (place / STREAM_NAME).is_file():  # of the bundled trainer without a supervisor, in its --out-dir
        return place / STREAM_NAME
    return place if event_files(place) else None


def make_tensorboard(run_dir: Path) -> str:
    """Write RUN_DIR/tensorboard anew; what there is, and the command that shows it. A supervised run's is kept by its supervisor.

    Raises UsageError for what is no run, or cannot be written; JournalError when the journal is damaged.
    """
    folder = run_dir / TENSORBOARD
    run = read_run(run_dir)
    try:
        lock = RunLock.acquire(run_dir)
    except AlreadySupervised as error:
        if (folder / EFFECTIVE).is_dir():
            return f"{folder}: kept up to date by the run's supervisor\n{_look(folder)}"
        why = f"it has no {TENSORBOARD}/, because of {FLAG} or not yet"
        raise UsageError(f"{run_dir}: is supervised, and {why}; ask again in a moment, or when it has ended") from error
    try:
        run.catch_up()  # what its supervisor wrote until it let go of the run
        attempts = [Begun(one.attempt, one.resumed_step, is_over=bool(one.outcome)) for one in run.lineage.branches()]
        _draw_attempts(run_dir, attempts)
        with closing(Board(run_dir)) as board:
            while board.advance(attempts, run.state.incidents, run.state.created_s):
                pass
            drawn = [begun.attempt for begun in attempts if board.event_path(begun.attempt).exists()]
            last = last_surviving(attempts, board)
    except OSError as error:
        place = error.filename or folder
        raise UsageError(f"{place}: cannot be written: {error.strerror}; mend that, and the same command goes on") from error
    finally:
        lock.release()
    words = f"{len(drawn)} attempt(s), effective up to step {last}, {len(run.state.incidents)} incident(s)"
    return f"{folder}: {words}\n{_look(folder)}"


def last_surviving(attempts: list[Begun], board: Board) -> int:
    """The newest step of the stitched board; 0 when it has none."""
    kept = bounds(attempts)
    steps = [(board.reached_step(number), bound) for number, bound in kept.items()]
    return max([0, *(step if bound is None else min(step, bound) for step, bound in steps)])


def _draw_attempts(run_dir: Path, attempts: list[Begun]) -> None:
    """The attempts' own boards, drawn aside and then put in place, so that no old one is lost before there is a new one. One
    whose stream is gone stays as it is. The stitched board is taken apart: it is put together from these."""
    folder, aside = run_dir / TENSORBOARD, run_dir / ASIDE
    shutil.rmtree(aside, ignore_errors=True)
    with closing(Board(run_dir, aside)) as fresh:
        while fresh.take(attempts):
            pass
        fresh.remember()
        (folder / PLACE).unlink(missing_ok=True)
        for begun in attempts:
            drawn = fresh.event_path(begun.attempt)
            if drawn.exists():
                place = folder / drawn.relative_to(aside)
                ensure_directory(place.parent)
                os.replace(drawn, place)
    for path in sorted((folder / EFFECTIVE).glob(f"{SHEET}.*.sentinel")):
        path.unlink(missing_ok=True)
    ensure_directory(folder)
    os.replace(aside / PLACE, folder / PLACE)
    shutil.rmtree(aside, ignore_errors=True)


def _look(folder: Path) -> str:
    return f"look at it with: tensorboard --logdir {shlex.quote(os.fspath(folder))}"
