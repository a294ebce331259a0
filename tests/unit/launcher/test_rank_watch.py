"""Which process is which rank, and how that one ended. Real processes of this machine."""

from __future__ import annotations

import json
import os
import select
import subprocess
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
