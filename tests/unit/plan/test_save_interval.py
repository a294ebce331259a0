"""How often to save: Daly's interval from what saves cost and how often the run was interrupted, or why nothing is advised."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from sentinel.model.attempts import SettingsInForce
from sentinel.model.state import Attempt, Mark
from sentinel.plan.save_interval import SaveInterval, advise_interval, daly_s

STEP_S = 2.0


def attempt(number: int, every: int, saves: int, save_s: float, outcome: str = "crashed", **more: object) -> Attempt:
    """Saves every so many steps, then half an interval more, and an end."""
    began_s = 1e6 * number
    marks = tuple(Mark(every * n, began_s + n * (every * STEP_S + save_s), save_s, save_s) for n in range(1, saves + 1))
    last_s = began_s + (saves + 0.5) * every * STEP_S
    fields = {"receipt_s": began_s, "last_step_s": last_s, "ended_s": last_s, "outcome": outcome, "marks": marks} | more
    return Attempt(number, began_s, None, SettingsInForce(), "", **fields)


def advised(*attempts: Attempt) -> SaveInterval:
    found = advise_interval(attempts)
    assert isinstance(found, SaveInterval), found
    return found


@pytest.mark.parametrize(
    ("attempts", "why"),
    [
        ((), "the cost of 0 saves is known, and 3 are needed"),
        ((attempt(1, 100, 2, 5.0),), "the cost of 2 saves is known, and 3 are needed"),
        ((attempt(1, 100, 9, 0.0),), "the cost of 0 saves is known, and 3 are needed"),
        (tuple(attempt(n, 100, 1, 5.0) for n in range(1, 5)), "no two saves of one attempt were seen"),
        ((attempt(1, 100, 9, 5.0, "finished"),), "it was never interrupted"),
        ((attempt(1, 100, 9, 5.0, "crashed", stopped_by="ann"),), "it was never interrupted"),
        ((attempt(1, 100, 9, 5.0, "", ended_s=None),), "it was never interrupted"),
    ],
)
def test_what_is_not_known_advises_nothing(attempts: tuple[Attempt, ...], why: str) -> None:
    assert advise_interval(attempts) == why


def test_the_interval_is_dalys() -> None:
    found = advised(*(attempt(n, 500, 10, 12.0) for n in (1, 2, 3)), attempt(4, 500, 10, 12.0, "stopped", stopped_by="ann"))
    mean_s = 4 * 10.5 * 500 * STEP_S / 3
    ratio = 12.0 / (2 * mean_s)
    daly_s = math.sqrt(2 * 12.0 * mean_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - 12.0
    assert found.interruptions == 3
    assert found.steps == round(daly_s / STEP_S)
    assert found.now_steps == 500
    assert found.share < found.now_share
    assert found.blocked_share == pytest.approx(12.0 / (found.steps * STEP_S + 12.0))
    assert found.now_blocked_share == pytest.approx(12.0 / (500 * STEP_S + 12.0))


def test_saving_blocks_a_hundredth_at_most_where_five_thousand_saves_fit_between_two_interruptions() -> None:
    """What the bar of 1 % asks of a run: sqrt(s / 2M), whatever the trainer is."""
    for save_s in (0.05, 1.0, 20.0):
        interval_s = daly_s(save_s, 5000 * save_s)
        assert save_s / (interval_s + save_s) == pytest.approx(0.01, rel=0.01)


@pytest.mark.parametrize(("mean_min", "optimum_min"), [(24 * 60.0, 117.0), (6 * 60.0, 57.0), (15.0, 9.1)])
def test_the_papers_own_examples(mean_min: float, optimum_min: float) -> None:
    """Figures 3 to 5: a dump takes 5 minutes."""
    found = daly_s(5.0 * 60.0, mean_min * 60.0) / 60.0
    assert found == pytest.approx(optimum_min, abs=0.5 if optimum_min > 10 else 0.05)


def test_a_repair_counts_and_a_save_is_never_begun_before_the_one_before_is_done() -> None:
    slow = tuple(Mark(10 * n, 20.01 * n, 0.01, 900.0) for n in range(1, 6))
    found = advised(attempt(1, 10, 5, 0.01, "", stopping="rollback", marks=slow))
    assert found.interruptions == 1
    assert found.steps == 450, "900 s of writing behind training"


def test_where_saves_cost_more_than_the_run_lives_it_saves_once_between_two_interruptions() -> None:
    found = advised(*(attempt(n, 1, 3, 100.0) for n in (1, 2)))
    assert found.steps * STEP_S == 100.0, "and no sooner than a save is done"


@pytest.mark.parametrize("seed", range(3))
def test_no_other_interval_costs_less_in_a_simulated_year(seed: int) -> None:
    """Training interrupted at random, begun again at the last save: the advised interval is within 3 % of the best of many."""
    save_s, mean_s, dice = 30.0, 20_000.0, random.Random(seed)
    gaps_s = [dice.expovariate(1.0 / mean_s) for _ in range(20_000)]

    def lost_share(interval_s: float) -> float:
        kept_s = fmean(interval_s * (gap_s // (interval_s + save_s)) for gap_s in gaps_s)
        return 1.0 - kept_s / fmean(gaps_s)

    marks = tuple(Mark(1000 * n, n * (2000.0 + save_s), save_s, save_s) for n in range(1, 11))
    one = attempt(1, 1000, 10, save_s, "crashed", marks=marks, last_step_s=1e6 + mean_s)
    advised_s = advised(one).steps * STEP_S
    best = min(lost_share(0.1 * percent * advised_s) for percent in range(3, 40))
    assert lost_share(advised_s) <= 1.03 * best
