"""What an agent writes of the ranks on its node: real processes, found by their marks."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from sentinel.agent.node_ranks import WALK_EVERY_S
from sentinel.agent.watching import check_node
from sentinel.client.run_layout import agent_path
from sentinel.errors import UsageError
from sentinel.launcher.process_tree import read_boot_id
from sentinel.model.agents import BeatOnNode, EndedOnNode
from sentinel.run_files.agent_files import find_report
from sentinel.run_files.attempt_files import AttemptFiles
from tests.conformance.launcher_world import wait_for
from tests.unit.agent.agent_kit import Node


def test_ranks_are_found_with_their_heartbeats_whatever_they_start(node: Node) -> None:
    pids = [node.rank(0), node.rank(3)]
    node.rank(None)  # a launcher, below which they would be
    node.beat(0, 7, pid=pids[0])
    node.beat(3, 6, pid=1)  # of a process of before
    report = node.turn()
    assert (report.node, report.boot_id, report.turn) == ("n2", read_boot_id(), 1)
    assert [(one.attempt, one.rank, one.pid) for one in report.ranks] == [(1, 0, pids[0]), (1, 3, pids[1])]
    assert [one.beat and one.beat.step for one in report.ranks] == [7, None]
    assert {one.doing for one in report.ranks} == {"runs"}
    node.beat(0, 8, pid=pids[0])
    later = node.turn()
    assert later.turn > report.turn
    assert later.ranks[0].beat == BeatOnNode(8, "forward", 8.0, None, 0, None, "")


def test_a_rank_below_a_shell_that_hands_on_its_number_is_the_one_that_beats(node: Node) -> None:
    shell = node.rank(2, words=("sh", "-c", "sleep 600 & echo $! >$SENTINEL_RUN_DIR/pid; wait"))
    wait_for(lambda: (node.run_dir / "pid").exists() and (node.run_dir / "pid").read_text().endswith("\n"), "it has a child")
    child = int((node.run_dir / "pid").read_text())
    try:
        assert [one.pid for one in node.turn().ranks] == [shell]  # until it beats, the uppermost
        node.beat(2, 1, pid=child)
        assert [one.pid for one in node.turn(6).ranks] == [child]
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_rank_without_a_number_is_found_by_the_heartbeat_that_names_it(node: Node) -> None:
    pid = node.rank(None)
    node.beat(5, 4, pid=pid)
    assert [(one.rank, one.pid) for one in node.turn().ranks] == [(5, pid)]


def test_processes_of_another_run_are_none_of_its_own(node: Node, tmp_path: Path) -> None:
    other = Node(tmp_path / "other")
    other.run_dir.mkdir()
    other.rank(0)
    try:
        assert node.turn().ranks == ()
    finally:
        other.close()


def test_processes_that_their_launcher_has_put_on_another_node_are_that_nodes(node: Node) -> None:
    node.rank(0, node="n3")
    mine = node.rank(1, node="n2.cluster")
    assert [(one.rank, one.pid) for one in node.turn().ranks] == [(1, mine)]


def test_what_ends_is_told_with_what_it_has_recorded(node: Node) -> None:
    pids = [node.rank(0), node.rank(1)]
    node.turn()
    exits = AttemptFiles.of(node.run_dir, 1).exits
    exits.mkdir(parents=True)
    (exits / "rank-00001.json").write_text('{"rank": 1, "code": 5}')
    for pid in pids:
        node.end(pid)
    report = node.turn()
    assert report.ranks == ()
    assert report.ended == (EndedOnNode(1, 0, pids[0]), EndedOnNode(1, 1, pids[1], 5))
    assert report.says_ended(1, 0, pids[0], read_boot_id())


def test_what_begins_between_two_walks_is_found_by_the_next(node: Node) -> None:
    node.turn()
    node.rank(0)
    assert node.turn().ranks == ()
    assert len(node.turn(int(WALK_EVERY_S)).ranks) == 1


def test_a_rank_that_is_stopped_is_seen_so(node: Node) -> None:
    pid = node.rank(0)
    node.turn()
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    assert [one.doing for one in node.turn().ranks] == ["stopped"]


def test_an_agent_that_is_started_anew_knows_what_has_ended(node: Node) -> None:
    pid = node.rank(0)
    life = node.turn().life
    node.end(pid)
    node.turn()
    node.begin()
    report = node.turn()
    assert report.life != life
    assert report.ended == (EndedOnNode(1, 0, pid),)


def test_one_that_is_stopped_says_so(node: Node) -> None:
    node.turn()
    node.agent.close(node.now_s)
    report = find_report(node.run_dir, "n2")
    assert report is not None
    assert report.has_left


def test_its_file_is_closed_to_others_as_the_run_is(node: Node) -> None:
    node.run_dir.chmod(0o700)
    node.turn()
    assert stat.S_IMODE(agent_path(node.run_dir, "n2").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", "../n2", "n 2", "n2\n", "x" * 300])
def test_a_name_that_is_none_of_a_machine_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--node"):
        check_node(name)


def test_an_agent_that_would_be_taken_for_a_rank_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_ATTEMPT", "1")
    monkeypatch.setenv("SENTINEL_RUN_DIR", "/r")
    with pytest.raises(UsageError, match="start it beside"):
        check_node("n2")
