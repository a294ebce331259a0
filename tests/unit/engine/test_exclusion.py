"""`exclude: {node: blamed}`: the blamed node is left out from then on, never the only one, never too many, and only where the
command can; else the rung is passed over with its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.events import SupervisorStarted
from sentinel.model.incidents import Outcome
from sentinel.model.readings import HardwareReading, Heartbeat
from sentinel.plan.exclusion import judge_exclusion
from tests.builders import Bench, build_policy

PAGE = {"page": {"severity": "critical"}, "then": "stop_now"}
EXCLUDE: dict[str, Any] = {"exclude": {"node": "blamed"}, "resume": {"from": "newest"}}
RESTART = [EXCLUDE, {"resume": {"from": "newest"}}, PAGE]
RULES = [
    {"alert": "Crash", "on": "crash", "labels": {"severity": "critical"}, "playbook": "restart"},
    {"alert": "GpuFault", "on": "gpu_fault", "labels": {"severity": "critical"}, "playbook": "restart"},
]


class Cluster(Bench):
    """A bench whose command says that it can leave nodes out, with two ranks on two nodes."""

    can: tuple[str, ...] = ("skip", "live_overrides", "exclude")

    def tell(self, event: Any) -> tuple[f.Fact, ...]:
        if isinstance(event, SupervisorStarted):
            event = replace(event, capabilities=self.can)
        return super().tell(event)

    def beats(self, *hosts: str) -> Cluster:
        for rank, host in enumerate(hosts):
            self.tell(Heartbeat(self.number, rank, 1, "forward", self.now_s, host=host))
        return self


def cluster(*hosts: str, can: tuple[str, ...] = Cluster.can, **rung: Any) -> Cluster:
    playbook = [{**EXCLUDE, **rung}, *RESTART[1:]]
    told: type[Cluster] = type("Told", (Cluster,), {"can": can})  # the bench starts its first supervisor as it is made
    bench = told(build_policy(playbooks={"restart": playbook}, rules=RULES, without=("numeric", "non_finite", "call")))
    bench.launched()
    bench.beats(*hosts)
    bench.steps(1, 60).checkpoint(50)
    return bench


def outcomes(bench: Bench) -> list[Outcome]:
    return [one.outcome for one in bench.incident.tries]


def starts(bench: Bench) -> list[tuple[str, ...]]:
    return [action.exclude_nodes for action in bench.decided(a.StartAttempt)]


def test_the_node_of_the_rank_that_died_is_left_out_from_then_on() -> None:
    bench = cluster("n1", "n2")
    bench.exits(signal=9)
    assert bench.incident.blamed_node == "n1"
    assert [one.node for one in bench.state.excluded] == ["n1"]
    bench.launched()
    assert starts(bench) == [(), ("n1",)]
    bench.beats("n2", "n3")
    bench.steps(51, 130).checkpoint(125)
    bench.exits(signal=9)
    assert bench.incident.id == 2
    bench.launched()
    assert starts(bench)[-1] == ("n1", "n2"), "each later attempt does without both"
    assert "leave out node n2" in bench.incident.tries[0].remedy.reason


def test_a_person_takes_it_back_from_the_next_launch_on() -> None:
    bench = cluster("n1", "n2")
    bench.exits(signal=9)
    bench.launched()
    bench.steps(51, 60)
    assert not bench.asks(w.Readmit("n7")).granted
    assert "n7 is not left out (left out: n1)" in bench.of(f.RequestAnswered)[-1].answer
    assert bench.asks(w.Readmit("n1")).granted
    assert bench.asks(w.RollBack(50)).granted
    bench.launched()
    assert starts(bench)[-1] == ()


def test_a_restarted_supervisor_leaves_it_out_too() -> None:
    bench = cluster("n1", "n2")
    bench.exits(signal=9)
    bench.launched()
    bench.steps(51, 60)
    bench.die()
    bench.exits(signal=9)
    bench.launched()
    assert starts(bench)[-1] == ("n1",)


@pytest.mark.parametrize(
    ("hosts", "can", "why"),
    [
        (("n1", "n2"), ("skip", "live_overrides"), "the command cannot leave a node out"),
        (("n1", "n1"), Cluster.can, "n1 is the only node that is known of"),
        (("n1", "n1.cluster.org"), Cluster.can, "n1 is the only node that is known of"),
        ((), Cluster.can, "the evidence blames no node"),
    ],
)
def test_what_cannot_be_left_out_is_passed_over_with_its_reason(hosts: tuple[str, ...], can: tuple[str, ...], why: str) -> None:
    bench = cluster(*hosts, can=can)
    bench.exits(signal=9)
    assert outcomes(bench)[0] is Outcome.PASSED_OVER
    assert why in bench.incident.tries[0].reason
    bench.launched()
    assert starts(bench)[-1] == ()
    assert bench.incident.rung == 1


def test_a_command_that_runs_on_the_node_all_the_same_and_too_many_nodes_are_passed_over() -> None:
    assert "ran on it all the same" in judge_exclusion("n1", ["n1", "n2"], ["n1.org"], 4, ["exclude"])
    assert "2 nodes are left out already (a, b), and the rung allows 2" in judge_exclusion(
        "n1", ["n1", "n2"], ["a", "b"], 2, ["exclude"]
    )
    assert judge_exclusion("n1", ["n1", "n2"], ["a"], 2, ["exclude"]) == ""


def fault(bench: Bench, host: str) -> None:
    """An Xid that only a reboot of the node mends."""
    bench.tell(HardwareReading("kernel_log", "xid", "Xid 79", host, "0000:3b:00", 79.0))
    bench.tick(3.0)


def test_a_fault_that_needs_a_reboot_is_gone_on_with_without_the_node() -> None:
    bench = cluster("n1.org", "n2.org")
    fault(bench, "n2")
    assert not bench.incident.retryable
    assert bench.incident.blamed_node == "n2.org", "in the words of the heartbeats"
    bench.launched()
    assert starts(bench)[-1] == ("n2.org",)
    bench.beats("n1.org", "n3.org")
    bench.tick(3.0)
    assert "left out of this attempt" in bench.of(f.FindingRecorded)[-1].reason
    assert len(bench.state.incidents) == 1


def test_without_the_capability_it_calls_a_person_as_before() -> None:
    bench = cluster("n1", "n2", can=("skip", "live_overrides"))
    fault(bench, "n2")
    assert "a relaunch cannot help" in bench.incident.tries[-1].reason
    assert bench.state.giving_up == "stop_now"


@pytest.mark.parametrize(("hosts", "goes_on"), [(("n2",), True), (("n2", "n2"), False)])
def test_a_fault_before_every_rank_was_heard_takes_its_node_for_no_only_one(hosts: tuple[str, ...], goes_on: bool) -> None:
    """Of two ranks one has told where it is; where both have, there is no other node to go to."""
    bench = cluster(*hosts)
    assert bench.state.attempts[-1].world_size == 2
    fault(bench, "n2")
    assert bool(bench.state.giving_up) is not goes_on
    if goes_on:
        bench.launched()
        assert starts(bench)[-1] == ("n2",)
