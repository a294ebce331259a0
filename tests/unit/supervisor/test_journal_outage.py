"""A journal that cannot be written for a while is waited out; a wish to stop is never cut short by the next signal."""

from __future__ import annotations

import errno
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentinel.actions.runner import ThreadRunner
from sentinel.cli import root as cli
from sentinel.engine import Engine
from sentinel.errors import (
    AlreadySupervised,
    Fenced,
    JournalBlocked,
    JournalError,
    LeaseOverdue,
    LostHistory,
    OutOfReach,
    PolicyError,
    RetryLater,
    UsageError,
    WatchLost,
)
from sentinel.journal.lost_history import refuse_no_journal
from sentinel.journal.run_file import write_run_file
from sentinel.journal.session import take_run
from sentinel.journal.trouble import explained_errors
from sentinel.model.actions import KillAttempt
from sentinel.model.capabilities import CAPABILITIES
from sentinel.model.facts import RunEnded
from sentinel.policy_files.loading import load_policy, shipped_policies, shipped_policy_path
from sentinel.signals import SAME_S
from sentinel.supervisor import app
from sentinel.supervisor.journal_outage import JournalOutage, last_act
from sentinel.supervisor.loop import WasAway
from sentinel.supervisor.ruled import Ruled, rule_run
from sentinel.supervisor.stop_signals import StopSignals
from tests.unit.told_run import write_run

FULL = JournalBlocked("run/sentinel.db: the disk is full")

LEAVING = """
import os, signal, threading
from sentinel.supervisor.stop_signals import StopSignals
with StopSignals() as wishes:
    wake = threading.Event()
    wishes.wake(wake)
    with wake._cond:  # as if interrupted inside Event.clear
        os.kill(os.getpid(), signal.SIGTERM)
    assert wake.wait(30)
os.kill(os.getpid(), signal.SIGTERM)
os.kill(os.getpid(), signal.SIGINT)
print(wishes.names)
"""


def test_a_signal_that_comes_while_leaving_kills_nobody() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "['SIGTERM']\n"), done.stderr


UNMEANT = """
import os, signal, threading
from sentinel.signals import hold_back
from sentinel.supervisor.stop_signals import StopSignals
hold_back()
os.kill(os.getpid(), signal.SIGUSR1)  # before anybody can hear it
os.kill(os.getpid(), signal.SIGHUP)
with StopSignals() as wishes:
    wake = threading.Event()
    wishes.wake(wake)
    os.kill(os.getpid(), signal.SIGUSR2)
    assert wake.wait(30)
    for _ in range(40):
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR2)
    print(len(wishes.events), wishes.event.is_set(), wishes.names)
    print(sorted({str(event) for event in wishes.events}))
    print(wishes.take_reload(), wishes.take_reload())
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGHUP)
"""


