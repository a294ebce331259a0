"""What a cluster does to a run: a scheduler that starts nothing for a while, and ranks on other machines that nobody sees.

Drawn: how the trouble is told (in the attempt's log, to the launcher), when it begins and how often it comes, beside a fault that
the playbook repairs; how many ranks on how many machines outlive the launcher's part of an attempt, when, and for how long; and a
supervisor that is killed meanwhile.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from sentinel.model import facts as f
from sentinel.model.actions import KillAttempt, StartAttempt
from sentinel.model.findings import Kind
from sentinel.model.incidents import Outcome
from sentinel.model.state import REFUSED
from sentinel.sim.cluster import REFUSAL
from sentinel.sim.faults import parse_fault
from sentinel.sim.learning import LossCurve
from sentinel.sim.policies import ITSELF
from sentinel.sim.run import SimulationResult, run_scenario
from sentinel.sim.scenarios import draw_scenario
from sentinel.sim.shape import Shape
from tests.sim.kit import kinds_and_states, policy_named, simulate

TWO_NODES = Shape(steps=160, step_s=0.4, startup_s=2.0, checkpoint_every=20, ranks=4, nodes=2)
PAGED_AFTER_S = policy_named("demo").spec.acts.unseen_page_after_s
LIMIT = policy_named("demo").spec.budget.engine_trouble
SEEN_AFTER_S = 1.0  # a look every half second
SEEDS = [range(12), pytest.param(range(12, 120), marks=pytest.mark.slow)]


def facts(result: SimulationResult, *kinds: type) -> list[f.Fact]:
    return [entry.fact for entry in result.entries if isinstance(entry.fact, kinds)]


def at_s(result: SimulationResult, kind: type) -> float:
    return next(entry.at_s for entry in result.entries if isinstance(entry.fact, kind))


def repairs(result: SimulationResult) -> list[tuple[str, tuple[tuple[str, ...], ...]]]:
    """What was tried for what, and nothing of when."""
    own = [i for i in result.state.incidents if i.kind not in (Kind.ENGINE_TROUBLE, Kind.UNSEEN)]
    return [(str(i.kind), tuple(t.remedy.words for t in i.tries)) for i in own]


# Engine trouble.


@pytest.mark.parametrize("how", ["launch", "start"])
def test_three_refusals_cost_no_rung_no_restart_and_no_checkpoint(how: str) -> None:
    plain = simulate("kill@step=50:rank=1", shape=TWO_NODES)
    result = simulate("kill@step=50:rank=1", f"refused@time=15:times=3,how={how}", shape=TWO_NODES)
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    troubles = facts(result, f.EngineTrouble)
    assert [(one.times, one.line, one.is_launched) for one in troubles] == [
        (times, REFUSAL, how == "launch") for times in (1, 2, 3)
    ]
    assert kinds_and_states(result) == kinds_and_states(plain) == [("crash", "recovered")]
    assert repairs(result) == repairs(plain)
    assert len(result.state.restarts_s) == len(plain.state.restarts_s) == 1
    assert len(facts(result, f.RungTaken)) == len(facts(plain, f.RungTaken)) == 1
    assert not facts(result, f.CheckpointCondemned)
    assert not result.pages
    assert result.state.incidents[0].tries[0].attempt == result.state.attempts[-1].attempt


def test_the_first_launch_of_a_run_is_tried_again_too() -> None:
    result = simulate("refused@time=0:times=2", shape=TWO_NODES)
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    assert [attempt.outcome for attempt in result.state.attempts] == [REFUSED, REFUSED, "finished"]
    assert not result.state.incidents


@pytest.mark.parametrize("how", ["launch", "start"])
def test_trouble_without_end_calls_a_person_once_and_is_tried_on(how: str) -> None:
    result = simulate(f"refused@time=0:times=0,how={how}", shape=TWO_NODES, until_s=3600.0)
    assert result.ok, result.reproduce
    assert [(page.what, page.to) for page in result.pages] == [("trigger", "1")]
    (incident,) = result.state.incidents
    assert (incident.kind, incident.tries) == (Kind.ENGINE_TROUBLE, ())
    assert REFUSAL in incident.reason
    troubles = facts(result, f.EngineTrouble)
    assert len(troubles) > LIMIT
    paged_s = at_s(result, f.PageRaised)
    before = [e for e in result.entries if isinstance(e.fact, f.EngineTrouble) and e.at_s <= paged_s]
    assert len(before) == LIMIT
    pauses = [one.pause_s for one in troubles]
    longest = policy_named("demo").spec.budget.backoff[1]
    assert pauses[0] < pauses[3] < pauses[-1] == longest


@pytest.mark.parametrize("how", ["launch", "start"])
def test_the_page_is_taken_back_when_the_scheduler_starts_something(how: str) -> None:
    result = simulate(f"refused@time=0:times={LIMIT + 2},how={how}", shape=TWO_NODES)
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    assert facts(result, f.PageResolved)
    assert not result.state.open_pages
    assert (result.state.engine_troubles, result.state.engine_word) == (0, "")


@pytest.mark.parametrize("how", ["launch", "start"])
def test_a_stop_while_the_scheduler_is_away_ends_the_run(how: str) -> None:
    result = simulate(f"refused@time=0:times=0,how={how}", "stop@time=100", shape=TWO_NODES, until_s=1200.0)
    assert (result.ok, result.outcome) == (True, "stopped"), result.reproduce
    assert not result.world_changes or all(change.what != "start" for change in result.world_changes)


def test_a_pause_does_not_make_a_crash_of_it() -> None:
    pause = ("ask@time=20:what=pause", "ask@time=60:what=resume")
    result = simulate("refused@time=0:times=7,how=launch", *pause, shape=TWO_NODES)
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    assert not result.state.incidents


def test_what_dies_after_a_rank_was_heard_is_a_crash_like_any_other() -> None:
    result = simulate("exit@step=0:code=1,attempt=1", shape=TWO_NODES)
    assert result.ok, result.reproduce
    assert not facts(result, f.EngineTrouble)
    assert kinds_and_states(result)[0][0] == "crash"


@pytest.mark.parametrize("seeds", SEEDS)
def test_drawn_trouble_changes_nothing_but_the_time(seeds: range) -> None:
    """Beside the same repairable fault, with and without refusals at any time: the same rungs for the same incidents."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        dice = random.Random(f"refusals {seed}")
        shape = Shape(
            steps=150, step_s=0.4, startup_s=2.0, checkpoint_every=dice.choice((10, 20)), ranks=4,
            nodes=dice.choice((1, 2)), curve=LossCurve(seed),
        )  # fmt: skip
        step, times, how = dice.randrange(15, 120), dice.randrange(1, 2 * LIMIT), dice.choice(("launch", "start"))
        fault = dice.choice(("kill@step={}:rank=1", "crash@step={}", "hang@step={}:rank=1")).format(step)
        refused = f"refused@time={dice.choice((0, 0, 5 + 0.3 * step))}:times={times},how={how}"
        killed = [f"supervisor_kill@time={dice.randrange(1, 120)}:for=5"] if dice.random() < 0.5 else []
        plain, result = simulate(fault, shape=shape), simulate(fault, refused, *killed, shape=shape)
        assert result.ok, f"seed {seed}: {result.reproduce}"
        assert result.outcome == plain.outcome == "finished", f"seed {seed}: {result.reproduce}"
        assert repairs(result) == repairs(plain), f"seed {seed}: {fault} {refused}"
        assert len(result.state.restarts_s) == len(plain.state.restarts_s), f"seed {seed}"
        assert not [one for one in facts(result, f.CheckpointCondemned) if one.evidence == "failures"], f"seed {seed}"
        called = [i for i in result.state.incidents if i.kind is Kind.ENGINE_TROUBLE]
        assert len(called) == (len(facts(result, f.EngineTrouble)) >= LIMIT), f"seed {seed}"
        counts[f"{how}, {'told' if called else 'silent'}"] += 1
    print(f"drawn refusals {seeds[0]} to {seeds[-1]}: {dict(sorted(counts.items()))}")
    assert len(counts) == 4


