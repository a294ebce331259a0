"""Ranks on other machines: what proves that they have ended, and what is seen and said where nothing does."""

from __future__ import annotations

import itertools
import json
import os
import random
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.spare_place import SparePlace
from sentinel.errors import NotYet
from sentinel.launcher import elsewhere, keeper
from sentinel.launcher.attempt_view import read_view
from sentinel.launcher.elsewhere import EndedHere, judge_end, read_ended_here, write_ended_here
from sentinel.launcher.exit_report import read_report
from sentinel.launcher.local import LocalLauncher
from sentinel.launcher.process_tree import read_boot_id
from sentinel.model.attempts import Exited, ExitReport, Orphaned, RankElsewhere, RankExit, Unseen
from sentinel.run_files.attempt_files import AttemptFiles, is_same_host
from sentinel.run_files.cluster_job import ClusterJob

HERE = socket.gethostname()
WHY = "srun was killed before it could end what it had started"
SEEN = ExitReport(
    -9, (RankExit(0, None, 9, "reaped", "was ended by signal 9"), RankExit(1, None, None, "unknown")), 1, "stopped by request"
)


@pytest.fixture
def files(tmp_path: Path) -> AttemptFiles:
    files = AttemptFiles.of(tmp_path, 1)
    files.make_folders()
    beat(files, 0, HERE)
    beat(files, 1, "n2")
    one = {"pid": 2**22 + 1, "create_time": 1.0, "boot_id": "before", "host": HERE, "command_pid": None}
    files.keeper.write_text(json.dumps(one))
    files.spec.write_text(json.dumps({"v": 1, "argv": ["srun", "train"]}))
    return files


def beat(files: AttemptFiles, rank: int, host: str, step: int = 40) -> None:
    value = {"step": step, "phase": "backward", "time_s": 1.0, "pid": 4242 + rank, "host": host}
    (files.heartbeats / f"rank-{rank:05d}.json").write_text(json.dumps(value))


def record(files: AttemptFiles, rank: int, **more: Any) -> None:
    (files.exits / f"rank-{rank:05d}.json").write_text(json.dumps({"rank": rank, "code": 1, "time_s": 1.0} | more))


def beat_on(files: AttemptFiles, hosts: dict[int, str], steps: Iterator[int]) -> None:
    for rank, host in hosts.items():
        beat(files, rank, host, next(steps))


class Clock:
    """In the place of `time`: sleeping takes no time, and lets something happen."""

    def __init__(self, happens: Callable[[], None] = lambda: None) -> None:
        self.now_s, self._happens = 100.0, happens

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self._happens()


def ended(files: AttemptFiles, why: str = WHY, happens: Callable[[], None] = lambda: None, **more: Any) -> ExitReport | EndedHere:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elsewhere, "time", Clock(happens))
        return judge_end(files, HERE, SEEN, why, **more)


def test_without_a_proof_there_is_no_exit_report(files: AttemptFiles) -> None:
    found = ended(files)
    assert isinstance(found, EndedHere)
    assert (found.why, found.host, found.report) == (WHY, HERE, SEEN)


def test_a_record_proves_it_and_tells_how(files: AttemptFiles) -> None:
    record(files, 1, error="CUDA error")
    found = ended(files)
    assert isinstance(found, ExitReport)
    assert found.ranks[1] == RankExit(1, 1, None, "record", "CUDA error")
    assert found.first_failed_rank is None  # it was blamed because nothing was known of it


def test_a_record_that_is_written_meanwhile_is_waited_for(files: AttemptFiles) -> None:
    found = ended(files, happens=lambda: record(files, 1, peer_lost=True))
    assert isinstance(found, ExitReport)
    assert found.ranks[1].lost_peers


def test_the_word_of_a_client_that_waited_proves_it_where_no_heartbeat_contradicts(files: AttemptFiles) -> None:
    assert ended(files, why="") == SEEN


def test_a_heartbeat_that_changes_contradicts_that_word(files: AttemptFiles) -> None:
    steps = iter(range(41, 4100))
    found = ended(files, why="", happens=lambda: beat(files, 1, "n2", next(steps)))
    assert isinstance(found, EndedHere)
    assert "the heartbeat of rank 1 has changed since" in found.why


def test_silence_alone_proves_nothing(files: AttemptFiles) -> None:
    assert isinstance(ended(files, why="the command is not known to wait for what it starts on other machines"), EndedHere)


