"""What an agent is asked: done once, answered, and never done to a process that was not meant."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

import pytest

from sentinel.agent.orders import CheckCommand
from sentinel.client.run_layout import agent_path, stack_path
from sentinel.model.agents import AgentAnswer, AgentOrder, kill_id
from sentinel.run_files.agent_files import ReportFile
from sentinel.run_files.agent_orders import AgentOrders, OrderBook, write_orders
from tests.conformance.launcher_world import wait_for
from tests.unit.agent.agent_kit import Node

KILL = AgentOrder(kill_id(1, "w"), "kill", 1, launch="w")


def answer(node: Node, order: AgentOrder, turns: int = 2) -> AgentAnswer | None:
    """What the agent says of it, some turns after it was given."""
    OrderBook(node.run_dir).give(order)
    return node.turn(turns).answers.get(order.id)


def test_an_attempt_is_ended_with_all_that_it_has_started_and_nothing_else(node: Node) -> None:
    mine = [node.rank(0), node.rank(None)]
    node.turn()
    others = [node.rank(0, attempt=2), node.rank(1, launch="later")]
    ended = answer(node, KILL)
    assert ended == AgentAnswer(KILL.id, "done", "2 processes ended, nothing is left", 2)
    assert [node.reap(pid) for pid in mine] == [-signal.SIGKILL] * 2
    assert [os.waitpid(pid, os.WNOHANG) for pid in others] == [(0, 0)] * 2
    report = node.turn()
    assert report.says_ended(1, 0, mine[0], report.boot_id)
    assert not report.says_ended(2, 0, others[0], None)


def test_what_of_a_killed_attempt_comes_up_later_is_ended_too(node: Node) -> None:
    assert answer(node, KILL) == AgentAnswer(KILL.id, "done", "0 processes ended, nothing is left", 0)
    late = node.rank(4)
    report = node.turn(7)
    assert node.reap(late) == -signal.SIGKILL
    assert report.answers[KILL.id].outcome == "done"


def test_what_came_before_an_attempt_is_cleaned_away(node: Node) -> None:
    before, now = node.rank(0, attempt=1), node.rank(0, attempt=2)
    cleaned = answer(node, AgentOrder("clean/2", "clean", 2))
    assert cleaned is not None
    assert (cleaned.outcome, cleaned.count) == ("done", 1)
    assert node.reap(before) == -signal.SIGKILL
    assert os.waitpid(now, os.WNOHANG) == (0, 0)


COUNTS = """
import os, pathlib, signal, time
counted = pathlib.Path(os.environ["SENTINEL_RUN_DIR"], "counted")
signal.signal(15, lambda *_: counted.write_text(counted.read_text() + "x"))
counted.write_text("")
time.sleep(600)
time.sleep(600)
"""


def test_a_signal_is_sent_once_also_by_an_agent_that_is_started_anew(node: Node) -> None:
    node.rank(0, words=(sys.executable, "-S", "-c", COUNTS))
    counted = node.run_dir / "counted"
    wait_for(counted.exists, "the rank has its handler")
    order = AgentOrder("signal/1/15/a", "signal", 1, signal=signal.SIGTERM)
    assert answer(node, order) == AgentAnswer(order.id, "done", "sent to 1 of 1 ranks", 1)
    wait_for(lambda: counted.read_text() == "x", "it has the signal")
    node.begin()
    assert node.turn(2).answers[order.id].outcome == "done"
    assert counted.read_text() == "x"


def test_a_signal_in_the_middle_of_which_its_agent_died_is_unknown_and_not_sent_again(node: Node) -> None:
    pid = node.rank(0)
    order = AgentOrder("signal/1/15/a", "signal", 1, signal=signal.SIGTERM)
    report = node.turn()
    begun = replace(report, answers={order.id: AgentAnswer(order.id, "begun"), KILL.id: AgentAnswer(KILL.id, "begun")})
    ReportFile(node.run_dir, "n2").write(begun)
    node.begin()
    assert answer(node, order) == AgentAnswer(order.id, "unknown", "its agent was started anew while it was sent")
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    done = answer(node, KILL)  # an end may be begun twice
    assert done is not None
    assert done.outcome == "done"
    node.reap(pid)


def test_that_an_order_begins_is_written_down_before_it_is_carried_out(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = node.rank(0)
    node.turn()
    OrderBook(node.run_dir).give(KILL)
    monkeypatch.setattr(ReportFile, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        node.agent.turn(node.now_s)
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    monkeypatch.undo()
    assert node.turn(2).answers[KILL.id].outcome == "done"
    node.reap(pid)


@pytest.mark.parametrize("meant", [{"nodes": ("n1",)}, {"spares": "n2"}, {"spares": "N2.cluster"}])
def test_an_order_for_other_nodes_is_none_of_its_own(node: Node, meant: dict[str, object]) -> None:
    pid = node.rank(0)
    assert answer(node, replace(KILL, **meant)) is None  # type: ignore[arg-type]
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)


def test_a_supervisor_that_was_followed_by_another_is_not_obeyed(node: Node) -> None:
    write_orders(node.run_dir, AgentOrders(5, ()))
    node.turn()
    write_orders(node.run_dir, AgentOrders(4, (KILL,)))
    pid = node.rank(0)
    assert node.turn(2).answers == {}
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)


def test_an_answer_is_kept_as_long_as_its_order(node: Node) -> None:
    assert answer(node, KILL) is not None
    write_orders(node.run_dir, AgentOrders(1, ()))
    assert node.turn().answers == {}


def test_orders_that_cannot_be_read_are_told_and_hold_up_no_look(node: Node) -> None:
    (node.run_dir / "agents").mkdir()
    os.mkfifo(node.run_dir / "agents" / "orders.json")
    node.rank(0)
    report = node.turn()
    assert "FIFO" in report.blind["orders"]
    assert len(report.ranks) == 1


# Stacks

PROGRAM = """
import faulthandler, os, pathlib, signal, time
path = pathlib.Path(os.environ["SENTINEL_RUN_DIR"], "attempts/0001/stacks/rank-00003.txt")
path.parent.mkdir(parents=True)
file = open(path, "w")
faulthandler.register(40, file=file)
pathlib.Path(os.environ["SENTINEL_RUN_DIR"], "ready").touch()
def loads_for_ever():
    time.sleep(600)