def test_sigusr1_asks_to_leave_sighup_to_reload_sigusr2_means_nothing_and_none_kills_before_during_or_after() -> None:
    done = subprocess.run([sys.executable, "-c", UNMEANT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    count, events, reloads = done.stdout.splitlines()
    assert count == "17 False []", "one wish to leave, sixteen on record, and no stop"
    wanted = ["SignalSeen(name='SIGUSR2')", "StopWanted(by='SIGUSR1', resumes=True)"]
    assert events == str(wanted)
    assert reloads == "True False", "once for all that was heard"


HUNG_UP = """
import os, signal
from sentinel.supervisor.stop_signals import StopSignals
there = iter((True, False, False))
with StopSignals(has_terminal=lambda: next(there)) as signals:
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGHUP)
        print(signals.take_reload())
"""


def test_a_terminal_that_goes_away_reloads_nothing_and_the_next_sighup_does() -> None:
    done = subprocess.run([sys.executable, "-c", HUNG_UP], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["SignalSeen(name='SIGHUP (the terminal went away)')", "True"], done.stderr


def test_before_anything_was_started_the_trouble_is_told_at_once() -> None:
    outage = JournalOutage(Path("run"), StopSignals())
    with pytest.raises(JournalBlocked):
        outage.wait_out(FULL)
    assert outage.lost(FULL) is FULL


def test_afterwards_it_is_waited_out_and_said_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sentinel.supervisor.journal_outage.RETRY_S", 0.0)
    outage = JournalOutage(Path("run"), StopSignals())
    outage.begin()
    outage.wait_out(FULL)
    outage.wait_out(FULL)
    outage.begin()
    said = capsys.readouterr().err
    assert said.count("the disk is full") == 1
    assert said.count("can be written again") == 1


def test_a_wish_to_stop_ends_the_waiting_and_says_that_training_goes_on() -> None:
    wishes = StopSignals()
    outage = JournalOutage(Path("run"), wishes)
    outage.begin()
    wishes.names.append("SIGTERM")
    with pytest.raises(WatchLost, match="trains on unwatched"):
        outage.wait_out(FULL)


def test_the_act_under_way_is_seen_to_its_end_and_the_next_is_not_begun() -> None:
    begun, may_end, done = threading.Event(), threading.Event(), []

    def kill(action: KillAttempt) -> str:
        begun.set()
        may_end.wait(30)
        done.append(action.key)
        return "done"

    runner = ThreadRunner({KillAttempt: kill}, threading.Event())  # type: ignore[dict-item]
    runner.submit(KillAttempt("kill/1", 1))
    runner.submit(KillAttempt("kill/2", 2))
    assert begun.wait(30)
    assert not runner.close(0.0)
    with pytest.raises(JournalError, match="still under way"), last_act(lambda timeout_s: False):
        raise FULL
    may_end.set()
    assert runner.close(30.0)
    assert done == ["kill/1"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "no space left"), JournalBlocked),
        (OSError(errno.ESTALE, "stale file handle"), JournalBlocked),
        (FileNotFoundError(errno.ENOENT, "no such file"), JournalError),
        (PermissionError(errno.EACCES, "denied"), OutOfReach),
        (sqlite3.DatabaseError("malformed"), JournalError),
    ],
    ids=str,
)
def test_only_what_may_pass_is_waited_for(tmp_path: Path, error: Exception, kind: type[Exception]) -> None:
    (tmp_path / "run.json").touch()
    with pytest.raises(JournalError) as caught, explained_errors(tmp_path / "sentinel.db", "append"):
        raise error
    assert type(caught.value) is kind


