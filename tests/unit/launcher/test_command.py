"""The launcher over three commands, against a scheduler of shell scripts: what is not known is never taken for an end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sentinel.client.run_layout import attempt_folder
from sentinel.errors import EngineDown, GiveUp, NotYet, RetryLater, UsageError
from sentinel.launcher import asking
from sentinel.launcher import command as launching
from sentinel.launcher.command import CommandLauncher, CommandSettings
from sentinel.launcher.registry import LaunchPlace, find_row, open_launcher, settings_of
from sentinel.model.attempts import Alive, AttemptSpec, AttemptView, Exited, NotStarted, SettingsInForce, Unseen

REFUSED = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
START = 'test ! -e "$JOBS/broken" && echo "$@" >>"$JOBS/$SENTINEL_JOB.argv" && echo running >"$JOBS/$SENTINEL_JOB"'
STATUS = 'test ! -e "$JOBS/down" && if test -e "$JOBS/$SENTINEL_JOB"; then cat "$JOBS/$SENTINEL_JOB"; else echo none; fi'
STOP = 'echo "exited -9" >"$JOBS/$SENTINEL_JOB"'


@dataclass
class Scheduler:
    jobs: Path
    run_dir: Path

    def launcher(self, supervises: bool = True, **lines: str) -> CommandLauncher:
        settings = {"start": START, "status": STATUS, "stop": STOP, "every": "0.01s", "timeout": "20s"} | lines
        launcher = open_launcher("command", settings, LaunchPlace(self.run_dir, frozenset({"SECRET"}), supervises))
        assert isinstance(launcher, CommandLauncher)
        return launcher

    def set(self, word: str, attempt: int = 1) -> None:
        (self.jobs / self.job(attempt)).write_text(word + "\n")

    def forget(self, attempt: int = 1) -> None:
        (self.jobs / self.job(attempt)).unlink()

    def job(self, attempt: int) -> str:
        return launching._job(launching.AttemptFiles(Path(os.path.realpath(self.run_dir)), attempt))

    def submitted(self, attempt: int = 1) -> list[str]:
        path = self.jobs / f"{self.job(attempt)}.argv"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("JOBS", str(tmp_path / "jobs"))
    monkeypatch.setenv("SECRET", "hidden")
    monkeypatch.setattr(launching, "NONES_LAST_S", 0.05)
    return Scheduler(tmp_path / "jobs", tmp_path / "run")


def spec(attempt: int = 1, exclude: tuple[str, ...] = ()) -> AttemptSpec:
    return AttemptSpec(attempt, ("python", "train.py", "a b"), "/", None, SettingsInForce(), exclude_nodes=exclude)


def seen(launcher: CommandLauncher, kind: type[AttemptView], attempt: int = 1) -> AttemptView:
    """Observe until the view is of this kind: the status command runs beside the observer."""
    deadline = time.monotonic() + 20.0
    while True:
        view = launcher.observe(attempt)
        if isinstance(view, kind):
            return view
        assert time.monotonic() < deadline, f"{view}, not {kind.__name__}"
        time.sleep(0.01)


def doubted(launcher: CommandLauncher, reason: str) -> None:
    """Observe until the view gives this reason; the attempt is not ended meanwhile."""
    deadline = time.monotonic() + 20.0
    while reason not in getattr(view := launcher.observe(1), "reason", ""):
        assert not isinstance(view, Exited)
        assert time.monotonic() < deadline, view
        time.sleep(0.01)


def beat(run_dir: Path, rank: int = 0, age_s: float = 0.0) -> None:
    path = attempt_folder(run_dir, 1) / "heartbeats" / f"rank-{rank:05d}.json"
    path.write_text("{}")
    os.utime(path, (time.time() - age_s,) * 2)


def age_start(run_dir: Path, age_s: float = 3600.0) -> None:
    os.utime(attempt_folder(run_dir, 1) / "started", (time.time() - age_s,) * 2)


def test_nothing_was_started(scheduler: Scheduler) -> None:
    assert scheduler.launcher().observe(1) == NotStarted(1)
    assert scheduler.launcher().ensure_stopped(1) == NotStarted(1)


def test_a_job_is_submitted_once_with_the_command_and_the_environment(scheduler: Scheduler) -> None:
    start = START + ' && env >"$JOBS/env"'
    for _ in range(3):
        assert scheduler.launcher(start=start).ensure_started(spec(exclude=("n7", "n9"))) == Alive(1, 0, ())
    assert scheduler.submitted() == ["python train.py a b"]
    variables = dict(line.split("=", 1) for line in (scheduler.jobs / "env").read_text().splitlines() if "=" in line)
    assert variables["SENTINEL_ATTEMPT"] == "1"
    assert variables["SENTINEL_RUN_DIR"] == os.path.realpath(scheduler.run_dir)
    assert variables["SENTINEL_EXCLUDE_NODES"] == "n7,n9"
    assert variables["SENTINEL_JOB"] == scheduler.job(1)
    assert "SECRET" not in variables


def test_each_command_runs_where_the_run_was_started(scheduler: Scheduler, tmp_path: Path) -> None:
    """Also the first question, which comes before anything of the attempt is on disk: `sh status.sh` is a usual one."""
    told = tmp_path / "told"
    launcher = scheduler.launcher(
        start=f'pwd >>"{told}"; {START}', status=f'pwd >>"{told}"; {STATUS}', stop=f'pwd >>"{told}"; {STOP}'
    )
    launcher.ensure_started(spec())
    launcher.ensure_stopped(1)
    assert set(told.read_text().splitlines()) == {"/"}


def test_two_runs_of_one_name_and_two_attempts_have_different_jobs(tmp_path: Path) -> None:
    files = [launching.AttemptFiles(tmp_path / place / "run", number) for place in ("a", "b") for number in (1, 2)]
    assert len({launching._job(each) for each in files}) == 4


@pytest.mark.parametrize("word", ["pending", "running"])
def test_pending_and_running_are_alive(scheduler: Scheduler, word: str) -> None:
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    scheduler.set(word)
    assert seen(launcher, Alive) == Alive(1, 0, ())


@pytest.mark.parametrize(("word", "status"), [("exited", None), ("exited 3", 3), ("exited -9", -9)])
def test_an_exit_is_on_record_and_stays(scheduler: Scheduler, word: str, status: int | None) -> None:
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    scheduler.set(word)
    view = seen(launcher, Exited)
    assert isinstance(view, Exited)
    assert view.report.command_status == status
    scheduler.forget()
    assert scheduler.launcher().ensure_started(spec()) == view
    assert scheduler.launcher(supervises=False).observe(1) == view
    assert len(scheduler.submitted()) == 1


def test_the_ranks_own_records_tell_how_they_ended(scheduler: Scheduler) -> None:
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    record = attempt_folder(scheduler.run_dir, 1) / "exits" / "rank-00001.json"
    record.write_text(json.dumps({"code": 6, "error": "the loss scale collapsed"}))
    beat(scheduler.run_dir, rank=1)
    scheduler.set("exited 1")
    view = seen(launcher, Exited)
    assert isinstance(view, Exited)
    assert [(rank.rank, rank.code, rank.source) for rank in view.report.ranks] == [(1, 6, "record")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("exit 1", "the status command failed: it ended with 1: no output"),
        ("echo slurm_load_jobs error: Unable to contact slurm controller; exit 1", "Unable to contact slurm controller"),
        ("true", "said '', and not one of pending, running, exited, none"),
        ("echo COMPLETED", "said 'COMPLETED', and not one of"),
        ("echo running on n1", "said 'running on n1', and not one of"),
        ("echo exited soon", "behind exited stands a number"),
        ("echo running 0", "behind exited stands a number, and behind no other word"),
        ("sleep 1000", "it did not end in time"),
    ],
)
def test_an_answer_that_is_none_is_unknown_and_starts_nothing(scheduler: Scheduler, line: str, reason: str) -> None:
    scheduler.launcher().ensure_started(spec())
    launcher = scheduler.launcher(status=line, timeout="0.3s")
    deadline = time.monotonic() + 20.0
    while reason not in getattr(view := launcher.observe(1), "reason", ""):
        assert isinstance(view, Unseen)
        assert time.monotonic() < deadline, view
        time.sleep(0.01)
    with pytest.raises(EngineDown, match="attempt 2 is not started while its job may exist"):
        launcher.ensure_started(spec(2))
    assert scheduler.submitted(2) == []


def test_a_status_command_that_prints_without_an_end_is_ended(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fill the disk for as long as it may take."""
    monkeypatch.setattr(asking, "FLOOD_BYTES", 1 << 16)
    with pytest.raises(EngineDown, match="may exist: the status command failed: it did not end in time, or printed"):
        scheduler.launcher(status="exec yes", timeout="60s").ensure_started(spec())


