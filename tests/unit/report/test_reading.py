"""A run read from outside: what its status and its incidents say, alive, left alone, damaged, or no run at all."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from sentinel.cli.top import read_top
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.client.strict_json import dumps, loads
from sentinel.clock import SystemClock
from sentinel.errors import JournalError, UsageError
from sentinel.journal import holder
from sentinel.journal.lease import Lease
from sentinel.journal.run_lock import RunLock
from sentinel.journal.standbys import StandbyFile
from sentinel.journal.store import Journal
from sentinel.model.agents import AgentReport, RankOnNode
from sentinel.report.doctor.checks import examine
from sentinel.report.reading import read_incidents, read_run, read_status
from sentinel.report.text import status_text
from sentinel.run_files.agent_files import ReportFile
from tests.unit.told_run import write_run, write_stream

STATUS_KEYS = {"run", "state", "attempt", "step", "goodput", "open_incident"}
INCIDENT_KEYS = {
    "id", "kind", "severity", "state", "onset_step", "detected_step", "time_to_detect_s", "time_to_recover_s", "steps_lost",
    "reason", "remedies", "pages",
}  # fmt: skip
REMEDY_KEYS = {"rung", "rollback_to_step", "skip", "lr_scale", "clip_norm", "attempt", "outcome", "reason"}


def test_a_finished_run(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    write_stream(run_dir, 3, [598, 599, 600], val_loss=1.9)
    status = read_status(run_dir)
    assert set(status) >= STATUS_KEYS
    assert (status["run"], status["state"], status["attempt"], status["step"]) == ("demo", "finished", 3, 600)
    assert status["total_steps"] == 600
    assert status["open_incident"] is None
    assert status["supervisor"] == "gone"
    assert 0 < status["goodput"] < 1
    assert status["wall_s"] == 150.0
    assert sum(status["ledger_s"].values()) == pytest.approx(status["wall_s"], abs=0.01)


def test_incidents_have_every_key_and_null_for_what_does_not_apply(tmp_path: Path) -> None:
    crash, spike = read_incidents(write_run(tmp_path / "run"))
    assert set(crash) >= INCIDENT_KEYS
    assert (crash["kind"], crash["state"], crash["onset_step"], crash["detected_step"]) == ("crash", "recovered", None, 132)
    assert (crash["time_to_detect_s"], crash["time_to_recover_s"], crash["steps_lost"]) == (0.5, 12.0, 32)
    (resume,) = crash["remedies"]
    assert set(resume) >= REMEDY_KEYS
    assert (resume["rung"], resume["rollback_to_step"], resume["skip"], resume["outcome"]) == (0, 100, [], "worked")
    wait, back = spike["remedies"]
    assert (wait["outcome"], wait["reason"]) == ("failed", "above its band for 4 steps")
    assert (back["rollback_to_step"], back["skip"], back["attempt"]) == (350, [[5984, 6720]], 3)
    assert back["lr_scale"] is None
    assert spike["onset_step"] == 379


def test_the_documents_are_strict_json(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run")
    assert loads(dumps(read_status(run_dir)))["run"] == "demo"
    assert len(loads(dumps(read_incidents(run_dir)))) == 2


def test_an_open_incident_is_in_the_status(tmp_path: Path) -> None:
    status = read_status(write_run(tmp_path / "run", until=91))
    assert status["state"] == "recovering"
    assert (status["open_incident"]["id"], status["open_incident"]["state"]) == (2, "open")
    assert status["incidents"] == 2


def test_the_newest_step_comes_from_the_stream_even_if_its_last_line_is_torn(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=35)
    path = write_stream(run_dir, 2, range(101, 130))
    with open(path, "a") as file:
        file.write('{"kind": "event", "event": "x", "step": 500}\n{"kind": "step", "step": 13')
    assert read_status(run_dir)["step"] == 129
    path.write_text("")
    assert read_status(run_dir)["step"] == 100  # where the attempt resumed
    path.unlink()
    assert read_status(run_dir)["step"] == 100


def test_a_long_stream_is_read_from_its_end(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=35)
    write_stream(run_dir, 2, range(101, 30_000))
    status = read_status(run_dir)
    assert (status["step"], status["total_steps"]) == (29_999, 600)


def test_a_run_whose_supervisor_was_killed_is_still_training(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    lease = json.loads((run_dir / "lease.json").read_text())
    (run_dir / "lease.json").write_text(json.dumps(lease | {"pid": 2**22 - 1, "create_time": 1.0}))
    status = read_status(run_dir)
    assert (status["state"], status["supervisor"]) == ("training", "gone")


def test_who_stands_by_is_said_and_what_follows_from_it(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    lease = json.loads((run_dir / "lease.json").read_text())
    (run_dir / "lease.json").write_text(json.dumps(lease | {"pid": 2**22 - 1, "create_time": 1.0}))
    with StandbyFile(run_dir) as standby:
        standby.write("it reaches no ranks")
        status, host = read_status(run_dir), socket.gethostname()
        (seen,) = status["standbys"]
        assert (seen["host"], seen["lacks"], seen["silent_s"]) == (host, "it reaches no ranks", None)
        words = status_text(status)
        assert f"pid {os.getpid()} on {host}: it reaches no ranks" in words
        assert f"the standby on {host} takes it over when the lease has run out" in words
        assert read_top(run_dir)["standbys"] == [host]
    assert read_status(run_dir)["standbys"] == []


def test_where_the_supervisor_and_the_ranks_are_is_said(tmp_path: Path) -> None:
    """By agents, and by heartbeats of ranks that no agent tells of."""
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    (run_dir / "agents").mkdir()
    attempt = read_status(run_dir)["attempt"]
    rows = (RankOnNode(attempt, 4, 77), RankOnNode(attempt, 5, 78), RankOnNode(attempt - 1, 9, 79))
    ReportFile(run_dir, "n2").write(AgentReport("n2", "boot", "life", 1, ranks=rows))
    os.utime(run_dir / "agents" / "node-n2.json", (time.time() - 40.0,) * 2)
    beats = run_dir / f"attempts/{attempt:04d}/heartbeats"
    beats.mkdir(parents=True, exist_ok=True)
    for rank, host in ((0, "n1"), (1, "n1"), (4, "n2"), (7, "n3")):
        (beats / f"rank-{rank:05d}.json").write_text(json.dumps({"step": 60, "phase": "forward", "host": host}))
    status = read_status(run_dir)
    assert status["supervisor_place"] == {"host": socket.gethostname(), "pid": os.getpid()}
    assert [(one["node"], one["ranks"]) for one in status["nodes"]] == [("n1", (0, 1)), ("n2", (4, 5)), ("n3", (7,))]
    words = status_text(status)
    assert f"alive (pid {os.getpid()} on {socket.gethostname()})" in words
    assert "n1 (ranks 0 to 1), n2 (ranks 4 to 5; its agent wrote 40 s ago), n3 (rank 7)" in words


def test_ranks_on_the_supervisors_machine_alone_take_no_line(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    beats = run_dir / f"attempts/{read_status(run_dir)['attempt']:04d}/heartbeats"
    beats.mkdir(parents=True, exist_ok=True)
    (beats / "rank-00000.json").write_text(json.dumps({"step": 60, "phase": "forward", "host": socket.gethostname()}))
    status = read_status(run_dir)
    assert [one["node"] for one in status["nodes"]] == [socket.gethostname()]
    assert "\nnodes " not in status_text(status)


def test_a_pid_that_now_belongs_to_somebody_else_is_no_supervisor(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    assert read_status(run_dir)["supervisor"] == "alive"  # this very process
    lease = json.loads((run_dir / "lease.json").read_text())
    (run_dir / "lease.json").write_text(json.dumps(lease | {"since_boot_s": lease["since_boot_s"] - 1}))
    assert read_status(run_dir)["supervisor"] == "gone"


def test_a_clock_that_is_set_makes_no_living_supervisor_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    for jump_s in (-3600.0, 3600.0):
        seen_s = psutil.Process().create_time() + jump_s  # boot time by the new clock, plus ticks
        monkeypatch.setattr(psutil.Process, "create_time", lambda self, seen_s=seen_s: seen_s)
        monkeypatch.setattr(SystemClock, "wall_s", lambda self, jump_s=jump_s: time.time() + jump_s)
        assert read_status(run_dir)["supervisor"] == "alive"
        (watched,) = [check for check in examine(run_dir) if check.topic == "supervisor"]
        assert watched.standing == "fine"


def test_a_lease_from_the_future_of_another_machine_tells_nothing(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    path = run_dir / "lease.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"host": "elsewhere", "boot_id": "another"}))
    os.utime(path, (time.time() + 3600.0, time.time() + 3600.0))
    status = read_status(run_dir)
    assert status["supervisor"] == "unknown"
    assert "Whether anybody watches this run is not known: its clock differs from the one here" in status_text(status)
    (watched,) = [check for check in examine(run_dir) if check.topic == "supervisor"]
    assert watched.standing == "unknown"


def test_a_supervisor_on_another_machine_lives_while_it_renews_its_lease(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    path = run_dir / "lease.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"host": "elsewhere", "boot_id": "another"}))
    assert read_status(run_dir)["supervisor"] == "alive"
    os.utime(path, (1.0, 1.0))
    assert read_status(run_dir)["supervisor"] == "gone"


def test_reading_neither_blocks_nor_is_blocked_by_the_supervisor(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=61)
    with RunLock.acquire(run_dir) as lock, Journal.open(run_dir / JOURNAL_NAME) as journal:
        Lease.publish(lock, journal.claim_epoch())
        before = sorted(path.name for path in run_dir.iterdir())
        assert read_status(run_dir)["supervisor"] == "alive"
        assert {path.name for path in run_dir.iterdir()} <= {*before, "sentinel.db-shm", "sentinel.db-wal"}


def test_time_never_stands_before_the_last_entry(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", until=61))
    assert run.now_s >= run.state.attempts[-1].launched_s


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: None, "there is no such directory"),
        (lambda path: path.write_text("x"), "is a file; name the directory of a run"),
        (lambda path: path.mkdir(), "is not the directory of a run: it holds no journal"),
        (lambda path: (path.mkdir(), (path / "run.json").write_text("{}")), "holds a run.json but no journal"),
    ],
)
def test_what_is_no_run_is_refused_with_a_sentence(tmp_path: Path, make, sentence: str) -> None:
    make(tmp_path / "run")
    for read in (read_status, read_incidents):
        with pytest.raises(UsageError, match=sentence) as raised:
            read(tmp_path / "run")
        assert str(raised.value).startswith(str(tmp_path / "run"))


def test_a_run_that_is_just_being_started_says_so(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", until=-1)
    with pytest.raises(UsageError, match="only just being started"):
        read_status(run_dir)


def test_a_damaged_journal_names_the_file(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / JOURNAL_NAME).write_bytes(b"no database at all" * 1000)
    with pytest.raises(JournalError, match=r"sentinel\.db"):
        read_status(run_dir)


def test_a_supervisor_that_stands_still_is_said_to_by_status_and_doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path / "run", until=61, released=False)
    since_s = holder.boot_s()
    monkeypatch.setattr(holder, "boot_s", lambda: since_s + 60.0)
    status = read_status(run_dir)
    assert status["supervisor"] == "stuck"
    assert "Nobody watches this run: its supervisor holds the run, and its loop stands still" in status_text(status)
    assert f"sentinel doctor {run_dir}" in status_text(status)
    (watched,) = [check for check in examine(run_dir) if check.topic == "supervisor"]
    assert (watched.standing, "has stood still for 60 s" in watched.what) == ("missing", True)
    for room in ((64 << 10) // 4096 - 1, 0):
        found = os.statvfs(run_dir)
        full = SimpleNamespace(f_bavail=room, f_frsize=4096, f_files=found.f_files, f_favail=found.f_favail)
        monkeypatch.setattr("sentinel.filesystem.os.statvfs", lambda place, full=full: full)
        assert "The disk is full: nothing can be written to" in status_text(read_status(run_dir))
        (watched,) = [check for check in examine(run_dir) if check.topic == "supervisor"]
        assert watched.remedy == f"free space, and it goes on by itself: df -h {run_dir}"
