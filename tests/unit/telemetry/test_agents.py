"""What a supervisor makes of the agents' files: heartbeats of their ranks, what silent ranks do, hardware, and who is missed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sentinel.client.run_layout import agent_orders_path, agent_path
from sentinel.model.agents import AgentReport, BeatOnNode, NodeHardware, RankOnNode
from sentinel.model.readings import Doing, HardwareReading, Heartbeat, Reading, SilentRank, SourceReading
from sentinel.run_files.agent_files import ReportFile
from sentinel.run_files.agent_orders import OrderBook, read_orders
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.telemetry.agent_sweep import LIST_EVERY_S, OLD_EVERY_S, OLD_S
from sentinel.telemetry.agents import BLIND_S, FALLBACK_S, REPORTS_PER_POLL, YOUNG_S, Agents
from sentinel.telemetry.heartbeats import Heartbeats
from sentinel.telemetry.run_telemetry import RunTelemetry
from sentinel.telemetry.silent_ranks import SilentRanks
from tests.bench.willing_world import StillAlive

XID = HardwareReading("kernel_log", "xid", "Xid 79", "n2", "0000:3b:00", 79.0, by_agent=True)


class Watched:
    """Attempt 1 of a run on nodes that are called n2, n3 …, by a clock that is an argument."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.agents = Agents(run_dir, OrderBook(run_dir, 3), own_thread=False)
        self.beats = Heartbeats(run_dir, 1)
        self.now_s = 1000.0
        self._reports: dict[str, AgentReport] = {}

    def write(self, node: str, *ranks: tuple[int, int], **more: object) -> None:
        """Its agent has looked again. `ranks`: each with the step of its heartbeat."""
        before = self._reports.get(node, AgentReport(node, "b", "l", 0))
        rows = tuple(RankOnNode(1, rank, 100 + rank, beat=beat(rank, step, node)) for rank, step in ranks)
        report = replace(before, turn=before.turn + 1, **({"ranks": rows} | more))  # type: ignore[arg-type]
        self._reports[node] = report
        ReportFile(self.run_dir, node).write(report)

    def poll(self, after_s: float = 1.0) -> list[Reading]:
        self.now_s += after_s
        sweep = self.agents.sweep
        for name in sweep.due(self.now_s):
            sweep.read(name, self.now_s)
        out = self.agents.poll(self.now_s, 1, self.beats.lives)
        out += self.beats.hear(self.agents.reports, self.now_s)
        return out + self.beats.poll(self.now_s, self.agents.covered(self.now_s))


def beat(rank: int, step: int, node: str) -> BeatOnNode:
    return BeatOnNode(step, "forward", float(step), None, 0, None, node)


def heard(readings: list[Reading]) -> list[tuple[int, int, str]]:
    return [(one.rank, one.step, one.host) for one in readings if isinstance(one, Heartbeat)]


def seeing(readings: list[Reading]) -> list[bool]:
    return [one.ok for one in readings if isinstance(one, SourceReading) and one.source == "agents" and not one.remark]


def write_beat(run_dir: Path, rank: int, step: int, node: str) -> None:
    folder = AttemptFiles.of(run_dir, 1).heartbeats
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"rank-{rank:05d}.json").write_text(json.dumps(beat(rank, step, node)._asdict() | {"pid": 100 + rank}))


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_heartbeats_come_by_agents_each_once_and_their_files_are_not_read(watched: Watched) -> None:
    write_beat(watched.run_dir, 0, 1, "n2")
    write_beat(watched.run_dir, 5, 1, "n9")  # of a node without an agent
    watched.write("n2", (0, 4), (1, 4))
    watched.write("n3", (2, 4))
    assert heard(watched.poll()) == [(0, 4, "n2"), (1, 4, "n2"), (2, 4, "n3"), (5, 1, "n9")]
    watched.write("n2", (0, 5), (1, 4))
    assert heard(watched.poll()) == [(0, 5, "n2")]
    assert watched.beats.lives[1].changed_s == 1001.0
    assert heard(watched.poll()) == []