def test_a_job_the_scheduler_does_not_know_is_not_ended_while_a_heartbeat_changes(scheduler: Scheduler) -> None:
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    age_start(scheduler.run_dir)
    beat(scheduler.run_dir)
    scheduler.forget()
    doubted(launcher, "but rank 0's heartbeat changed")
    beat(scheduler.run_dir, age_s=120.0)
    assert isinstance(seen(launcher, Exited), Exited)


@pytest.mark.parametrize("word", ["exited 0", "exited 1", "exited"])
def test_a_job_that_has_exited_by_the_schedulers_word_is_not_ended_while_a_heartbeat_changes(
    scheduler: Scheduler, word: str
) -> None:
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    beat(scheduler.run_dir)
    scheduler.set(word)
    doubted(launcher, f"says {word} of job")
    beat(scheduler.run_dir, age_s=15.0)
    assert isinstance(seen(launcher, Exited), Exited)


def test_a_job_that_comes_back_after_its_end_is_stopped_before_the_next_attempt(scheduler: Scheduler) -> None:
    launcher = scheduler.launcher(stop=STOP + ' && echo >>"$JOBS/stops"')
    launcher.ensure_started(spec())
    scheduler.set("exited 1")
    seen(launcher, Exited)
    scheduler.set("running")
    with pytest.raises(RetryLater, match="attempt 1 was taken for ended, and is not known to be gone: running"):
        launcher.ensure_started(spec(2))
    assert scheduler.submitted(2) == []
    assert (scheduler.jobs / "stops").read_text() == "\n"
    assert launcher.ensure_started(spec(2)) == Alive(2, 0, ())


