"""`sentinel track`: a run written to an experiment tracker, once or for as long as it lives."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.closed_files import closed
from sentinel.errors import JournalError, UsageError
from sentinel.model.amounts import time_words
from sentinel.report.reading import NothingRecorded
from sentinel.report.run_dirs import check_run_dir
from sentinel.signals import stop_event
from sentinel.telemetry.lasting_helper import AGAIN_S, stop_at_eof
from sentinel.trackers.contract import TrackerError
from sentinel.trackers.registry import Target, parse_target
from sentinel.trackers.writing import TrackedRun, place_path

EVERY_S = 2.0
Say = Callable[[str], None]


def track(run_dir: Path, to: str, follow: bool, until_eof: bool, say: Say) -> None:
    """Write what is new; with `follow`, go on until the run has ended or this is interrupted. `until_eof`: interrupted, too, when
    nobody holds its standard input any more, as the supervisor's helper is.

    Raises UsageError for what is no run, for an unknown tracker, and where another process writes the same. Without `follow`
    also TrackerError, OSError and JournalError; with it they are said, and it is tried again after AGAIN_S.
    """
    target = parse_target("--to", to)
    check_run_dir(run_dir)
    with _only_writer(run_dir, target), stop_event() as stop:
        if until_eof:
            stop_at_eof(stop)
        if follow:
            _follow(run_dir, target, stop, say)
        else:
            say(_write_once(run_dir, target, stop))


def _write_once(run_dir: Path, target: Target, stop: threading.Event) -> str:
    writing = TrackedRun(run_dir, target)
    try:
        while writing.advance() and not stop.is_set():
            pass
        words = writing.summary
    finally:
        writing.close()
    more = "" if writing.has_ended else "; the run has not ended: the same command goes on, and --follow stays with it"
    return f"{words}{more}"


def _follow(run_dir: Path, target: Target, stop: threading.Event, say: Say) -> None:
    writing: TrackedRun | None = None
    complained, has_ended, is_last = "", False, False
    while not (has_ended or is_last):
        is_last = stop.is_set()  # then once more, so that the last rows are there
        wait_s = EVERY_S
        try:
            writing = writing or TrackedRun(run_dir, target)
            while writing.advance():
                pass
            complained, has_ended = "", writing.has_ended
        except NothingRecorded:
            pass
        except (TrackerError, OSError, JournalError) as error:
            words = str(error)
            if words != complained:
                say(f"not written to {target.text}: {words}; tried again every {time_words(AGAIN_S)}")
            complained, wait_s = words, AGAIN_S
            _let_go(writing)
            writing = None
        if not (has_ended or is_last):
            stop.wait(wait_s)
    if writing is not None:
        words = writing.summary
        writing.close()
        say(words)


def _let_go(writing: TrackedRun | None) -> None:
    """What is left of one that could not write any more: another goes on where this one is."""
    if writing is not None:
        with suppress(TrackerError, OSError):
            writing.close()


@contextmanager
def _only_writer(run_dir: Path, target: Target) -> Iterator[None]:
    path = place_path(run_dir, target).with_suffix(".lock")
    try:
        ensure_directory(path.parent)
        lock = open(path, "a", opener=closed)  # noqa: SIM115 - closed below, and what is raised in between is not of this file
    except OSError as error:
        remedy = "change its rights" if isinstance(error, PermissionError) else "make it a folder that can be written"
        raise UsageError(f"{error.filename or path}: cannot be written ({error.strerror}); {remedy}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = "another process (a supervisor's, or a second `sentinel track`)"
            raise UsageError(f"{run_dir}: {who} is writing it to {target.text} already; leave it to that one") from None
        yield
