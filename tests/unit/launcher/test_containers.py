"""A rank in a container of this machine: another host name and another pid, and the same kernel."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sentinel.client.machine import read_boot_id
from sentinel.launcher import containers
from sentinel.launcher.containers import has_ended_here, sees_every_process
from sentinel.launcher.elsewhere import EndedHere, find_unproven, judge_end, settled_report
from sentinel.model.attempts import ExitReport, RankExit
from sentinel.run_files.attempt_files import AttemptFiles

BOOT = read_boot_id()
LONG_AGO, LATER = 0.0, 1e12
# Takes a pid that no other namespace is likely to have in it, and says which.
CONTAINER = "echo 31337 > /proc/sys/kernel/ns_last_pid; sh -c 'echo $$; read line'; exit 0"
SEEN = ExitReport(137, (RankExit(0, None, None, "unknown"),), None, "the command was ended by signal 9")


@contextmanager
def container() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A process in a pid namespace of its own: its pid there."""
    words = ["unshare", "--pid", "--fork", "--uts", "--kill-child", "sh", "-c", CONTAINER]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.strip().isdigit() or not sees_every_process():
            pytest.skip("no pid namespace can be made here, or not every process is seen")
        yield int(line), process
    finally:
        process.communicate("\n", timeout=30.0)


def test_a_rank_in_a_container_has_ended_when_no_process_can_be_it() -> None:
    with container() as (pid, process):
        assert pid != process.pid
        assert not has_ended_here(BOOT, pid, LONG_AGO)
    assert has_ended_here(BOOT, pid, LONG_AGO)


def test_what_is_older_than_the_attempt_is_no_rank_of_it() -> None:
    with container() as (pid, _):
        assert has_ended_here(BOOT, pid, LATER)


@pytest.mark.parametrize("boot_id", [None, "", 7, "of-another-machine"])
def test_of_another_machine_and_of_an_older_client_nothing_is_known(boot_id: object) -> None:
    assert not has_ended_here(boot_id, 4_000_000, LONG_AGO)


def test_without_a_pid_and_inside_a_container_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_ended_here(BOOT, None, LONG_AGO)
    monkeypatch.setattr(containers, "FIRST_NAMESPACE", "pid:[1]")
    assert not has_ended_here(BOOT, 4_000_000, LONG_AGO)


def test_a_process_that_cannot_be_read_may_be_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_pid_in_its_namespace", lambda pid: None)
    assert not has_ended_here(BOOT, 4_000_000, LONG_AGO)


def test_the_attempt_of_a_container_is_over_when_its_processes_are(tmp_path: Path) -> None:
    """`bash train.sh`, which runs docker: nobody waits for the rank, and its heartbeat names the container."""
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    files.keeper.write_text(json.dumps({"pid": 2**22, "create_time": LONG_AGO, "boot_id": BOOT, "host": "n1"}))
    with container() as (pid, _):
        beat = {"step": 4, "phase": "backward", "time_s": 1.0, "pid": pid, "host": "3f9c1d", "boot_id": BOOT}
        (files.heartbeats / "rank-00000.json").write_text(json.dumps(beat))
        (lives,) = find_unproven(files, "n1", frozenset())
        assert (lives.rank, lives.host) == (0, "3f9c1d")
        ended = EndedHere("n1", SEEN, frozenset(), "the command is not known to wait", unproven=(lives,))
        assert settled_report(files, ended) == (None, (lives,))
    report, unproven = settled_report(files, ended)
    assert (report is not None, unproven) == (True, ())
    assert isinstance(judge_end(files, "n1", SEEN, "the command is not known to wait"), ExitReport)