def test_a_job_just_submitted_is_not_ended_because_the_scheduler_is_slow(scheduler: Scheduler) -> None:
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    scheduler.forget()
    view = seen(launcher, Unseen)
    for _ in range(50):
        view = launcher.observe(1)
        assert isinstance(view, (Unseen, Alive))
    age_start(scheduler.run_dir)
    assert isinstance(seen(launcher, Exited), Exited)


def test_a_scheduler_that_forgets_a_silent_job_for_a_moment_ends_nothing(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that was just restarted. Nothing beats, and the job was submitted long ago: its word is all there is."""
    monkeypatch.setattr(launching, "NONES_LAST_S", 1e9)
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    age_start(scheduler.run_dir)
    scheduler.forget()
    doubted(launcher, "has said so 3 times in")
    scheduler.set("running")
    assert seen(launcher, Alive) == Alive(1, 0, ())
    scheduler.forget()
    doubted(launcher, "has said so 1 time:")


def test_records_of_all_ranks_end_the_doubt(scheduler: Scheduler) -> None:
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    beat(scheduler.run_dir)
    (attempt_folder(scheduler.run_dir, 1) / "exits" / "rank-00000.json").write_text(json.dumps({"code": 0}))
    scheduler.forget()
    view = seen(launcher, Exited)
    assert isinstance(view, Exited)
    assert [(rank.rank, rank.code) for rank in view.report.ranks] == [(0, 0)]


def test_a_supervisor_killed_between_submitting_and_saying_so_submits_nothing_again(scheduler: Scheduler) -> None:
    scheduler.launcher().ensure_started(spec())
    (attempt_folder(scheduler.run_dir, 1) / "started").unlink()
    assert scheduler.launcher().ensure_started(spec()) == Alive(1, 0, ())
    assert len(scheduler.submitted()) == 1


def test_an_attempt_that_ran_and_was_forgotten_is_never_started_again(scheduler: Scheduler) -> None:
    scheduler.launcher().ensure_started(spec())
    (attempt_folder(scheduler.run_dir, 1) / "started").unlink()
    beat(scheduler.run_dir, age_s=3600.0)
    scheduler.forget()
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    assert len(scheduler.submitted()) == 1


def test_while_a_start_command_runs_no_second_one_does(scheduler: Scheduler, tmp_path: Path) -> None:
    """Also when the supervisor that began it was killed: the command keeps the lock."""
    os.mkfifo(tmp_path / "go")
    slow = f'touch "{tmp_path}/begun"; read word <"{tmp_path}/go"; {START}'
    code = (
        "import sys; from sentinel.launcher.registry import *; from sentinel.model.attempts import *\n"
        f"lines = dict(start={slow!r}, status={STATUS!r}, stop='true')\n"
        f"launcher = open_launcher('command', lines, LaunchPlace({str(scheduler.run_dir)!r}, supervises=True))\n"
        "launcher.ensure_started(AttemptSpec(1, ('x',), '/', None, SettingsInForce()))"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as supervisor:
        until((tmp_path / "begun").exists)
        supervisor.kill()
    with pytest.raises(RetryLater, match="a start command is still running"):
        scheduler.launcher().ensure_started(spec())
    with open(tmp_path / "go", "w") as go:
        go.write("go\n")
    until(lambda: bool(scheduler.submitted()))
    until(lambda: _starts(scheduler))
    assert len(scheduler.submitted()) == 1


def _starts(scheduler: Scheduler) -> bool:
    try:
        return isinstance(scheduler.launcher().ensure_started(spec()), Alive)
    except RetryLater:
        return False


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_start_command_leaves_behind_holds_no_lock(scheduler: Scheduler) -> None:
    launcher = scheduler.launcher(start=f'(sleep 1000 & echo $! >"$JOBS/left"); {START}')
    try:
        assert launcher.ensure_started(spec()) == Alive(1, 0, ())
        assert launcher.ensure_started(spec()) == Alive(1, 0, ())
    finally:
        os.kill(int((scheduler.jobs / "left").read_text()), 9)


@pytest.mark.parametrize(("line", "code"), [("no-such-program", 127), ("exit 126", 126)])
def test_a_start_command_that_never_can_is_given_up(scheduler: Scheduler, line: str, code: int) -> None:
    with pytest.raises(GiveUp, match=f"can never start anything: it ended with {code}"):
        scheduler.launcher(start=line).ensure_started(spec())
    view = scheduler.launcher().observe(1)
    assert isinstance(view, Exited)


def test_one_that_fails_now_is_tried_again(scheduler: Scheduler) -> None:
    (scheduler.jobs / "broken").touch()
    with pytest.raises(RetryLater, match="the start command failed: it ended with 1"):
        scheduler.launcher().ensure_started(spec())
    assert scheduler.launcher().observe(1) == NotStarted(1)
    (scheduler.jobs / "broken").unlink()
    assert scheduler.launcher().ensure_started(spec()) == Alive(1, 0, ())


@pytest.mark.parametrize(
    ("line", "timeout", "reason"),
    [
        (f"echo {REFUSED}; exit 1", "20s", f"attempt 1: {REFUSED}"),
        (f"echo {REFUSED} >&2; exit 1", "20s", f"attempt 1: {REFUSED}"),
        ("sleep 1000", "1s", "attempt 1: the start command: it did not end in time"),
    ],
)
def test_a_scheduler_that_refuses_is_no_command_that_fails(scheduler: Scheduler, line: str, timeout: str, reason: str) -> None:
    """A second is enough for a status that only says its word, on a busy machine as well."""
    with pytest.raises(EngineDown) as trouble:
        scheduler.launcher(start=line, status="echo none", timeout=timeout).ensure_started(spec())
    assert str(trouble.value).startswith(reason)


@pytest.mark.parametrize("line", ["echo sbatch: error: Batch job submission failed: Invalid qos specification; exit 1", "exit 1"])
def test_what_no_waiting_helps_is_none_of_the_schedulers_trouble(scheduler: Scheduler, line: str) -> None:
    with pytest.raises(RetryLater) as trouble:
        scheduler.launcher(start=line).ensure_started(spec())
    assert type(trouble.value) is RetryLater


def test_a_stop_is_believed_when_the_scheduler_says_so(scheduler: Scheduler) -> None:
    launcher = scheduler.launcher()
    launcher.ensure_started(spec())
    view = launcher.ensure_stopped(1)
    assert isinstance(view, Exited)
    assert (view.report.reason, view.report.first_failed_rank) == ("stopped by sentinel", None)
    assert launcher.ensure_stopped(1) == view


def test_a_stop_command_that_succeeds_and_does_nothing_is_not_believed(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "STOP_WAIT_S", 0.3)
    launcher = scheduler.launcher(stop="true")
    launcher.ensure_started(spec())
    with pytest.raises(NotYet, match="not known to be stopped: the stop command: it ended with 0: no output; status: running"):
        launcher.ensure_stopped(1)
    assert isinstance(seen(launcher, Alive), Alive)


def test_who_only_looks_runs_no_command(scheduler: Scheduler) -> None:
    scheduler.launcher().ensure_started(spec())
    onlooker = scheduler.launcher(supervises=False, status='touch "$JOBS/asked"; echo running')
    assert isinstance(onlooker.observe(1), Unseen)
    supervisor = scheduler.launcher()
    until(lambda: isinstance(supervisor.observe(1), Alive) and isinstance(onlooker.observe(1), Alive))
    assert not (scheduler.jobs / "asked").exists()


def test_no_rank_is_signalled_from_here(scheduler: Scheduler) -> None:
    assert scheduler.launcher().signal_ranks(1, 15) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"start": "a", "status": "b"}, "--launcher command: needs --launcher-option stop="),
        ({"start": "", "status": "b", "stop": "c"}, "--launcher-option start: is empty; write a line for sh"),
        ({"start": "a", "status": "b", "stop": "c", "every": "often"}, "--launcher-option every: "),
        ({"start": "a", "status": "b", "stop": "c", "timeout": "0s"}, "--launcher-option timeout: "),
        ({"start": "a", "status": "b", "stop": "c", "cancel": "d"}, "has no such option"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        settings_of(find_row("command"), options)


def test_a_run_without_a_training_command_is_refused() -> None:
    with pytest.raises(UsageError, match="no command to run"):
        find_row("command").check((), "/", None)
    find_row("command").check(("a-program-of-the-cluster",), "/", None)


def test_the_settings_have_defaults() -> None:
    settings = CommandSettings("a", "b", "c")
    assert (settings.every_s, settings.timeout_s) == (5.0, 60.0)
