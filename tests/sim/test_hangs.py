"""Drawn hangs that go the whole way: heartbeats, looks at the silent ranks, the finding, the incident with the rank it blames.

Drawn: 2 to 64 ranks on one machine or on several, which rank, in which phase it stands still, how (stopped, blocked, at work,
shown by nothing), a busy machine or an idle one, and for how long. Below the limit it is no hang. The ranks run under our client,
which offers their stacks. Where it cannot (a program has taken its signal, a folder cannot be written) only the kernel of the
supervisor's machine and the phases tell ranks apart, and nobody is blamed where those are even; that is drawn by itself.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sentinel.sim.faults import PHASES
from sentinel.sim.learning import LossCurve
from sentinel.sim.shape import Shape
from tests.sim.kit import simulate

ON_A_MACHINE = 8
STEPS = 35
FIRST, LAST = 15, 30
FLOOR_S = 30.0  # of the policy `default`: the limit of a step that takes half a second


def draw_hang(seed: int, has_stacks: bool) -> tuple[Shape, str, int, float, bool]:
    """The run, its fault, the rank and for how long it stands still; whether what can be seen names the rank."""
    dice = random.Random(seed)
    ranks = dice.choice((2, 2, 3, 8, 16, 32, 64))
    rank, nodes = dice.randrange(ranks), dice.choice((1, (ranks + ON_A_MACHINE - 1) // ON_A_MACHINE))
    how, phase = dice.choice(("stopped", "stopped", "blocked", "works", "runs")), dice.choice(PHASES)
    is_busy, seconds = dice.random() < 0.5, dice.choice((0, 0, 0, 0, 8, 20, 60))
    is_here = rank * nodes // ranks == 0
    is_shown = has_stacks or (is_here and how in ("stopped", "blocked")) or phase == "data"
    options = f"rank={rank},phase={phase},how={how},busy={is_busy:d},stacks={has_stacks:d},for={seconds}"
    fault = f"stuck@step={dice.randrange(FIRST, LAST)}:{options}"
    return Shape(steps=STEPS, ranks=ranks, nodes=nodes, curve=LossCurve(seed)), fault, rank, float(seconds), is_shown


def judge(seeds: range, has_stacks: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        shape, fault, rank, seconds, is_shown = draw_hang(seed, has_stacks)
        result = simulate(fault, policy="default", shape=shape)
        assert result.ok, f"seed {seed}: {result.broken}"
        hangs = [incident for incident in result.state.incidents if incident.kind == "hang"]
        assert len(hangs) == (seconds == 0.0 or seconds > FLOOR_S), f"seed {seed}: {len(hangs)} hangs of {fault}"
        if not hangs:
            counts["short"] += 1
            continue
        blamed = hangs[0].blamed_rank
        assert blamed in (None, rank), f"seed {seed}: rank {blamed} is blamed, {fault}: {hangs[0].reason}"
        counts[f"{'shown' if is_shown else 'not shown'}, {'nobody' if blamed is None else 'right'}"] += 1
    return counts


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 340), marks=pytest.mark.slow)])
def test_the_right_rank_is_blamed_and_never_another(seeds: range) -> None:
    """The slow half has two hundred that are hangs."""
    counts = judge(seeds, has_stacks=True)
    hangs = len(seeds) - counts["short"]
    right = counts["shown, right"]
    print(f"drawn {seeds[0]} to {seeds[-1]}: {hangs} hangs, {right} blamed right, none wrong, {counts['short']} short")
    assert right >= 0.99 * hangs > 0.6 * len(seeds)
    assert counts["short"] > 0


@pytest.mark.parametrize("seeds", [range(1000, 1020), pytest.param(range(1020, 1120), marks=pytest.mark.slow)])
def test_without_stacks_what_shows_the_rank_blames_it_and_nothing_blames_another(seeds: range) -> None:
    counts = judge(seeds, has_stacks=False)
    print(f"drawn without stacks, {seeds[0]} to {seeds[-1]}: {dict(sorted(counts.items()))}, none wrong")
    shown = counts["shown, right"] + counts["shown, nobody"]
    assert counts["shown, right"] >= 0.99 * shown > 0.2 * len(seeds)


def test_what_was_seen_stands_in_the_reason() -> None:
    works, mute = "rank 2 does work of its own, the others wait", "rank 2 shows no stack when it should, the others wait"
    here, there = {"stopped": "rank 2 is stopped by a signal", "works": works, "runs": mute}, {"stopped": mute, "blocked": works}
    for nodes, how, words in [(1, *one) for one in here.items()] + [(2, *one) for one in there.items()]:
        fault = f"stuck@step=20:rank=2,phase=backward,how={how},busy=1"
        (hang,) = simulate(fault, policy="default", shape=Shape(steps=STEPS, ranks=4, nodes=nodes)).state.incidents
        assert words in hang.reason
        assert (hang.blamed_rank, str(hang.state)) == (2, "recovered")


def test_where_nothing_tells_the_ranks_apart_nobody_is_blamed() -> None:
    fault = "stuck@step=20:rank=2,phase=backward,how=runs,stacks=0"
    (hang,) = simulate(fault, policy="default", shape=Shape(steps=STEPS, ranks=4)).state.incidents
    assert hang.blamed_rank is None


def test_a_stall_that_ends_by_itself_is_no_hang_and_the_run_goes_on() -> None:
    result = simulate("stuck@step=20:rank=1,how=blocked,for=25", policy="default", shape=Shape(steps=STEPS))
    assert (result.outcome, result.state.incidents, len(result.state.attempts)) == ("finished", (), 1)
