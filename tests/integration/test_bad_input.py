"""What a person or a disk does to a run from outside, for real: a clear sentence, nothing lost, nothing left behind."""

from __future__ import annotations

import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.integration.forked_sentinel import run_sentinel
from tests.integration.supervised import DEADLINE_S, Supervised, double, wait_for


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["/etc"], ["./not-executable"]], ids=str)
def test_a_command_that_cannot_be_started_leaves_no_directory(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "not-executable").write_text("true\n")
    done = run_sentinel("run", "--run-dir", "run", "--", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_directory_below_a_file_is_refused_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_sentinel("run", "--run-dir", "file/run", "--", "true", cwd=tmp_path)
    assert done.returncode == 2
    assert "something above it is a file" in done.stderr


def test_any_number_of_signals_ends_in_130(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(5000, 0.005)).start()
    wait_for("step 20", lambda: run.last_step(1) >= 20)
    assert run.child is not None
    deadline = time.monotonic() + DEADLINE_S
    while run.child.poll() is None and time.monotonic() < deadline:
        with suppress(subprocess.TimeoutExpired):
            run.child.send_signal(signal.SIGTERM)
            run.child.wait(0.001)
    assert run.child.returncode == 130
    assert not run.living()
    assert (run.run_dir / "report.md").exists()


def test_a_terminal_that_goes_away_ends_no_supervision(tmp_path: Path) -> None:
    """On a real terminal, which hangs up: SIGHUP, and every later write to it fails."""
    run = Supervised(tmp_path / "run", double(260, 0.01, kill=150))
    words = [sys.executable, "-m", "sentinel", "run", "--run-dir", str(run.run_dir), "--policy", "demo", "--", *run.command]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, words, {**os.environ, "TERM": "xterm"})
    wait_for("step 60", lambda: drained(terminal) and run.last_step(1) >= 60)
    os.close(terminal)
    wait_for("sentinel to end", lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT))
    os.waitpid(pid, 0)
    assert run.status()["state"] == "finished"
    assert [(i["kind"], i["state"]) for i in run.incidents()] == [("crash", "recovered")]
    assert (run.run_dir / "report.md").exists()


def drained(terminal: int) -> bool:
    while select.select([terminal], [], [], 0)[0]:
        os.read(terminal, 1 << 16)
    return True


def test_a_journal_that_cannot_be_written_for_a_while_ends_no_supervision(tmp_path: Path) -> None:
    """As on a full disk: held locked by somebody else while the trainer dies, then let go."""
    run = Supervised(tmp_path / "run", double(260, 0.01, kill=150)).start()
    wait_for("step 60", lambda: run.last_step(1) >= 60)
    with closing(sqlite3.connect(run.run_dir / "sentinel.db", isolation_level=None)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        wait_for("the outage to be told", lambda: "tries again" in run.log)
        somebody.execute("ROLLBACK")
    assert run.wait() == 0
    assert "supervision goes on" in run.log
    assert "Traceback" not in run.log
    assert [(i["kind"], i["state"]) for i in run.incidents()] == [("crash", "recovered")]
    assert sorted(run.surviving()) == list(range(1, 261))
    assert run.attempts() == [1, 2]


def test_a_deleted_journal_ends_supervision_with_1_and_training_goes_on(tmp_path: Path) -> None:
    run = Supervised(tmp_path / "run", double(5000, 0.005, crash=4000)).start()
    wait_for("step 60", lambda: run.last_step(1) >= 60)
    assert run.child is not None
    os.unlink(run.run_dir / "sentinel.db")
    run.child.send_signal(signal.SIGTERM)  # a fact to write down
    try:
        assert run.wait() == 1
        assert "trains on unwatched" in run.log
        assert run.living()
        assert run.start().wait() == 1
        assert "is gone" in run.log
        assert run.attempts() == [1]
    finally:
        for pid in run.living():
            os.kill(pid, signal.SIGKILL)