# Ranks that nobody sees.


def starts_while_living(result: SimulationResult) -> list[str]:
    """The simulator breaks off at a start beside a living attempt; this says the same of what was decided."""
    unseen: set[int] = set()
    wrong = []
    for entry in result.entries:
        match entry.fact:
            case f.AttemptUnseen(attempt=attempt):
                unseen.add(attempt)
            case f.AttemptEnded(attempt=attempt):
                unseen.discard(attempt)
            case f.ActionConfirmed(key=key) if key.startswith("kill/"):
                unseen.discard(int(key.removeprefix("kill/")))
            case f.ActionDecided(action=StartAttempt() as action) if unseen:
                wrong.append(f"{action.key} while {unseen} may live")
    return wrong


def test_nothing_is_started_beside_ranks_that_may_live_and_nothing_is_concluded() -> None:
    result = simulate("unseen@step=50:how=client,for=120", shape=TWO_NODES)
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    (unseen,) = facts(result, f.AttemptUnseen)
    assert isinstance(unseen, f.AttemptUnseen)
    assert (unseen.attempt, unseen.count, [one.host for one in unseen.ranks]) == (1, 2, ["node1", "node1"])
    launched = [entry for entry in result.entries if isinstance(entry.fact, f.AttemptLaunched)]
    assert launched[1].at_s - at_s(result, f.AttemptUnseen) >= 120.0 - SEEN_AFTER_S
    judged = [entry for entry in result.entries if isinstance(entry.fact, (f.IncidentOpened, f.RungTaken, f.CheckpointCondemned))]
    assert min(entry.at_s for entry in judged) - at_s(result, f.AttemptUnseen) >= 120.0 - SEEN_AFTER_S
    assert kinds_and_states(result) == [("crash", "recovered")]
    assert not result.pages


