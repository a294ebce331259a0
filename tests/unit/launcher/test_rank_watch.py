"""Which process is which rank, and how that one ended. Real processes of this machine."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sentinel.launcher.rank_watch import RankWatch
from sentinel.run_files.attempt_files import AttemptFiles


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield children
    for child in children:
        child.kill()
        child.wait()


def test_a_launcher_that_was_taken_for_the_rank_gives_way_to_the_rank_it_started(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    launcher, rank = processes
    watched: list[int] = []
    watch = RankWatch(files, lambda pid: True, watched.append, watched.remove)

    def beat(pid: int) -> None:
        (files.heartbeats / "rank-00000.json").write_text(json.dumps({"pid": pid, "host": os.uname().nodename}))
        watch.poll()

    beat(launcher.pid)
    beat(launcher.pid)
    assert watch.pids == {0: launcher.pid}
    beat(rank.pid)
    assert watch.pids == {0: rank.pid}
    (handle,) = watched
    launcher.kill()
    watch.note_reaped(launcher.pid, -launcher.wait())
    assert watch.lost() is None, "the rank lives"
    rank.kill()
    assert select.select([handle], [], [], 30.0)[0]
    watch.note_gone(handle)
    assert watch.lost() == "rank 0 was ended by signal 9 (SIGKILL)"
    assert watch.are_all_gone()


@pytest.mark.parametrize(
    ("host", "environ", "is_here"),
    [
        (os.uname().nodename.upper() + ".example.org", {}, True),
        ("", {}, True),
        ("localhost", {}, True),
        ("127.0.0.1", {}, True),
        ("a-name-of-before", {"RANK": "1"}, True),
        ("a-name-of-before", {"RANK": "0"}, False),
        ("n2", {}, False),
    ],
)
def test_a_process_of_the_attempt_is_the_rank_by_its_pid_and_rank_whatever_its_heartbeat_calls_the_machine(
    tmp_path: Path, host: str, environ: dict[str, str], is_here: bool
) -> None:
    """The pid alone may be that of a process on another machine."""
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    names = {name: value for name, value in os.environ.items() if name != "RANK"}
    child = subprocess.Popen(["cat"], env=names | environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"?\n")
    child.stdin.flush()
    child.stdout.readline()  # it runs: until then /proc may show no environment
    for belongs, pids in ((False, {}), (True, {1: child.pid} if is_here else {})):
        watch = RankWatch(files, lambda pid, known=belongs: known, lambda handle: None)
        (files.heartbeats / "rank-00001.json").write_text(json.dumps({"pid": child.pid, "host": host}))
        watch.poll()
        assert watch.pids == pids
    child.communicate()


class Torchrun:
    """A process that starts ranks as torchrun does, and waits for each of them before it ends with `code`."""

    def __init__(self, ranks: int, code: int) -> None:
        script = (
            "import os, subprocess, sys\n"
            f"for rank in range({ranks}):\n"
            "    environ = dict(os.environ, RANK=str(rank), TORCHELASTIC_RUN_ID='none')\n"
            "    child = subprocess.Popen(['cat'], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            "    child.stdin.write(b'?\\n')\n"
            "    child.stdin.flush()\n"
            "    child.stdout.readline()  # it runs: until then /proc may show no environment\n"
            "    print(child.pid, flush=True)\n"
            "    globals()[f'rank{rank}'] = child\n"
            "for line in sys.stdin:\n"
            "    child = globals()[f'rank{int(line)}']\n"
            "    child.stdin.close()\n"
            "    child.wait()\n"
            "    print('waited', flush=True)\n"
            f"sys.exit({code})\n"
        )
        self.process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ranks = [int(self._read()) for _ in range(ranks)]

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def let_end(self, rank: int) -> None:
        """The rank ends, and its launcher has waited for it: nobody else can see how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{rank}\n")
        self.process.stdin.flush()
        assert self._read() == "waited\n"

    def wait(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


@pytest.mark.parametrize(("code", "lost"), [(0, None), (1, "rank 0 is gone and left no record")])
def test_ranks_that_torchrun_saw_end_before_anybody_else_ended_as_it_says(tmp_path: Path, code: int, lost: str | None) -> None:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    torchrun = Torchrun(2, code)
    watched: list[int] = []
    watch = RankWatch(files, lambda pid: True, watched.append)
    for rank, pid in enumerate(torchrun.ranks):
        (files.heartbeats / f"rank-{rank:05d}.json").write_text(json.dumps({"pid": pid, "host": os.uname().nodename}))
    watch.poll()
    for rank, handle in enumerate(list(watched)):
        torchrun.let_end(rank)
        watch.note_gone(handle)
        assert watch.lost() == "rank 0 is gone and left no record", "until its launcher says more"
        assert watch.is_word_due()
    assert torchrun.wait() == code
    watch.note_reaped(torchrun.process.pid, code)
    assert (watch.lost(), watch.is_word_due()) == (lost, False)
    assert watch.vouched == ({0, 1} if code == 0 else set())


def test_a_torchrun_that_ends_with_0_says_nothing_of_a_rank_that_was_seen_to_fail(tmp_path: Path) -> None:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    torchrun = Torchrun(2, 0)
    watched: list[int] = []
    watch = RankWatch(files, lambda pid: True, watched.append)
    for rank, pid in enumerate(torchrun.ranks):
        (files.heartbeats / f"rank-{rank:05d}.json").write_text(json.dumps({"pid": pid, "host": os.uname().nodename}))
    watch.poll()
    os.kill(torchrun.ranks[1], signal.SIGKILL)
    assert select.select([watched[1]], [], [], 30.0)[0]
    watch.note_gone(watched[1])
    for rank in (0, 1):
        torchrun.let_end(rank)
    watch.note_gone(watched[0])
    assert torchrun.wait() == 0
    watch.note_reaped(torchrun.process.pid, 0)
    assert watch.lost() == "rank 1 was ended by signal 9 (SIGKILL)"


def killed_by(pid: int) -> None:
    """SIGKILL, and until its launcher waits for it, it is a zombie that tells how it ended."""
    handle = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([handle], [], [], 30.0)[0]
    os.close(handle)


def watched_torchrun(run_dir: Path, code: int) -> tuple[Torchrun, RankWatch, list[int]]:
    """Two ranks, of which rank 0 alone has a heartbeat; and the handles that are watched. `code`: as Torchrun has it."""
    files = AttemptFiles.of(run_dir, 1)
    files.make_folders()
    torchrun = Torchrun(2, code)
    watched: list[int] = []
    watch = RankWatch(files, lambda pid: True, watched.append)
    (files.heartbeats / "rank-00000.json").write_text(json.dumps({"pid": torchrun.ranks[0], "host": os.uname().nodename}))
    watch.poll()
    return torchrun, watch, watched


def test_a_worker_without_a_heartbeat_is_watched_as_soon_as_one_of_its_torchrun_has_one(tmp_path: Path) -> None:
    """A trainer under a profile has one heartbeat, whatever the number of its ranks."""
    torchrun, watch, watched = watched_torchrun(tmp_path, 1)
    assert (watch.pids, watch.ranks) == ({0: torchrun.ranks[0], 1: torchrun.ranks[1]}, {0})
    killed_by(torchrun.ranks[1])
    watch.note_gone(watched[1])
    assert (watch.lost(), watch.reaped) == ("rank 1 was ended by signal 9 (SIGKILL)", {1: -9})
    assert not watch.are_all_gone(), "rank 0 lives"
    killed_by(torchrun.ranks[0])
    watch.note_gone(watched[0])
    assert watch.failed_order() == (1, 0)
    assert watch.are_all_gone()
    for rank in (0, 1):
        torchrun.let_end(rank)
    torchrun.wait()


def test_of_a_worker_without_a_heartbeat_that_nobody_saw_end_nothing_is_known(tmp_path: Path) -> None:
    """It may have left with 0 while rank 0 still saves."""
    torchrun, watch, watched = watched_torchrun(tmp_path, 0)
    torchrun.let_end(1)
    watch.note_gone(watched[1])
    assert (watch.lost(), watch.reaped, watch.are_all_ends_known(), watch.needs_table()) == (None, {}, False, True)
    torchrun.let_end(0)
    torchrun.wait()


@pytest.mark.parametrize("host", [os.uname().nodename, "n2", None], ids=["a wrapper", "a rank elsewhere", "nobody knows"])
def test_a_worker_that_only_wraps_the_rank_gives_way_to_its_heartbeat(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]], host: str | None
) -> None:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    torchrun = Torchrun(2, 1)
    watched: list[int] = []
    watch = RankWatch(files, lambda pid: True, watched.append, watched.remove)

    def beat(rank: int, pid: int, host: str | None) -> None:
        text = "not read" if host is None else json.dumps({"pid": pid, "host": host})
        (files.heartbeats / f"rank-{rank:05d}.json").write_text(text)
        watch.poll()

    beat(0, torchrun.ranks[0], os.uname().nodename)
    beat(1, processes[0].pid, host)
    is_here = host == os.uname().nodename
    assert watch.pids == {0: torchrun.ranks[0]} | ({1: processes[0].pid} if is_here else {})
    assert len(watched) == (2 if is_here else 1)
    killed_by(torchrun.ranks[1])
    assert watch.lost() is None, "the end of a wrapper is not the end of the rank"
    for rank in (0, 1):
        torchrun.let_end(rank)
    torchrun.wait()