def test_torchruns_table_proves_whom_it_names(files: AttemptFiles) -> None:
    table = """============
train FAILED
------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_15:54:00
  rank      : 1 (local_rank: 0)
  exitcode  : -9 (pid: 4339)
"""
    files.launcher_err.write_text(table)
    assert isinstance(ended(files), ExitReport)


def test_ranks_of_this_machine_need_no_proof(files: AttemptFiles) -> None:
    (files.heartbeats / "rank-00001.json").unlink()
    beat(files, 1, f"{HERE}.cluster.example")
    assert ended(files) == SEEN


def test_a_scheduler_client_killed_before_anything_was_heard_leaves_a_doubt(files: AttemptFiles) -> None:
    for rank in (0, 1):
        (files.heartbeats / f"rank-{rank:05d}.json").unlink()
    assert isinstance(ended(files, is_unheard=True), EndedHere)


def test_what_was_seen_is_read_back(files: AttemptFiles) -> None:
    job, ranks = ClusterJob("slurm/c/71", 2), (RankElsewhere(1, "n2", 4243), RankElsewhere(4, "n3"))
    found = EndedHere(HERE, SEEN, frozenset({3}), WHY, is_unheard=True, job=job, unproven=ranks)
    write_ended_here(files, found)
    assert read_ended_here(files) == found


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ranks": 3}'])
def test_a_file_that_makes_no_sense_is_no_end(files: AttemptFiles, text: str) -> None:
    (files.folder / elsewhere.ENDED_HERE).write_text(text)
    view = read_view(files)
    assert isinstance(view, Unseen)
    assert (view.has_ended_here, "ended-here.json" in view.reason) == (False, True)


# What others see of it.


def unproven(files: AttemptFiles) -> None:
    write_ended_here(files, EndedHere(HERE, SEEN, frozenset(), WHY, unproven=(RankElsewhere(1, "n2", 4243),)))


def test_the_view_names_who_may_live_why_and_what_ends_the_doubt(files: AttemptFiles) -> None:
    unproven(files)
    view = read_view(files)
    assert isinstance(view, Unseen)
    assert (view.has_ended_here, view.ranks) == (True, (RankElsewhere(1, "n2", 4243),))
    assert view.reason == (
        f"nothing proves the end of rank 1 on n2 (pid 4243): {WHY}; "
        f"when nothing of it runs there any more: touch {files.folder}/gone"
    )


def test_a_stop_answers_not_yet_and_writes_no_exit(files: AttemptFiles, tmp_path: Path) -> None:
    unproven(files)
    with pytest.raises(NotYet, match="rank 1 on n2"):
        LocalLauncher(tmp_path).ensure_stopped(1)
    assert read_report(files) is None


def test_a_record_that_comes_later_is_the_end(files: AttemptFiles, tmp_path: Path) -> None:
    unproven(files)
    record(files, 1, peer_lost=True)
    view = read_view(files)
    assert isinstance(view, Exited)
    assert view.report.ranks[1] == RankExit(1, 1, None, "record", None, lost_peers=True)
    assert LocalLauncher(tmp_path).ensure_stopped(1) == view
    assert read_report(files) == view.report


def test_a_person_may_say_that_nothing_lives_any_more(files: AttemptFiles, tmp_path: Path) -> None:
    write_ended_here(files, EndedHere(HERE, SEEN, frozenset(), WHY, is_unheard=True))
    assert isinstance(read_view(files), Unseen)
    (files.folder / "gone").touch()
    assert isinstance(LocalLauncher(tmp_path).ensure_stopped(1), Exited)


def test_a_rank_that_began_to_beat_after_the_keeper_had_left_counts_too(files: AttemptFiles) -> None:
    unproven(files)
    record(files, 1)
    beat(files, 7, "n3")
    view = read_view(files)
    assert isinstance(view, Unseen)
    assert [one.host for one in view.ranks] == ["n3"]