def test_ranks_that_are_never_seen_to_end_call_a_person_and_are_waited_for() -> None:
    result = simulate("unseen@step=50:how=client,for=0", shape=TWO_NODES)
    assert (result.ok, result.outcome) == (True, "unfinished"), result.reproduce
    assert len(result.state.attempts) == 1
    assert (result.state.label, len(result.pages)) == ("unseen", 1)
    waited_s = at_s(result, f.PageRaised) - at_s(result, f.AttemptUnseen)
    assert PAGED_AFTER_S <= waited_s < PAGED_AFTER_S + 5.0
    assert "2 on node1, 3 on node1" in result.state.waits_for
    (incident,) = result.state.incidents
    assert (incident.kind, incident.tries) == (Kind.UNSEEN, ())


def test_the_page_is_taken_back_when_the_ranks_are_known_to_have_ended() -> None:
    result = simulate(f"unseen@step=50:how=client,for={PAGED_AFTER_S + 100:g}", shape=TWO_NODES)
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    assert kinds_and_states(result) == [("unseen", "exhausted"), ("crash", "recovered")]
    assert not result.state.open_pages


def test_a_kill_of_a_hang_that_is_not_proven_holds_its_plan_back() -> None:
    result = simulate("unseen@step=50:how=stop,for=100", "hang@step=60:rank=1", shape=TWO_NODES)
    assert (result.ok, result.outcome) == (True, "finished"), result.reproduce
    assert [fact.attempt for fact in facts(result, f.AttemptUnseen) if isinstance(fact, f.AttemptUnseen)] == [1]
    confirmed = [e.at_s for e in result.entries if isinstance(e.fact, f.ActionConfirmed) and e.fact.key == "kill/1"]
    started = [e.at_s for e in result.entries if isinstance(e.fact, f.ActionDecided) and isinstance(e.fact.action, StartAttempt)]
    assert confirmed[0] - at_s(result, f.AttemptUnseen) >= 90.0
    assert started[1] >= confirmed[0]
    assert kinds_and_states(result) == [("hang", "recovered")]


def test_observe_only_waits_and_kills_nothing() -> None:
    result = simulate("unseen@step=50:how=client,for=60", shape=TWO_NODES, observe_only=True)
    assert result.ok, result.reproduce
    assert not [e for e in result.entries if isinstance(e.fact, f.ActionDecided) and isinstance(e.fact.action, KillAttempt)]


def test_whoever_asks_twice_to_stop_does_not_wait_for_the_proof() -> None:
    result = simulate("unseen@step=50:how=client,for=0", "stop@time=100", "stop@time=120", shape=TWO_NODES, until_s=1200.0)
    assert (result.ok, result.outcome) == (True, "suspended"), result.reproduce
    assert len(result.state.attempts) == 1


