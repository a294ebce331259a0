"""What must move neither pace nor rhythm: rows again or late, clocks that jump, one huge step, heartbeats in any order."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.detectors.rank_places import Beat, choose_silent, choose_stuck
from sentinel.detectors.straggler import choose_slow
from sentinel.model.findings import Finding, Kind
from sentinel.model.readings import Heartbeat, StepReading, TrainerNote
from tests.unit.detectors.bank_kit import make_bank, receipt, row

HICCUPS_APART = 3
few = settings(max_examples=25, deadline=None)
LAST, SLOW_FROM = 500, 301


def rows(seed: int, slow_from: int = SLOW_FROM, jumps: dict[int, float] | None = None) -> list[StepReading]:
    dice, time_s, out = random.Random(seed), 1e6, []
    for step in range(1, LAST + 1):
        time_s += (2.0 if step >= slow_from else 1.0) * dice.lognormvariate(0.0, 0.1) + (jumps or {}).get(step, 0.0)
        out.append(row(step, time_s=time_s, loss=2.0))
    return out


def paced(readings: list[StepReading]) -> list[Finding]:
    bank = make_bank()
    found = [finding for n, reading in enumerate(readings) for finding in bank.step(reading, float(n))]
    return [finding for finding in found if finding.kind is Kind.SLOWDOWN]


jumps = st.dictionaries(st.integers(2, LAST), st.sampled_from([-1e9, -3600.0, 600.0, 1e9]), max_size=8)


@few
@given(st.integers(0, 1000), jumps)
def test_huge_steps_and_clocks_that_jump_are_no_slowdown(seed: int, jumped: dict[int, float]) -> None:
    assert paced(rows(seed, slow_from=10**9, jumps=jumped)) == []


@few
@given(st.integers(0, 1000), st.lists(st.tuples(st.integers(2, LAST), st.integers(1, 60)), max_size=6))
def test_rows_that_come_again_or_late_change_no_finding(seed: int, again: list[tuple[int, int]]) -> None:
    once = rows(seed)
    more: list[StepReading] = []
    for reading in once:
        more.append(reading)
        for step, back in again:
            if reading.step == step:
                more += once[max(0, step - back) : step]
    assert [f.key for f in paced(more)] == [f.key for f in paced(once)] != []


@few
@given(st.integers(0, 1000), st.integers(20, 250))
def test_a_row_that_is_missing_hides_no_slowdown(seed: int, gone: int) -> None:
    assert len(paced([reading for reading in rows(seed) if reading.step % gone])) == 1


@few
@given(st.integers(0, 10_000), st.integers(2, 12), st.floats(0.0, 1.0))
def test_ranks_alike_are_never_stragglers_whatever_is_heard_of_them(seed: int, ranks: int, heard: float) -> None:
    """A rank may hiccup, but not in most of what is heard of it: of three hiccups in five steps nobody could say that it is well.
    (That was drawn once: seed 5121, two ranks, 0.375 heard.)"""
    dice = random.Random(seed)
    bank = make_bank()
    bank.receipt(receipt(world_size=ranks), 0.0)
    found: list[Finding] = []
    well = dict.fromkeys(range(ranks), HICCUPS_APART)  # what was heard of a rank since its last hiccup
    for step in range(1, 150):
        order = list(range(ranks))
        dice.shuffle(order)
        for rank in order:
            if dice.random() <= heard:
                late = max(1, step - dice.choice((0, 0, 1, 5)))
                hiccups = well[rank] >= HICCUPS_APART and dice.random() < 0.1
                well[rank] = 0 if hiccups else well[rank] + 1
                took = 100.0 if hiccups else 0.3 * dice.lognormvariate(0.0, 0.1)
                bank.heartbeats([Heartbeat(1, rank, late, "forward", dice.uniform(-1e9, 1e9), took, late)], float(step))
        found += bank.step(row(step, loss=2.0), float(step))
        found += bank.tick(float(step))
    assert [finding for finding in found if finding.kind is Kind.STRAGGLER] == []


medians = st.dictionaries(st.integers(0, 200), st.floats(0.0, 100.0), min_size=2, max_size=64)


@given(medians, st.floats(0.001, 10.0))
def test_at_most_half_of_the_ranks_stand_out(busy: dict[int, float], step_s: float) -> None:
    slow = choose_slow(busy, step_s, 1.5, 0.1)
    assert 2 * len(slow) <= len(busy)
    assert all(found.busy_s - found.typical_s >= 0.1 * step_s * (1 - 1e-9) for found in slow.values())


PHASES = ("data", "forward", "backward", "optimizer", "eval")
beats = st.dictionaries(
    st.integers(0, 8),
    st.builds(lambda step, phase, heard, stay: Beat(step, phase, heard, heard - stay), st.integers(1, 3), st.sampled_from(PHASES),
              st.floats(0.0, 100.0), st.sampled_from([0.0, 10.0])),
    max_size=8,
)  # fmt: skip


@given(beats, st.integers(0, 8), st.floats(0.0, 100.0))
def test_whoever_is_blamed_is_there_to_be_blamed(where: dict[int, Beat], ranks: int, stepped_s: float) -> None:
    blamed = choose_stuck(where, ranks)
    assert blamed is None or blamed in where or blamed < ranks
    silent = choose_silent(where, 100.0, stepped_s, 30.0)
    assert all(100.0 - where[rank].seen_s > 30.0 for rank in silent)
    assert not silent or len(silent) < len(where), "somebody lives and waits"


@few
@given(st.integers(0, 1000), st.integers(5, 50), jumps)
def test_a_steady_rhythm_is_never_stale(seed: int, every: int, jumped: dict[int, float]) -> None:
    dice, bank, found = random.Random(seed), make_bank(), []
    for reading in rows(seed, jumps=jumped):
        now_s = float(reading.step)
        found += bank.step(reading, now_s)
        if reading.step % every == 0:
            for _ in range(dice.choice((1, 1, 2))):
                bank.note(TrainerNote(1, "checkpoint_committed", reading.step, reading.time_s), now_s)
        found += bank.tick(now_s)
    assert [finding for finding in found if finding.kind is Kind.STALE_CHECKPOINT] == []