def test_ranks_whose_agents_write_no_more_are_read_from_their_own_files_again(watched: Watched) -> None:
    watched.write("n2", (0, 4))
    watched.poll()
    write_beat(watched.run_dir, 0, 4, "n2")
    assert heard(watched.poll(FALLBACK_S + 0.1)) == []  # the same heartbeat is no sign of life
    write_beat(watched.run_dir, 0, 5, "n2")
    assert heard(watched.poll()) == [(0, 5, "n2")]
    watched.write("n2", (0, 6))
    assert heard(watched.poll()) == [(0, 6, "n2")]


def test_a_rank_that_no_report_names_any_more_is_read_from_its_file(watched: Watched) -> None:
    watched.write("n2", (0, 4), (1, 4))
    watched.poll()
    write_beat(watched.run_dir, 1, 9, "n2")
    watched.write("n2", (0, 5))
    assert heard(watched.poll(LIST_EVERY_S)) == [(0, 5, "n2"), (1, 9, "n2")]


def test_ranks_of_a_young_attempt_are_looked_for_while_one_agent_tells_of_one_of_them(watched: Watched) -> None:
    """Agents see a new attempt seconds apart. A fault on the node of the first was blamed on "the only node that is known of"."""
    AttemptFiles.of(watched.run_dir, 1).heartbeats.mkdir(parents=True)
    watched.write("n2")
    watched.poll()  # the attempt was launched, and no rank has beaten
    watched.write("n2", (1, 4))
    assert heard(watched.poll(0.3)) == [(1, 4, "n2")]
    write_beat(watched.run_dir, 0, 4, "n1")
    watched.write("n2", (1, 5))
    assert heard(watched.poll(0.6)) == [(1, 5, "n2"), (0, 4, "n1")]


def test_an_agent_that_is_gone_is_blindness_and_nothing_else(watched: Watched) -> None:
    watched.write("n2", (0, 4))
    watched.write("n3", (1, 4))
    watched.poll()
    for _ in range(int(BLIND_S)):
        watched.write("n3", (1, 4))
        assert watched.poll() == []
    watched.write("n3", (1, 4))
    found = watched.poll(1.5)
    assert seeing(found) == [False]
    assert isinstance(found[0], SourceReading)
    assert found[0].reason.startswith("no word from the agent of n2 (silent for 17 s): ")
    assert watched.poll() == []
    watched.write("n2", (0, 4))
    watched.write("n3", (1, 4))
    found = watched.poll()
    assert seeing(found) == [True]
    assert found[0].reason == "every agent writes again"  # type: ignore[union-attr]


def test_one_that_was_stopped_is_missed_at_once_and_a_second_one_is_told_too(watched: Watched) -> None:
    watched.write("n2", (0, 4))
    watched.write("n3", (1, 4))
    watched.poll()
    watched.write("n2", (0, 4), has_left=True)
    assert seeing(watched.poll()) == [False]
    watched.write("n3", (1, 4), has_left=True)
    found = watched.poll()
    assert [(one.ok, one.remark) for one in found if isinstance(one, SourceReading)] == [(False, True)]
    assert "n2 (stopped), n3 (stopped)" in found[0].reason  # type: ignore[union-attr]


def test_one_that_is_missed_stays_so_while_another_attempt_begins(watched: Watched) -> None:
    watched.write("n2", (0, 4))
    watched.poll()
    watched.write("n2", (0, 4), has_left=True)
    assert seeing(watched.poll()) == [False]
    watched.now_s += 1.0
    assert watched.agents.poll(watched.now_s, 2, {}) == []  # nothing of it is heard yet
    found = watched.agents.poll(watched.now_s + YOUNG_S, 2, {})
    assert seeing(found) == [True]  # it does without that node
    assert found[0].reason == "the run has left n2, whose silence hides nothing of it"  # type: ignore[union-attr]