def test_the_ranks_of_a_dead_keeper_on_other_machines_are_no_end_either(files: AttemptFiles, tmp_path: Path) -> None:
    """The machine was restarted under the keeper: nobody saw how srun ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elsewhere, "time", Clock())
        with pytest.raises(NotYet, match="nobody saw how srun ended"):
            LocalLauncher(tmp_path).ensure_stopped(1)
    assert read_report(files) is None
    assert isinstance(read_view(files), Unseen)


def test_a_client_that_a_dead_keeper_left_may_have_started_ranks_that_nobody_has_heard_yet(
    files: AttemptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They import for minutes before their first heartbeat."""
    for entry in files.heartbeats.iterdir():
        entry.unlink()
    with pytest.raises(NotYet, match="of which nothing was heard"):
        LocalLauncher(tmp_path).ensure_stopped(1)
    assert read_report(files) is None


@pytest.mark.parametrize("keeper_host", [HERE, ""])
def test_a_rank_that_a_dead_keeper_left_here_is_not_elsewhere_whatever_it_calls_the_machine(
    files: AttemptFiles, tmp_path: Path, keeper_host: str
) -> None:
    """A machine may be given another name while it runs; keepers of before named none."""
    dead = {"pid": 2**22 + 1, "create_time": 1.0, "boot_id": read_boot_id(), "host": keeper_host, "command_pid": None}
    files.keeper.write_text(json.dumps(dead))
    files.spec.write_text(json.dumps({"v": 1, "argv": ["python", "train.py"]}))
    rank = subprocess.Popen(["cat"], env=dict(os.environ, RANK="1", **files.environment), stdin=-1, stdout=-1)
    assert rank.stdin is not None
    assert rank.stdout is not None
    rank.stdin.write(b"?\n")
    rank.stdin.flush()
    rank.stdout.readline()  # it runs: until then /proc may show no environment
    beat(files, 1, "a-name-of-before")
    told = json.loads((files.heartbeats / "rank-00001.json").read_text()) | {"pid": rank.pid}
    (files.heartbeats / "rank-00001.json").write_text(json.dumps(told))
    assert isinstance(LocalLauncher(tmp_path).ensure_stopped(1), Exited)
    assert rank.wait() == -9
    rank.stdin.close()
    rank.stdout.close()