def test_a_run_that_lost_its_journal_is_not_begun_anew(tmp_path: Path) -> None:
    refuse_no_journal(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(LostHistory, match=r"whose journal .* is gone"):
        refuse_no_journal(tmp_path)
    (tmp_path / "sentinel.db").touch()
    refuse_no_journal(tmp_path)


def test_who_answered_and_left_between_the_two_looks_is_taken_for_no_supervisor() -> None:
    held = AlreadySupervised("run: already supervised by pid 7")
    outage = JournalOutage(Path("run"), StopSignals())
    outage.let_answer(held, is_being_answered=False)
    with pytest.raises(AlreadySupervised):
        outage.let_answer(held, is_being_answered=False)


class Watches:
    """Stands in for `app._watch`: every call ends as the next entry says; the first has taken the run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *ends: int | Exception) -> None:
        self._ends = list(ends)
        monkeypatch.setattr(app, "_watch", self)
        monkeypatch.setattr("sentinel.supervisor.journal_outage.RETRY_S", 0.0)

    def __call__(self, *arguments: Any) -> int:
        end = self._ends.pop(0)
        if not isinstance(end, AlreadySupervised) and (len(self._ends) > 0 or not isinstance(end, UsageError)):
            arguments[5].begin()
        if isinstance(end, int):
            return end
        raise end


def supervise(run_dir: Path) -> int:
    return app.supervise(app.RunRequest(run_dir, "demo", ("true",), "/"))


def test_a_run_directory_out_of_reach_during_an_outage_is_waited_for_like_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Watches(monkeypatch, FULL, UsageError("run/run.json: cannot be written: no space left"), UsageError("no locks"), 0)
    assert supervise(tmp_path / "run") == 0


def test_a_run_that_another_took_meanwhile_is_left_alone_and_that_is_no_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = AlreadySupervised("run: already supervised by pid 7")
    Watches(monkeypatch, FULL, held, held, 0)
    with pytest.raises(Fenced, match="by pid 7; this one leaves it alone"):
        supervise(tmp_path / "run")


def test_a_supervisor_that_was_stopped_for_a_while_takes_the_run_over_as_a_successor_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Watches(monkeypatch, WasAway(900.0), WasAway(60.0), 0)
    assert supervise(tmp_path / "run") == 0
    assert "did not run for 15 min (suspended?): nothing was seen meanwhile" in capsys.readouterr().err


def test_a_supervisor_that_could_not_renew_in_time_takes_the_run_anew_or_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Watches(monkeypatch, LeaseOverdue("lease.json: was not renewed for 50 s"), 0)
    assert supervise(tmp_path / "run") == 0
    assert "was not renewed for 50 s" in capsys.readouterr().err
    held = AlreadySupervised("run: already supervised by pid 7 on n2", is_elsewhere=True)
    Watches(monkeypatch, LeaseOverdue("lease.json: was not renewed for 50 s"), held, held, 0)
    with pytest.raises(Fenced, match="by pid 7 on n2; this one leaves it alone"):
        supervise(tmp_path / "run")


def test_before_anything_was_started_it_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = AlreadySupervised("run: already supervised by pid 7")
    Watches(monkeypatch, held, held)
    with pytest.raises(AlreadySupervised):
        supervise(tmp_path / "run")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2), (PolicyError("x"), 2), (AlreadySupervised("x"), 2),
        (Fenced("x"), 1), (WatchLost("x"), 1), (JournalError("x"), 1), (RetryLater("x", 1.0), 1),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_two_is_for_usage_and_policy_alone(error: Exception, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises() -> None:
        raise error

    monkeypatch.setattr(cli, "app", raises)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == code


def test_a_capability_that_is_none_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with pytest.raises(UsageError, match="--without fly: no such capability"):
        app.supervise(app.RunRequest(run_dir, "demo", ("true",), "/", without=("fly",)))
    assert not run_dir.exists()


@pytest.mark.parametrize("policy", shipped_policies())
def test_a_policy_that_needs_what_the_trainer_lacks_says_which_rungs_are_passed_over(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "_watch", lambda *_: 0)
    app.supervise(app.RunRequest(tmp_path / "run", policy, ("true",), "/", without=("skip",)))
    words = capsys.readouterr().out
    loaded = load_policy(shipped_policy_path(policy))
    skips = any(rung.skip or rung.reseed_data for rungs in loaded.spec.playbooks.values() for rung in rungs)
    assert ("cannot skip samples (capability 'skip')" in words) == skips
    assert ("passed over" in words) == skips


def test_what_a_run_lacks_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watch(request: app.RunRequest, ruled: Ruled, *_: object) -> int:
        seen.append(ruled.run_file)
        write_run_file(ruled.run_dir, ruled.run_file)
        return 0

    monkeypatch.setattr(app, "_watch", watch)
    request = app.RunRequest(tmp_path / "run", "observe_only", ("true",), "/", observe_only=True)
    for without in (CAPABILITIES, ()):
        app.supervise(replace(request, without=without))
    assert [run_file.capabilities for run_file in seen] == [(), ()]
    app.supervise(replace(request, policy="demo", observe_only=False))
    assert seen[-1].capabilities == ()


def test_a_sigterm_that_is_heard_twice_is_one_wish_and_ctrl_c_twice_is_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm signals every process of a job that it ends, and the batch script passes its own on: within milliseconds."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    now_s = 100.0
    stops = StopSignals(lambda: now_s)
    stops._stop(signal.SIGTERM, None)
    now_s += SAME_S / 2
    stops._stop(signal.SIGTERM, None)
    assert stops.names == ["SIGTERM"]
    stops._stop(signal.SIGINT, None)
    assert stops.names == ["SIGTERM", "SIGINT"]
    stops = StopSignals(lambda: now_s)
    for _ in range(2):
        stops._stop(signal.SIGTERM, None)
        now_s += SAME_S
    assert stops.names == ["SIGTERM", "SIGTERM"]


def test_a_run_that_was_stopped_during_the_outage_stays_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`sentinel stop` needs the lock, which a supervisor that waits for its disk has let go."""
    run_dir = write_run(tmp_path / "run", until=42)
    with take_run(run_dir) as session:
        session.journal.append(50.0, [RunEnded("stopped", "stopped by sentinel stop")], session.epoch)
    request = app.RunRequest(run_dir, "demo", (), "/")
    with StopSignals() as stops:
        outage = JournalOutage(run_dir, stops)
        outage.begin()
        engine = Engine(load_policy(shipped_policy_path("demo")))
        code = app._watch(request, rule_run(request, run_dir, 0.0), engine, None, lambda: None, outage, lambda: take_run(run_dir))
    assert code == app.EXIT_STOPPED
    assert "stopped by sentinel stop; this supervisor leaves it so" in capsys.readouterr().err
    assert not (run_dir / "attempts").exists()