def test_an_agent_of_a_node_where_nothing_of_the_attempt_runs_is_not_missed(watched: Watched) -> None:
    watched.write("n7")
    watched.poll()
    assert watched.poll(100.0) == []


def test_hardware_is_heard_once_and_only_what_happened_since_this_supervisor_looks(watched: Watched) -> None:
    watched.poll()
    old, new = NodeHardware(1, 500.0, XID), NodeHardware(2, 0.4, replace(XID, value=74.0))
    state = NodeHardware(3, 500.0, replace(XID, what="ecc_uncorrected", value=2.0))
    watched.write("n2", hardware=(old, new, state))
    found = [one for one in watched.poll(LIST_EVERY_S) if isinstance(one, HardwareReading)]
    assert [(one.what, one.value, one.host) for one in found] == [("xid", 74.0, "n2"), ("ecc_uncorrected", 2.0, "n2")]
    watched.write("n2", hardware=(old, new, state))
    assert watched.poll() == []
    watched.write("n2", life="another", hardware=(NodeHardware(1, 0.1, XID),))
    assert len(watched.poll()) == 1


def test_hardware_tells_whether_a_rank_of_the_attempt_was_ever_seen_beside_it(watched: Watched) -> None:
    watched.poll()
    watched.write("n2", (0, 1))
    watched.write("n3")
    watched.poll(LIST_EVERY_S)
    for node in ("n2", "n3"):  # and the process has died of it on the one
        watched.write(node, hardware=(NodeHardware(1, 0.1, XID),))
    found = [one for one in watched.poll() if isinstance(one, HardwareReading)]
    assert {one.host: one.saw_no_rank for one in found} == {"n2": False, "n3": True}


def test_what_a_node_told_last_before_it_died_is_no_news_to_the_next_supervisor(watched: Watched) -> None:
    """Its file stays: an Xid that was young when it was written is old, and the run has left the node."""
    state = NodeHardware(2, 0.0, replace(XID, what="ecc_uncorrected", value=2.0))
    watched.write("n2", hardware=(NodeHardware(1, 0.0, XID), state))
    assert not any(isinstance(one, HardwareReading) for _ in range(4) for one in watched.poll(0.3))
    watched.write("n2", hardware=(NodeHardware(1, 500.0, XID), state))  # it lives after all
    assert [one.what for one in watched.poll() if isinstance(one, HardwareReading)] == ["ecc_uncorrected"]


def test_a_flood_of_reports_is_handed_on_in_portions(watched: Watched) -> None:
    for number in range(REPORTS_PER_POLL + 10):
        watched.write(f"n{number}", (number, 1))
    assert len(heard(watched.poll())) == REPORTS_PER_POLL
    assert watched.agents.has_more
    assert len(heard(watched.poll(0.0))) == 10
    assert not watched.agents.has_more


def test_a_file_that_is_no_report_of_its_node_is_passed_over(watched: Watched) -> None:
    watched.write("n2", (0, 4))
    data = agent_path(watched.run_dir, "n2").read_bytes()
    agent_path(watched.run_dir, "n3").write_bytes(data)
    agent_path(watched.run_dir, "n4").write_bytes(data[:50])
    assert heard(watched.poll()) == [(0, 4, "n2")]


def test_agents_of_long_ago_are_looked_at_seldom(watched: Watched) -> None:
    watched.write("n2", (0, 4))
    watched.poll()
    assert watched.agents.sweep.due(watched.now_s + 1.0) == ["n2"]
    watched.poll(OLD_S + 1.0)
    assert watched.agents.sweep.due(watched.now_s + 1.0) == []
    assert watched.agents.sweep.due(watched.now_s + OLD_EVERY_S) == ["n2"]


# Silent ranks