def test_a_later_start_of_the_same_job_is_the_schedulers_word(
    files: AttemptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ended_here(files, EndedHere(HERE, SEEN, frozenset(), WHY, job=ClusterJob("slurm/c/71", 0)))
    for job, restarts, is_over in (("71", "0", False), ("72", "3", False), ("71", "1", True)):
        for name, value in (("SLURM_JOB_ID", job), ("SLURM_RESTART_COUNT", restarts), ("SLURM_CLUSTER_NAME", "c")):
            monkeypatch.setenv(name, value)
        assert isinstance(read_view(files), Exited if is_over else Unseen)


def test_the_keeper_of_a_dead_node_has_ended_when_its_job_was_started_anew(
    files: AttemptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = json.loads(files.keeper.read_text()) | {"host": "n9", "job": {"id": "slurm//71", "restarts": 0}}
    files.keeper.write_text(json.dumps(one))
    view = read_view(files)
    assert isinstance(view, Unseen)
    assert not view.has_ended_here
    monkeypatch.setenv("SLURM_JOB_ID", "71")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert isinstance(read_view(files), Orphaned)
    monkeypatch.setattr(elsewhere, "time", Clock())
    assert isinstance(LocalLauncher(tmp_path).ensure_stopped(1), Exited)


def test_drawn_ends_are_whole_exactly_where_every_rank_elsewhere_is_proven(tmp_path: Path) -> None:
    """By its record, by torchrun's table, or by a client that waited and whose word no later heartbeat contradicts."""
    counts = {True: 0, False: 0}
    for seed in range(120):
        dice = random.Random(f"elsewhere {seed}")
        files = AttemptFiles.of(tmp_path / str(seed), 1)
        files.make_folders()
        hosts = {rank: dice.choice((HERE, "n2", "n3")) for rank in range(dice.randrange(1, 7))}
        recorded = {rank for rank in hosts if dice.random() < 0.5}
        reaped = {rank for rank, host in hosts.items() if host == HERE and rank not in recorded}
        beats_on = {rank for rank in hosts if dice.random() < 0.15}
        why, table = dice.choice(("", WHY)), {rank for rank in hosts if dice.random() < 0.2}
        for rank, host in hosts.items():
            beat(files, rank, host)
        for rank in recorded:
            record(files, rank)
        entries = "".join(f"  rank : {rank} (local_rank: 0)\n  exitcode : -9 (pid: 4339)\n" for rank in sorted(table))
        files.launcher_err.write_text(f"============\ntrain FAILED\n------------\n{entries}" if table else "")

        happens = partial(beat_on, files, {rank: hosts[rank] for rank in beats_on}, itertools.count(41))
        exits = tuple(
            RankExit(rank, None, 9, "reaped") if rank in reaped else RankExit(rank, None, None, "unknown") for rank in hosts
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(elsewhere, "time", Clock(happens))
            patch.setattr(elsewhere, "QUIET_S", 0.5)  # three looks
            found = judge_end(files, HERE, ExitReport(1, exits, None), why)
        doubted = {rank for rank, host in hosts.items() if host != HERE} - recorded - table
        is_whole = not doubted or (not why and not doubted & beats_on)
        assert isinstance(found, ExitReport) == is_whole, f"seed {seed}: {hosts} {recorded} {table} {beats_on} {why!r}"
        counts[is_whole] += 1
    assert min(counts.values()) > 20


def test_while_it_is_waited_for_no_heartbeat_is_read(files: AttemptFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    unproven(files)
    monkeypatch.setattr(elsewhere, "find_elsewhere", None)
    assert isinstance(read_view(files), Unseen)


@pytest.mark.parametrize("changed", [{"unproven": 3}, {"unproven": [3, {"rank": "1"}]}, {"named": 3}, {"host": 3}, {"job": 3}])
def test_words_in_it_that_make_no_sense_are_passed_over(files: AttemptFiles, changed: dict[str, Any]) -> None:
    unproven(files)
    path = files.folder / elsewhere.ENDED_HERE
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert isinstance(read_view(files), Unseen), "rank 1 is found again by its heartbeat"


# What the keeper writes.


def left(files: AttemptFiles, report: ExitReport) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elsewhere, "time", Clock())
        return keeper._write_end(files, SparePlace(files.run_dir, files.attempt), report, {})


def test_the_keeper_of_a_client_that_was_killed_writes_what_it_saw_and_no_exit(files: AttemptFiles) -> None:
    assert left(files, SEEN)
    ended = read_ended_here(files)
    assert ended is not None
    assert (ended.host, ended.unproven) == (HERE, (RankElsewhere(1, "n2", 4243),))
    assert ended.why == WHY
    assert not files.exit.exists()


def test_the_keeper_of_a_client_that_waited_writes_the_exit(files: AttemptFiles) -> None:
    assert left(files, replace(SEEN, command_status=137))
    assert read_ended_here(files) is None
    assert read_report(files) == replace(SEEN, command_status=137)


def test_the_keeper_of_ranks_that_are_all_here_writes_the_exit(files: AttemptFiles) -> None:
    (files.heartbeats / "rank-00001.json").unlink()
    report = ExitReport(1, (RankExit(0, 1, None, "reaped"),), 0)
    assert left(files, report)
    assert read_report(files) == report


def test_a_client_killed_before_anything_was_heard_is_a_doubt_and_a_program_is_none(files: AttemptFiles) -> None:
    for rank in (0, 1):
        (files.heartbeats / f"rank-{rank:05d}.json").unlink()
    report = ExitReport(-9, (RankExit(0, None, 9, "reaped"),), 0)
    assert left(files, report)
    view = read_view(files)
    assert isinstance(view, Unseen)
    assert "of which nothing was heard" in view.reason
    (files.folder / elsewhere.ENDED_HERE).unlink()
    files.spec.write_text(json.dumps({"v": 1, "argv": ["python", "train.py"]}))
    assert left(files, report)
    assert read_report(files) == report


def test_a_rank_that_was_seen_to_be_a_process_of_this_machine_is_not_elsewhere_whatever_it_calls_it(files: AttemptFiles) -> None:
    """Only by the pid that its newest heartbeat names: a later start of the rank may be on another machine."""
    assert isinstance(ended(files, here={1: 4243}), ExitReport)
    late = ended(files, here={1: 4244})
    assert isinstance(late, EndedHere)
    assert late.unproven == (RankElsewhere(1, "n2", 4243),)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [("n1", "N1.cluster.local", True), ("10.0.0.1", "10.0.0.2", False), ("10.0.0.1", "10.0.0.1", True), ("n1", "n2", False)],
)
def test_a_machine_that_is_called_by_its_address_is_not_every_machine_of_its_network(one: str, other: str, is_same: bool) -> None:
    assert is_same_host(one, other) is is_same
