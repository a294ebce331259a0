"""Whether the supervisor of a lease lives: by its process here, by the time since boot beside it, by the wall clock elsewhere."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sentinel.client.run_layout import LEASE_NAME
from sentinel.clock import SystemClock, boot_s
from sentinel.journal import holder
from sentinel.journal.holder import judge_holder
from sentinel.journal.identity import ProcessIdentity, read_own_identity
from sentinel.journal.lease import STALE_AFTER_S, LeaseRecord
from sentinel.launcher.process_tree import read_process

ELSEWHERE = {"boot_id": "another"}
CONTAINED = {"pid_namespace": "pid:[1]"}


@pytest.fixture
def who() -> Iterator[ProcessIdentity]:
    """A process that lives."""
    with subprocess.Popen(["sleep", "300"]) as sleeper:
        seen = read_process(sleeper.pid)
        assert seen is not None
        created = psutil.Process(sleeper.pid).create_time()
        yield dataclasses.replace(read_own_identity(), pid=sleeper.pid, since_boot_s=seen.create_time, create_time=created)
        sleeper.kill()


def judged(run_dir: Path, who: ProcessIdentity, age_s: float = 0.0, **of_lease: object) -> str:
    """Of a lease whose file is so old by the wall clock."""
    path = run_dir / LEASE_NAME
    path.touch()
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    return judge_holder(run_dir, LeaseRecord(1, who, 0, **of_lease))  # type: ignore[arg-type]


@pytest.mark.parametrize("jump_s", [-86400.0, -100.0, 100.0, 86400.0])
def test_a_living_process_of_this_boot_is_alive_whatever_the_clock_was_set_to(
    tmp_path: Path, who: ProcessIdentity, jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    created_s = who.create_time + jump_s
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: created_s)
    monkeypatch.setattr(SystemClock, "wall_s", lambda self: time.time() + jump_s)
    assert judged(tmp_path, who) == "alive"
    assert judged(tmp_path, dataclasses.replace(who, pid=2**22 - 1)) == "gone"
    assert judged(tmp_path, dataclasses.replace(who, since_boot_s=1.0)) == "gone", "the pid is another's"


@pytest.mark.parametrize("jump_s", [-86400.0, 86400.0])
def test_one_that_cannot_be_seen_is_judged_by_the_time_since_boot(
    tmp_path: Path, who: ProcessIdentity, jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    contained, now_s = dataclasses.replace(who, **CONTAINED), boot_s()
    monkeypatch.setattr(holder, "boot_s", lambda: now_s)
    assert judged(tmp_path, contained, jump_s, renewed_boot_s=now_s - STALE_AFTER_S + 1.0) == "alive"
    assert judged(tmp_path, contained, jump_s, renewed_boot_s=now_s - STALE_AFTER_S) == "gone"


@pytest.mark.parametrize(
    ("age_s", "standing"),
    [(0.0, "alive"), (STALE_AFTER_S / 2, "alive"), (-STALE_AFTER_S / 2, "alive"), (3600.0, "gone"), (-3600.0, "unknown")],
)
def test_between_machines_the_wall_clock_must_do_and_a_lease_from_the_future_tells_nothing(
    tmp_path: Path, who: ProcessIdentity, age_s: float, standing: str
) -> None:
    elsewhere = dataclasses.replace(who, **ELSEWHERE)
    assert judged(tmp_path, elsewhere, age_s) == standing
    assert judged(tmp_path, elsewhere, age_s, renewed_boot_s=boot_s()) == standing, "the time since another boot"


def test_a_lease_of_an_older_version_is_judged_as_far_as_it_goes(tmp_path: Path, who: ProcessIdentity) -> None:
    older = dataclasses.replace(who, since_boot_s=None, pid_namespace="")
    stepped = dataclasses.replace(older, create_time=older.create_time + 3600.0)
    assert judged(tmp_path, older, 3600.0) == "alive"
    assert [judged(tmp_path, stepped, age_s) for age_s in (5.0, 3600.0, -3600.0)] == ["alive", "gone", "unknown"]


def test_what_was_let_go_and_what_nobody_held_is_gone(tmp_path: Path, who: ProcessIdentity) -> None:
    assert judged(tmp_path, who, released=True) == "gone"
    assert judge_holder(tmp_path, None) == "gone"


def test_a_lease_that_cannot_be_looked_at_proves_nothing(tmp_path: Path, who: ProcessIdentity) -> None:
    assert judge_holder(tmp_path / "none", LeaseRecord(1, dataclasses.replace(who, **ELSEWHERE), 0)) == "unknown"


def test_a_living_supervisor_whose_lease_grows_old_is_stuck(tmp_path: Path, who: ProcessIdentity) -> None:
    """Its process is there; what it does not do is turn."""
    assert judged(tmp_path, who, renewed_boot_s=boot_s() - 20.0) == "alive"
    assert judged(tmp_path, who, renewed_boot_s=boot_s() - 26.0) == "stuck"
    assert judged(tmp_path, who, renewed_boot_s=boot_s() - 26.0, released=True) == "gone"
    why = holder.why_stuck(LeaseRecord(1, who, 0, renewed_boot_s=boot_s() - 3600.0))
    assert why.startswith("its loop has stood still for 1 h")


def test_a_supervisor_that_a_signal_stopped_is_stuck_and_the_remedy_is_named(tmp_path: Path, who: ProcessIdentity) -> None:
    os.kill(who.pid, signal.SIGSTOP)
    os.waitpid(who.pid, os.WUNTRACED)
    assert judged(tmp_path, who, renewed_boot_s=boot_s()) == "stuck"
    assert f"kill -CONT {who.pid}" in holder.why_stuck(LeaseRecord(1, who, 0, renewed_boot_s=boot_s()))
    os.kill(who.pid, signal.SIGCONT)
    os.waitpid(who.pid, os.WCONTINUED)
    assert judged(tmp_path, who, renewed_boot_s=boot_s()) == "alive"
