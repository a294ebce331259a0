"""`sentinel stop` where no trainer is needed to see what it does: a living supervisor, an ended run, no run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel.cli.stop import stop_run
from sentinel.errors import RetryLater, UsageError
from sentinel.journal.session import take_run
from sentinel.model.facts import RunEnded
from sentinel.report.reading import read_run
from tests.unit.told_run import write_run

# A supervisor in five lines: holds the run, and on SIGTERM records the end and leaves; or does not listen.
SUPERVISOR = """
import pathlib, signal, sys
from sentinel.journal.session import take_run
from sentinel.model.facts import RunEnded
listens = sys.argv[2] == "listens"
with take_run(pathlib.Path(sys.argv[1])) as session:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM if listens else signal.SIGUSR1})
    session.journal.append(session.journal.last_at_s() + 1, [RunEnded("stopped", "stopped by SIGTERM")], session.epoch)
"""


def start_supervisor(run_dir: Path, manner: str) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(run_dir), manner], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def test_a_living_supervisor_is_asked_and_waited_for(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61)
    with start_supervisor(run_dir, "listens") as child:
        said = stop_run(run_dir, 60.0)
        assert child.wait(10) == 0
    assert said.startswith("demo: stopped at step ")
    assert "stopped by SIGTERM" in said


def test_one_that_takes_longer_is_named_with_what_to_do(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61)
    with start_supervisor(run_dir, "busy") as child:
        with pytest.raises(RetryLater, match=rf"still stopping after 0 s \(supervisor pid {child.pid}\)"):
            stop_run(run_dir, 0.0)
        child.send_signal(signal.SIGUSR1)


def test_an_ended_run_is_said_to_be_over(tmp_path: Path) -> None:
    said = stop_run(write_run(tmp_path / "run"), 1.0)
    assert said.startswith("already over: demo: finished at step 600, newest checkpoint of step 350")


def test_a_suspended_run_is_said_to_go_on_and_what_would_end_it(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61)
    with take_run(run_dir) as session:
        left = RunEnded("suspended", "stopped by SIGUSR1")
        session.journal.append(session.journal.last_at_s() + 1, [left], session.epoch)
    said = stop_run(run_dir, 1.0)
    assert said.startswith("demo: suspended at step ")
    assert "not the end of it" in said
    assert "scancel" in said
    assert "the `sentinel run` that it had goes on" in said
    assert read_run(run_dir).state.ended == "suspended", "who starts it again answers nobody's page"


def test_a_run_of_which_nothing_lives_has_nothing_to_stop(tmp_path: Path) -> None:
    said = stop_run(write_run(tmp_path / "run", until=61), 1.0)
    assert said == "demo: none of its processes lives, nothing to stop (newest step 100)"


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the directory of a run"):
        stop_run(tmp_path, 1.0)