loads_for_ever()
"""


def test_a_rank_that_is_asked_for_its_stack_is_seen_where_it_stands_until_it_is_heard(node: Node) -> None:
    pid = node.rank(3, words=(sys.executable, "-S", "-c", PROGRAM))
    wait_for((node.run_dir / "ready").exists, "the rank offers its stack")
    node.beat(3, 7, pid=pid, stack_signal=40)
    order = AgentOrder("stacks/1/a", "stacks", 1, ranks=(3,))
    found = answer(node, order)
    assert found == AgentAnswer(order.id, "done", "1 ranks are looked at", 1)
    for _ in range(1000):
        seen = node.turn().ranks[0]
        if seen.doing == "works":
            break
    assert (seen.doing, seen.where) == ("works", "<string>:9 in loads_for_ever")
    assert "loads_for_ever" in stack_path(node.run_dir, 1, 3).read_text()
    node.beat(3, 8, pid=pid, stack_signal=40)
    assert node.turn().ranks[0].doing == "runs"


def test_a_rank_that_would_not_survive_the_signal_is_sent_none(node: Node) -> None:
    pid = node.rank(3)
    node.beat(3, 7, pid=pid, stack_signal=40)
    assert answer(node, AgentOrder("stacks/1/a", "stacks", 1)) is not None
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)


# The node's own check


@pytest.mark.parametrize(
    ("script", "outcome", "text"),
    [
        ("exit 0", "done", "healthy"),
        ("echo GPU 3 computes wrong values; exit 1", "sick", "GPU 3 computes wrong values"),
        ("exit 1", "unknown", "the check left with 1 and gave no reason on its standard output"),
        ("echo oh >&2; exit 7", "unknown", "the check left with 7: oh"),
        ("sleep 60", "unknown", "it did not end within 0.2 s"),
    ],
)
def test_the_check_says_healthy_sick_or_unknown(node: Node, script: str, outcome: str, text: str) -> None:
    node.check = CheckCommand(("sh", "-c", script), 0.2 if "sleep" in script else 30.0)
    node.begin()
    found = answer(node, AgentOrder("check/n2/1", "check", 0))
    assert found is not None
    assert (found.outcome, found.text) == (outcome, text)


def test_a_command_that_is_not_its_own_is_not_run(node: Node) -> None:
    node.check = CheckCommand(("true",), 30.0)
    node.begin()
    found = answer(node, AgentOrder("check/n2/1", "check", 0, words=("touch", str(node.run_dir / "run"))))
    assert (found.outcome, (node.run_dir / "run").exists()) == ("unknown", False)
    assert "its agent's check is `true`" in found.text
    assert answer(node, AgentOrder("check/n2/2", "check", 0, words=("true",))).outcome == "done"


def test_without_a_check_it_is_unknown_how_the_node_is(node: Node) -> None:
    found = answer(node, AgentOrder("check/n2/1", "check", 0))
    assert found is not None
    assert found.outcome == "unknown"
    assert "--check" in found.text
    assert agent_path(node.run_dir, "n2").exists()