def test_a_rank_that_two_nodes_tell_of_is_where_it_was_told_last_and_the_newest_process_counts(watched: Watched) -> None:
    def rank(node: str, doing: Doing) -> RankOnNode:
        return RankOnNode(1, 0, 100, doing, node, beat(0, 5, node))

    watched.write("n2", ranks=(rank("n2", "runs"),))
    watched.write("n3")
    watched.poll()
    watched.write("n3", ranks=(rank("n3", "runs"), rank("n3", "stopped")))
    watched.poll()
    assert watched.agents.sight(0, watched.now_s) == ("stopped", "n3")
    watched.write("n2", ranks=(rank("n2", "blocked"),))  # the same ranks as before
    watched.poll()
    assert watched.agents.sight(0, watched.now_s) == ("blocked", "n2")
    watched.write("n3", ranks=())
    watched.poll()
    assert watched.agents.sight(0, watched.now_s) == ("blocked", "n2")
    assert watched.agents.covered(watched.now_s) == {0}


def test_silent_ranks_of_other_nodes_are_seen_and_asked_for_their_stacks_once(watched: Watched) -> None:
    silent = SilentRanks(watched.run_dir, 1)
    for step in range(1, 11):
        watched.write("n2", (0, step), (1, step))
        watched.poll()
        assert silent.poll(watched.now_s, watched.beats.lives, watched.agents) == []
    rows = [RankOnNode(1, 0, 100, "runs", "futex", beat(0, 10, "n2")), RankOnNode(1, 1, 101, "stopped", "", beat(1, 10, "n2"))]
    for _ in range(3):
        watched.write("n2", ranks=tuple(rows))
        watched.poll()
        found = silent.poll(watched.now_s, watched.beats.lives, watched.agents)
    assert found == []
    order = read_orders(watched.run_dir).orders[0]
    assert (order.word, order.attempt, order.ranks, order.with_dumps) == ("stacks", 1, (0, 1), True)
    rows[0] = rows[0]._replace(doing="waits", where="distributed_c10d.py:2501 in all_reduce")
    watched.write("n2", ranks=tuple(rows))
    watched.poll()
    found = silent.poll(watched.now_s, watched.beats.lives, watched.agents)
    assert found == [SilentRank(1, 0, "waits", "distributed_c10d.py:2501 in all_reduce")]
    assert len(read_orders(watched.run_dir).orders) == 1


def test_a_disk_that_takes_no_order_ends_no_look_and_the_next_one_asks(watched: Watched) -> None:
    silent, orders = SilentRanks(watched.run_dir, 1), agent_orders_path(watched.run_dir)
    for step in range(1, 11):
        watched.write("n2", (0, step))
        watched.poll()
        silent.poll(watched.now_s, watched.beats.lives, watched.agents)
    orders.mkdir()
    for _ in range(3):
        watched.write("n2", (0, 10))
        watched.poll()
        silent.poll(watched.now_s, watched.beats.lives, watched.agents)
    orders.rmdir()
    watched.write("n2", (0, 10))
    watched.poll()
    silent.poll(watched.now_s, watched.beats.lives, watched.agents)
    assert [one.word for one in read_orders(watched.run_dir).orders] == ["stacks"]


def test_of_a_rank_whose_agent_is_gone_nothing_is_known(watched: Watched) -> None:
    watched.write("n2", (0, 4))
    watched.poll()
    assert watched.agents.sight(0, watched.now_s) == ("runs", "")
    watched.poll(FALLBACK_S + 0.1)
    assert watched.agents.sight(0, watched.now_s) is None
    assert watched.agents.sight(7, watched.now_s) is None


def test_the_telemetry_of_a_run_has_them_among_its_sources(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    telemetry = RunTelemetry(tmp_path, StillAlive(), agents=watched.agents)
    telemetry.follow(1)
    watched.write("n2", (0, 4))
    for name in ("n2",):
        watched.agents.sweep.due(5.0)
        watched.agents.sweep.read(name, 5.0)
    assert heard(telemetry.poll(5.0)) == [(0, 4, "n2")]
    telemetry.close()
