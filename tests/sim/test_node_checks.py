"""Nodes are checked before launches, on suspicion and before they come back: what a cluster with a sick node comes to.

Drawn: which node is sick and when, what its check says of it and when that changes, what the policy checks, people who uncordon,
and a supervisor that is killed meanwhile.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sentinel.model import facts as f
from sentinel.model.actions import CheckNodes, StartAttempt
from sentinel.model.findings import Kind
from sentinel.policy.schema import Policy
from sentinel.policy.schema_nodes import NodeCheck
from sentinel.sim.faults import parse_fault
from sentinel.sim.learning import LossCurve
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import Scenario
from sentinel.sim.shape import Shape
from tests.sim.kit import kinds_and_states, policy_named

TWO = Shape(steps=160, step_s=0.4, startup_s=2.0, checkpoint_every=20, ranks=4, nodes=2)
SICK = "sick_node@step=50:node=1,xid=0"


def checking(**words: object) -> Policy:
    """The policy, with other words of `node_check`."""
    policy = policy_named("checked")
    check = NodeCheck.model_validate({"command": ["check-node"], "timeout": "1m", **words})
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"node_check": check})})


def run(
    *faults: str, shape: Shape = TWO, observe_only: bool = False, until_s: float = 7200.0, **words: object
) -> SimulationResult:
    parsed = tuple(parse_fault(text) for text in faults)
    return run_scenario(Scenario(seed=1, shape=shape, faults=parsed, observe_only=observe_only), checking(**words), until_s)


def facts(result: SimulationResult, kind: type) -> list[f.Fact]:
    return [entry.fact for entry in result.entries if isinstance(entry.fact, kind)]


def checks(result: SimulationResult) -> list[tuple[str, tuple[str, ...], list[str], list[str]]]:
    found = []
    for fact in facts(result, f.NodesChecked):
        assert isinstance(fact, f.NodesChecked)
        found.append((fact.purpose, fact.healthy, [one.node for one in fact.sick], [one.node for one in fact.unknown]))
    return found


def starts(result: SimulationResult) -> list[tuple[str, ...]]:
    decided = [fact.action for fact in facts(result, f.ActionDecided) if isinstance(fact, f.ActionDecided)]
    return [action.exclude_nodes for action in decided if isinstance(action, StartAttempt)]


def test_before_a_launch_those_are_checked_that_take_part_and_a_sick_one_is_replaced() -> None:
    result = run("node_says@time=0:node=1,says=sick")
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    assert checks(result) == [("launch", ("node0",), ["node1"], []), ("launch", ("node2",), [], [])]
    assert starts(result) == [("node1",)]
    assert kinds_and_states(result) == [("node_sick", "exhausted")]
    assert len(result.pages) == 1
    assert "GPU 3b:00 has fallen off the bus" in result.state.incidents[0].reason


def test_blamed_twice_checked_sick_out_and_a_person_is_told() -> None:
    result = run(SICK, when=["suspicion", "readmit"])
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    blamed = [(fact.node, fact.times) for fact in facts(result, f.NodeBlamed) if isinstance(fact, f.NodeBlamed)]
    assert blamed == [("node1", 1), ("node1", 2)]
    assert checks(result) == [("suspicion", (), ["node1"], [])]
    assert starts(result) == [(), (), ("node1",)]
    told = [i for i in result.state.incidents if i.kind is Kind.NODE_SICK]
    assert len(told) == len(result.pages) == 1
    assert told[0].blamed_node == "node1"


@pytest.mark.parametrize("says", ["unknown", "healthy"])
def test_a_check_that_calls_nobody_sick_leaves_nobody_out(says: str) -> None:
    result = run(SICK, f"node_says@time=0:node=1,says={says}", when=["suspicion", "readmit"])
    assert result.ok, result.reproduce
    assert not facts(result, f.NodeExcluded)
    assert checks(result)[0] == ("suspicion", ("node1",) if says == "healthy" else (), [], ["node1"] if says == "unknown" else [])
    assert bool(result.state.blames) == (says == "unknown" or len(checks(result)) > 1)


def test_uncordon_waits_for_a_healthy_check_and_says_what_else_it_found() -> None:
    asks = [f"ask@time={at}:what=uncordon,to=1" for at in (70, 100, 130)]
    turns = ["node_says@time=90:node=1,says=unknown", "node_says@time=120:node=1,says=mended"]
    result = run(SICK, *asks, *turns, when=["suspicion", "readmit"], shape=Shape(600, 16, 4, 2, 0.4, 2.0, checkpoint_every=20))
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    answers = [fact for fact in facts(result, f.RequestAnswered) if isinstance(fact, f.RequestAnswered)]
    assert [answer.granted for answer in answers] == [False, False, True]
    assert "is sick: GPU 3b:00 has fallen off the bus; it stays out" in answers[0].answer
    assert "not known to be healthy" in answers[1].answer
    assert "--force" in answers[1].answer
    assert "was checked and is healthy" in answers[2].answer
    assert (result.state.excluded, result.state.blames, result.state.open_pages) == ((), (), ())


def test_force_lets_a_sick_node_back_unchecked_and_the_journal_says_so() -> None:
    result = run(SICK, "ask@time=100:what=force,to=1", when=["suspicion", "readmit"], shape=Shape(500, 16, 4, 2, 0.4, 2.0))
    assert result.ok, result.reproduce
    (answer,) = [fact for fact in facts(result, f.RequestAnswered) if isinstance(fact, f.RequestAnswered)]
    assert (answer.granted, answer.by) == (True, "a person")
    assert "unchecked" in answer.answer
    assert [purpose for purpose, *_ in checks(result)] == ["suspicion"]
    assert not result.state.excluded


def test_where_every_node_is_sick_the_run_is_held_and_resume_checks_again() -> None:
    all_sick = [f"node_says@time=0:node={number},says=sick" for number in range(4)]
    mended = [f"node_says@time=50:node={number},says=healthy" for number in range(4)]
    held = run(*all_sick, until_s=600.0)
    assert (held.ok, held.outcome, starts(held)) == (True, "held", []), held.reproduce
    assert len(held.pages) == 1
    assert "no node is known of beside them" in held.state.held
    result = run(*all_sick, *mended, "ask@time=60:what=resume")
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    assert starts(result) == [()]


def test_a_check_that_calls_more_sick_than_the_policy_allows_leaves_none_out() -> None:
    shape = Shape(120, 16, 4, 4, 0.4, 2.0, checkpoint_every=20)
    result = run(*[f"node_says@time=0:node={number},says=sick" for number in range(3)], shape=shape, at_most=2, until_s=600.0)
    assert (result.ok, result.outcome) == (True, "held"), result.reproduce
    assert not facts(result, f.NodeExcluded)
    assert "the check itself may be wrong" in result.state.held


def test_observe_only_records_and_changes_nothing() -> None:
    result = run("node_says@time=0:node=1,says=sick", observe_only=True)
    assert result.ok, result.reproduce
    assert checks(result)[0] == ("launch", ("node0",), ["node1"], [])
    assert not facts(result, f.NodeExcluded)
    assert starts(result)[0] == ()


def test_a_check_that_cannot_be_carried_out_holds_no_launch_up() -> None:
    result = run("fails@action=CheckNodes:times=1,retry=0")
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    (fact,) = facts(result, f.NodesChecked)
    assert isinstance(fact, f.NodesChecked)
    assert "told to fail for good" in fact.trouble


def test_a_suspected_node_is_checked_beside_its_training_only_where_the_policy_says_so() -> None:
    """The second blame stops the attempt here, so that the check is seen by its key and not by its time."""
    result = run(SICK, "node_says@time=0:node=1,says=healthy", when=["suspicion"], after_blames=1, while_training=True)
    decided = [fact.action for fact in facts(result, f.ActionDecided) if isinstance(fact, f.ActionDecided)]
    assert any(isinstance(action, CheckNodes) for action in decided)
    assert result.ok, result.reproduce


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 120), marks=pytest.mark.slow)])
def test_drawn_checks_break_no_invariant_and_never_start_on_what_was_called_sick(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        dice = random.Random(f"checks {seed}")
        shape = Shape(150, 16, 4, 2, 0.4, 2.0, checkpoint_every=20, curve=LossCurve(seed))
        faults = [f"sick_node@step={dice.randrange(5, 120)}:node={dice.randrange(2)},xid={dice.randrange(2)}"]
        for _ in range(dice.randrange(3)):
            word = dice.choice(("sick", "healthy", "unknown", "mended"))
            faults.append(f"node_says@time={dice.choice((0, dice.randrange(150)))}:node={dice.randrange(3)},says={word}")
        for _ in range(dice.randrange(3)):
            what = dice.choice(("uncordon", "force", "resume", "pause", "hold"))
            faults.append(f"ask@time={dice.randrange(5, 200)}:what={what},to={dice.randrange(3)}")
        faults += [f"supervisor_kill@time={dice.randrange(1, 150)}:for=5"] if dice.random() < 0.5 else []
        faults += [f"fails@action=CheckNodes:times=1,retry={dice.choice((0, 2))}"] if dice.random() < 0.3 else []
        faults += [f"stop@time={dice.randrange(1, 150)}"] if dice.random() < 0.2 else []
        when = dice.choice((["launch"], ["suspicion"], ["launch", "readmit"], ["launch", "suspicion", "readmit"]))
        result = run(*faults, shape=shape, when=when, while_training=dice.random() < 0.5, after_blames=dice.choice((1, 2)))
        assert result.ok, f"seed {seed}: {result.reproduce}"
        out: set[str] = set()
        for entry in result.entries:
            match entry.fact:
                case f.NodeExcluded(node=node):
                    out.add(node)
                case f.RequestAnswered(granted=True, wish=wish) if hasattr(wish, "node"):
                    out.discard(wish.node)
                case f.AttemptLaunched():
                    launched = out
                case f.ActionDecided(action=StartAttempt(exclude_nodes=nodes)):
                    assert set(nodes) == launched, f"seed {seed}: {result.reproduce}"
        counts[result.outcome] += 1
        counts["out"] += bool(facts(result, f.NodeExcluded))
    print(f"drawn checks {seeds[0]} to {seeds[-1]}: {dict(sorted(counts.items()))}")
    assert counts["out"]
