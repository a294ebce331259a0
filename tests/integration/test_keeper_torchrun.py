"""The keeper above a real torchrun: what its status hides, what its table tells, and how long a death takes to be told.

More of the same runs in tests/conformance against torchrun and its double alike.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sentinel.launcher.keeper_loop import GRACE_S, LAUNCHER_GRACE_S
from sentinel.model.attempts import AttemptSpec, Exited, ExitReport, SettingsInForce
from tests.conformance.launcher_world import Job, LocalWorld, wait_for

TWO = Job(ranks=2)
TOLD_WITHIN_S = 2.5  # what the keeper may wait: it counts in every recovery


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path, real_torchrun=True)
    yield world
    world.close()


def run_script(world: LocalWorld, script: str, ranks: int = 2) -> ExitReport:
    """The report of a torchrun of this script, which ends by itself."""
    path = world.run_dir / "script.py"
    path.write_text(script)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(path))
    world.spec(1, TWO)  # so that the world looks for strays of this attempt
    world.launcher().ensure_started(AttemptSpec(1, torchrun, str(world.run_dir), None, SettingsInForce()))
    report = world.until_view(1, Exited).report
    assert isinstance(report, ExitReport)
    return report


def test_a_death_is_told_long_before_torchrun_would_tell_it(world: LocalWorld) -> None:
    """The other rank does not leave when torchrun asks it to, so torchrun would wait for it for 30 s and kill it then. Who was
    faster stands in the report: the keeper counts whom it has killed. How long that took is printed and not judged, for a busy
    machine makes it longer; what the keeper itself waits is judged."""
    stays = Job(ranks=2, ignores_sigterm=True)
    world.launcher().ensure_started(world.spec(1, stays))
    world.until_running(1, stays)
    killed_at = time.time()
    world.signal_rank(1, 1, signal.SIGKILL)
    report = world.until_view(1, Exited).report
    print(f"SIGKILL of a rank to exit.json: {(world.folder(1) / 'exit.json').stat().st_mtime - killed_at:.2f} s")
    assert report.first_failed_rank == 1
    assert [rank.signal for rank in report.ranks] == [signal.SIGKILL] * 2
    assert "of its processes were killed" in report.reason
    assert GRACE_S + LAUNCHER_GRACE_S <= TOLD_WITHIN_S


def test_workers_that_fail_before_their_first_heartbeat_are_known_by_the_table(world: LocalWorld) -> None:
    report = run_script(world, "import os, sys\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n")
    failed = next(rank for rank in report.ranks if rank.rank == 1)
    assert (failed.code, failed.source) == (3, "launcher")
    assert report.first_failed_rank == 1
    assert report.command_status == 1


def test_a_single_worker_that_crashes_at_import_is_one_rank_with_its_own_code(world: LocalWorld) -> None:
    report = run_script(world, "import no_such_module\n", ranks=1)
    assert [(rank.rank, rank.code, rank.source) for rank in report.ranks] == [(0, 1, "launcher")]


def test_a_killed_torchrun_takes_its_workers_with_it_although_they_have_sessions_of_their_own(world: LocalWorld) -> None:
    world.launcher().ensure_started(world.spec(1, TWO))
    world.until_running(1, TWO)
    command_pid = json.loads((world.folder(1) / "keeper.json").read_text())["command_pid"]
    workers = [child.pid for child in psutil.Process(command_pid).children()]
    assert all(os.getsid(pid) == pid for pid in workers), "a torchrun habit this house relies on"
    os.kill(command_pid, signal.SIGKILL)
    report = world.until_view(1, Exited).report
    assert report.command_status == -signal.SIGKILL
    assert [(rank.signal, rank.source) for rank in report.ranks] == [(signal.SIGKILL, "reaped")] * 2
    assert report.first_failed_rank is None
    assert report.reason.startswith("the command was ended by signal 9 (SIGKILL)")


ONE_HEARTBEAT = """\
import json, os, time
folder = os.path.join(os.environ["SENTINEL_RUN_DIR"], "attempts", "0001")
name = "heartbeats/rank-00000.json" if os.environ["RANK"] == "0" else "worker.json"
with open(os.path.join(folder, name + ".new"), "w") as file:
    json.dump({"step": 1, "time_s": time.time(), "pid": os.getpid(), "host": os.uname().nodename}, file)
os.rename(os.path.join(folder, name + ".new"), os.path.join(folder, name))
time.sleep(120)
"""


def watches(keeper: int, pid: int) -> bool:
    """Whether the keeper holds a handle (pidfd) of the process."""
    texts = []
    for path in Path(f"/proc/{keeper}/fdinfo").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            texts.append(path.read_text())
    return any(f"Pid:\t{pid}\n" in text for text in texts)


def test_a_rank_without_a_heartbeat_is_known_to_have_been_killed_though_the_table_never_comes(world: LocalWorld) -> None:
    """As under a profile: one rank has a heartbeat. A torchrun that does not run prints nothing."""
    path = world.run_dir / "script.py"
    path.write_text(ONE_HEARTBEAT)
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(path))
    world.spec(1, TWO)  # so that the world looks for strays of this attempt
    world.launcher().ensure_started(AttemptSpec(1, torchrun, str(world.run_dir), None, SettingsInForce()))
    wait_for((world.folder(1) / "worker.json").exists, "rank 1")
    pid = json.loads((world.folder(1) / "worker.json").read_text())["pid"]
    keeper = json.loads((world.folder(1) / "keeper.json").read_text())
    wait_for(lambda: watches(keeper["pid"], pid), "the keeper to watch rank 1")
    os.kill(keeper["command_pid"], signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    report = world.until_view(1, Exited).report
    assert report.first_failed_rank == 1
    failed = next(rank for rank in report.ranks if rank.rank == 1)
    assert (failed.signal, failed.source) == (signal.SIGKILL, "reaped")
