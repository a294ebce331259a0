"""The engine's part of `node_check`, event by event; whole runs stand in `tests/sim/test_node_checks.py`."""

from __future__ import annotations

from sentinel.client.masking import Masking
from sentinel.engine.masked_events import masked
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.events import ActionDone
from sentinel.model.node_checks import NodeVerdicts, NodeWord
from sentinel.model.readings import RequestReading
from tests.builders import build_policy
from tests.unit.engine.test_exclusion import PAGE, RULES, Cluster

SECRET = "hunter2-and-more"


def checked_cluster() -> Cluster:
    """Two nodes, whose launches are checked; the first rank's has died of a signal, and no rung leaves a node out."""
    told: type[Cluster] = type("Told", (Cluster,), {"can": Cluster.can})
    restart = [{"resume": {"from": "newest"}}, {"resume": {"from": "newest"}}, PAGE]
    policy = build_policy(
        playbooks={"restart": restart}, rules=RULES, without=("numeric", "non_finite", "call"), node_check=["check"]
    )
    bench = told(policy).launched()
    bench.beats("n1", "n2").steps(1, 60).checkpoint(50)
    bench.exits(signal=9)
    while not any(key.startswith("check/") for key in bench.state.pending):
        bench.done(next(iter(bench.state.pending)))
    return bench


def test_the_words_of_a_check_are_masked() -> None:
    found = NodeVerdicts((), (NodeWord("n1", f"api_key={SECRET}"),), (NodeWord("n2", f"api_key={SECRET}"),), f"api_key={SECRET}")
    assert SECRET not in repr(masked(ActionDone("check/1", "", found), Masking()))


def test_a_check_stands_just_before_the_launch_and_a_sick_node_leads_to_another() -> None:
    bench = checked_cluster()
    plan = bench.state.plan
    assert plan is not None
    assert [type(action) for action in plan.actions[plan.next :]] == [a.CheckNodes, a.StartAttempt]
    bench.tell(ActionDone(bench.key("check/"), "", NodeVerdicts(("n2",), (NodeWord("n3", "ECC"),), (NodeWord("n1", "away"),))))
    again = bench.state.pending[bench.key("check/")]
    assert isinstance(again, a.CheckNodes)
    assert (again.key, again.known, again.exclude) == ("check/launch/2/2", ("n1", "n2", "n3"), ("n3",))
    bench.tell(ActionDone(again.key, "", NodeVerdicts(("n4",))))
    assert [action.exclude_nodes for action in bench.decided(a.StartAttempt)] == [(), ("n3",)]
    assert [blame.node for blame in bench.state.blames] == ["n1"], "an unknown node is not cleared"


def test_a_supervisor_that_dies_while_nodes_are_checked_leaves_the_check_to_the_next() -> None:
    bench = checked_cluster()
    key = bench.key("check/")
    bench.die()
    assert bench.key("check/") == key
    bench.tell(ActionDone(key, "", NodeVerdicts(("n1", "n2"))))
    assert bench.state.blames == ()
    assert bench.key("start/") == "start/2"


def test_a_stop_does_not_wait_for_a_check() -> None:
    bench = checked_cluster()
    bench.wants_stop()
    assert bench.state.ended == "stopped"
    assert bench.state.plan is None
    assert not any(key.startswith("check/") for key in bench.state.pending)


def test_a_second_person_is_told_that_a_node_is_being_checked() -> None:
    bench = checked_cluster()
    bench.tell(ActionDone(bench.key("check/"), "", NodeVerdicts(("n2",), (NodeWord("n1", "ECC"),))))
    bench.launched()
    bench.tell(RequestReading("ada-1", "ada", w.Readmit("n1")))
    assert not bench.of(f.RequestAnswered), "its answer waits for the check"
    refused = bench.asks(w.Readmit("n1"), by="bob")
    assert (refused.granted, refused.answer) == (False, "n1 is being checked already, for ada")
    bench.tell(ActionDone("check/readmit/ada-1", "", NodeVerdicts(("n1",))))
    assert [(answer.id, answer.granted) for answer in bench.of(f.RequestAnswered)][-1] == ("ada-1", True)
    assert bench.state.excluded == ()


def test_what_is_learnt_after_the_run_has_ended_lets_nobody_back() -> None:
    bench = checked_cluster()
    bench.tell(ActionDone(bench.key("check/"), "", NodeVerdicts(("n2",), (NodeWord("n1", "ECC"),))))
    bench.launched()
    bench.tell(RequestReading("ada-1", "ada", w.Readmit("n1")))
    bench.wants_stop()
    bench.exits(code=0)
    assert bench.state.ended == "stopped"
    bench.tell(ActionDone("check/readmit/ada-1", "", NodeVerdicts(("n1",))))
    answer = bench.of(f.RequestAnswered)[-1]
    assert (answer.granted, [one.node for one in bench.state.excluded]) == (False, ["n1"])