@pytest.mark.parametrize("seeds", SEEDS)
def test_drawn_ranks_out_of_sight_never_live_beside_another_attempt(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        dice = random.Random(f"unseen {seed}")
        ranks = dice.choice((2, 4, 8))
        nodes, step, how = dice.choice((2, min(4, ranks))), dice.randrange(10, 110), dice.choice(("client", "stop"))
        seconds = dice.choice((0, 5, 40, 120, 700))
        shape = Shape(steps=130, step_s=0.4, startup_s=2.0, checkpoint_every=20, ranks=ranks, nodes=nodes, curve=LossCurve(seed))
        faults = [f"unseen@step={step}:how={how},for={seconds}"]
        faults += [f"{dice.choice(('hang', 'kill'))}@step={step + dice.randrange(1, 10)}:rank={dice.randrange(ranks)}"]
        faults += [f"supervisor_kill@time={dice.randrange(5, 200)}:for={dice.choice((2, 30))}"] if dice.random() < 0.6 else []
        faults += [f"blind@time={dice.randrange(5, 60)}:source=launcher,for=20"] if dice.random() < 0.3 else []
        result = simulate(*faults, shape=shape, until_s=7200.0)
        assert result.ok, f"seed {seed}: {result.reproduce}"
        assert not starts_while_living(result), f"seed {seed}: {starts_while_living(result)}"
        unseen = facts(result, f.AttemptUnseen)
        assert all(isinstance(fact, f.AttemptUnseen) and fact.attempt for fact in unseen)
        waits = bool(unseen) and seconds == 0
        assert result.outcome == ("unfinished" if waits else "finished"), f"seed {seed}: {result.reproduce}"
        is_told = any(i.kind is Kind.UNSEEN for i in result.state.incidents)
        assert is_told == (bool(unseen) and (seconds == 0 or seconds > PAGED_AFTER_S)), f"seed {seed}: {result.reproduce}"
        tried = [t for i in result.state.incidents for t in i.tries if t.outcome is Outcome.FAILED]
        assert not tried, f"seed {seed}: {tried}"
        counts["waits" if waits else "told" if is_told else "unseen" if unseen else "not met"] += 1
    print(f"drawn ranks out of sight {seeds[0]} to {seeds[-1]}: {dict(sorted(counts.items()))}")
    assert counts["waits"]
    assert counts["unseen"]


# Both, in whatever else is drawn.


def draw_cluster(dice: random.Random, shape: Shape) -> list[str]:
    when, how = dice.choice((0, dice.randrange(1, 150))), dice.choice(("launch", "start"))
    texts = [f"refused@time={when}:times={dice.choice((1, 2, 3, 9))},how={how}"] if dice.random() < 0.6 else []
    if shape.nodes > 1:
        step, how = dice.randrange(2, shape.steps), dice.choice(("client", "stop"))
        texts.append(f"unseen@step={step}:how={how},for={dice.choice((5, 60, 400))}")
    return texts


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 400), marks=pytest.mark.slow)])
def test_a_cluster_in_any_drawn_run_breaks_no_invariant(seeds: range) -> None:
    """People who pause, hold and apply policies, supervisors that die, disks that fill up: whatever `make drills` draws."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        drawn, dice = draw_scenario(20261120 + seed), random.Random(f"cluster {seed}")
        shape = replace(drawn.shape, ranks=max(2, drawn.shape.ranks), nodes=dice.choice((1, 2)))
        faults = (*drawn.faults, *map(parse_fault, draw_cluster(dice, shape)))
        demo = policy_named("demo")
        result = run_scenario(replace(drawn, shape=shape, faults=faults), demo, others={ITSELF: demo})
        assert result.ok, f"seed {seed}: {result.reproduce}"
        assert not starts_while_living(result), f"seed {seed}: {result.reproduce}"
        counts[result.outcome] += 1
    print(f"drawn runs on a cluster {seeds[0]} to {seeds[-1]}: {dict(sorted(counts.items()))}")
    assert counts["finished"] > len(seeds) / 2
