"""Checks of nodes reach through the agents where the launcher has no way: what no agent answers is unknown, and clears nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentinel.actions.node_check import check_nodes
from sentinel.client.machine import read_host
from sentinel.launcher.agent_reach import AgentReach, why_another_check
from sentinel.launcher.node_reach import LocalReach, NodeReach
from sentinel.launcher.registry import LaunchPlace, open_reach
from sentinel.model.actions import CheckNodes
from sentinel.model.agents import AgentAnswer, AgentReport
from sentinel.model.node_checks import NodeReply
from sentinel.run_files.agent_files import ReportFile
from sentinel.run_files.agent_orders import OrderBook, read_orders

COMMAND = ("check.sh", "--deep")
WHY = "this launcher knows no nodes"
Answer = Callable[[str], AgentAnswer | None]


class Nodes:
    """Agents of some nodes, and time: each wait lets them write once. `answers`: by node, what each makes of an order's id; None:
    nothing yet. `silent`: those that write no more."""

    def __init__(self, run_dir: Path, **answers: Answer) -> None:
        self.run_dir, self.now_s, self.turn = run_dir, 0.0, 0
        self.answers, self.silent, self.left = answers, set[str](), set[str]()
        (run_dir / "agents").mkdir()
        self.write()

    def reach(self, own: NodeReach | str = WHY) -> AgentReach:
        return AgentReach(own, self.run_dir, OrderBook(self.run_dir, 1), lambda: self.now_s, self.wait)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.write()

    def write(self) -> None:
        self.turn += 1
        for node, answer in self.answers.items():
            if node in self.silent and self.turn > 1:
                continue
            asked = [one for one in read_orders(self.run_dir).orders if node in one.nodes]
            assert all(one.words == COMMAND for one in asked)
            found = {one.id: said for one in asked if (said := answer(one.id)) is not None}
            report = AgentReport(node, "boot", "life", self.turn, answers=found, has_left=node in self.left)
            ReportFile(self.run_dir, node).write(report)


def healthy(name: str) -> AgentAnswer:
    return AgentAnswer(name, "done", "all well")


def sick(name: str) -> AgentAnswer:
    return AgentAnswer(name, "sick", "ECC errors")


def unsure(name: str) -> AgentAnswer:
    return AgentAnswer(name, "unknown", "no check was named for this node")


def busy(name: str) -> AgentAnswer:
    return AgentAnswer(name, "begun")


def check(purpose: str, *nodes: str, **more: object) -> CheckNodes:
    return CheckNodes(f"check/{purpose}/a", purpose, COMMAND, 30.0, nodes, **more)  # type: ignore[arg-type]


def test_every_agent_runs_its_check_and_its_verdict_is_taken(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, n1=healthy, n2=sick, n3=unsure)
    found = check_nodes(nodes.reach(), check("suspicion", "n1", "n2", "n3", "n4"))
    assert found.healthy == ("n1",)
    assert [(word.node, word.reason) for word in found.sick] == [("n2", "ECC errors")]
    reasons = {word.node: word.reason for word in found.unknown}
    assert reasons["n3"] == "no check was named for this node"
    assert reasons["n4"].startswith("no agent writes for it")
    assert WHY in reasons["n4"]


def test_before_a_launch_the_nodes_of_living_agents_are_checked(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, n1=healthy, n2=healthy, n3=healthy)
    nodes.silent, nodes.left = {"n3"}, {"n2"}
    found = check_nodes(nodes.reach(), check("launch"))
    assert (found.healthy, found.trouble) == (("n1",), "")
    assert nodes.reach().participants(["n1"]) == ()


def test_without_agents_it_is_not_known_which_nodes_take_part(tmp_path: Path) -> None:
    found = check_nodes(Nodes(tmp_path).reach(), check("launch"))
    assert found.trouble.startswith(f"which nodes will take part is not known: {WHY}; and no agent writes")
    assert found.nodes == ()


@pytest.mark.parametrize(
    ("fate", "reason"),
    [("runs on", "did not end within 30 s"), ("falls silent", "has written nothing for 10 s"), ("is stopped", "was stopped")],
)
def test_one_that_does_not_answer_is_unknown(tmp_path: Path, fate: str, reason: str) -> None:
    nodes = Nodes(tmp_path, n1=busy)
    reach = nodes.reach()
    if fate == "falls silent":
        nodes.silent = {"n1"}
    elif fate == "is stopped":
        nodes.answers["n1"] = lambda name: nodes.left.add("n1") or busy(name)  # type: ignore[func-returns-value]
    found = check_nodes(reach, check("suspicion", "n1"))
    assert reason in found.unknown[0].reason
    assert nodes.now_s <= 30.0 + 6.0


def test_the_own_machine_is_checked_without_an_agent_and_others_through_theirs(tmp_path: Path) -> None:
    class Here(LocalReach):
        def run(self, nodes: object, command: object, timeout_s: float) -> dict[str, NodeReply]:
            assert nodes == [read_host()]
            return {read_host(): NodeReply(0)}

    found = check_nodes(Nodes(tmp_path, n2=sick).reach(Here(frozenset())), check("suspicion", read_host(), "n2"))
    assert (found.healthy, [word.node for word in found.sick]) == ((read_host(),), ["n2"])


def test_a_launcher_with_a_way_of_its_own_goes_it(tmp_path: Path) -> None:
    class Own:
        def participants(self, exclude: object) -> tuple[str, ...]:
            return ("n7",)

        def run(self, nodes: object, command: object, timeout_s: float) -> dict[str, NodeReply]:
            return {"n7": NodeReply(0)}

    assert check_nodes(Nodes(tmp_path, n7=sick).reach(Own()), check("launch")).healthy == ("n7",)
    assert read_orders(tmp_path).orders == ()


def test_the_supervisor_has_it_for_every_launcher(tmp_path: Path) -> None:
    template = {"template": str(tmp_path / "jobset.yaml")}
    commands = {"start": "a", "status": "b", "stop": "c"}
    for kind, options in (("kubernetes", template), ("command", commands), ("local", {}), ("slurm", {})):
        assert isinstance(open_reach(kind, options, LaunchPlace(tmp_path), OrderBook(tmp_path)), AgentReach)


def test_an_agent_runs_no_command_but_its_own() -> None:
    assert why_another_check(COMMAND, COMMAND) == ""
    assert why_another_check(COMMAND, ()) == "", "an order of an older version"
    why = why_another_check(COMMAND, ("rm", "-r", "/"))
    assert "its agent's check is `check.sh --deep`, and the policy's is `rm -r /`" in why
