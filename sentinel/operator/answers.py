"""What a person asks of a run that is supervised: the request into its inbox, the answer out of its journal.

The answer is a fact, which is read and not written here. So it works from any machine that sees the run directory, and what was
asked is on record whether or not somebody waits for the answer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.clock import SystemClock
from sentinel.errors import UsageError
from sentinel.journal.store import Journal
from sentinel.model.facts import RequestAnswered
from sentinel.model.operator_requests import OperatorRequest
from sentinel.report.reading import read_run, read_supervisor
from sentinel.report.run_dirs import check_run_dir
from sentinel.telemetry.inbox import post

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Answered:
    granted: bool
    words: str


def is_supervised(run_dir: Path) -> bool:
    """Also where that cannot be seen from here: somebody may answer. Raises UsageError for what is not the directory of a run."""
    check_run_dir(run_dir)
    return read_supervisor(run_dir) != "gone"


def check_supervised(run_dir: Path) -> None:
    """Raises UsageError where nobody could answer, JournalError where the journal cannot be read."""
    if is_supervised(run_dir):
        return
    is_finished = read_run(run_dir).state.ended == "finished"
    goes_on = f" and could answer; `sentinel run --run-dir {run_dir}` goes on with it"
    raise UsageError(f"{run_dir}: nobody supervises this run{': it has finished' if is_finished else goes_on}")


def post_request(run_dir: Path, by: str, request: OperatorRequest) -> str:
    """The request's id. Raises UsageError where this user may not ask."""
    try:
        return post(run_dir, by, request, round(SystemClock().wall_s() * 1e9))
    except OSError as error:
        raise UsageError(f"{run_dir}: the request cannot be written: {error.strerror}; ask as the run's owner") from error


def await_answer(run_dir: Path, number: str, timeout_s: float, after: int = 0) -> Answered | None:
    """None when there is none within `timeout_s`. `after`: an entry older than the request. Raises JournalError."""
    clock, waiting = SystemClock(), threading.Event()
    end_s = clock.now_s() + timeout_s
    while clock.now_s() < end_s:
        after, answer = find_answer(run_dir, number, after)
        if answer is not None:
            return answer
        clock.wait(waiting, POLL_S)
    return None


def find_answer(run_dir: Path, number: str, after: int = 0) -> tuple[int, Answered | None]:
    """The answer among the journal's entries behind `after`, and the last entry looked at."""
    with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
        for entry in journal.read_entries(after):
            after = entry.seq
            if isinstance(entry.fact, RequestAnswered) and entry.fact.id == number:
                return after, Answered(entry.fact.granted, entry.fact.answer)
    return after, None
