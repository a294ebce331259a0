"""The gate by itself: medians, windows, rows, and its state. Losses and norms are drawn from seeds that are printed."""

import json
import math
import random
import statistics as plain

import pytest
import torch

from trainer.config.sections import Stability
from trainer.optim.gate import FLOOR, NORMAL, Gate

CPU = torch.device("cpu")


def gate_of(scaled=False, **settings):
    return Gate(Stability(**{"gate": "outlier", "gate_window": 32, **settings}), scaled, CPU)


def judge(gate, loss, norm=1.0, nonfinite=None):
    bad = not (math.isfinite(loss) and math.isfinite(norm)) if nonfinite is None else nonfinite
    return bool(gate.judge(*(torch.tensor(value, dtype=torch.float64) for value in (loss, norm)), torch.tensor(bad)))


def settled(steps=32, **settings):
    """A gate that has seen a quiet stretch around 3.0 and 1.0."""
    gate, dice = gate_of(**settings), random.Random(7)
    for _ in range(steps):
        assert not judge(gate, 3.0 + dice.gauss(0, 0.02), 1.0 + dice.gauss(0, 0.05))
    return gate


def is_outlier_by_hand(held, value, sigmas):
    middle = plain.median(held)
    deviation = max(NORMAL * plain.median([abs(one - middle) for one in held]), FLOOR * abs(middle))
    return value > middle + sigmas * deviation


@pytest.mark.parametrize("window", [8, 17, 32])
def test_it_decides_as_medians_by_hand_do(window):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice, gate, held = random.Random(seed), gate_of(gate_window=window, gate_sigmas=3.0, gate_patience=4), []
    enough, row, verdicts = min(window, max(16, window // 4)), 0, []
    for _ in range(200):
        pair = tuple(abs(dice.gauss(3, 0.1)) * (4 if dice.random() < 0.1 else 1) for _ in range(2))
        outlier = len(held) >= enough and any(is_outlier_by_hand([one[n] for one in held], pair[n], 3.0) for n in (0, 1))
        row = row + 1 if outlier else 0
        if row == 4:
            held, row, outlier = [], 0, False
        assert judge(gate, *pair) == outlier
        held = held if outlier else [*held, pair][-window:]
        verdicts.append(outlier)
    assert 5 < sum(verdicts) < 150


@pytest.mark.parametrize(("loss", "norm"), [(4.0, 1.0), (3.0, 2.0), (1e30, 1e30)])
def test_a_spike_of_either_is_left_out_and_the_next_update_is_not(loss, norm):
    gate = settled()
    assert judge(gate, loss, norm)
    assert not judge(gate, 3.0)


def test_what_falls_is_never_an_outlier():
    gate = settled()
    assert not judge(gate, 0.1, 0.001)


def test_neither_spikes_nor_what_is_not_finite_enter_the_window():
    gate = settled()
    before = gate.state()
    for loss, norm in ((9.0, 1.0), (math.nan, 1.0), (3.0, math.inf), (math.nan, math.nan)):
        assert judge(gate, loss, norm)
    after = gate.state()
    assert (after["losses"], after["grad_norms"]) == (before["losses"], before["grad_norms"])
    assert not judge(gate, 3.0)


@pytest.mark.parametrize("size", [8, 32, 128])
def test_too_few_steps_give_no_verdict(size):
    enough = {8: 8, 32: 16, 128: 32}[size]
    gate = settled(enough - 1, gate_window=size)
    assert not judge(gate, 50.0)
    assert judge(settled(enough, gate_window=size), 50.0)


def test_a_new_level_is_accepted_after_its_patience_and_judged_by_itself_from_then_on():
    gate = settled(gate_patience=5)
    verdicts = [judge(gate, 4.0 + 0.01 * number) for number in range(30)]
    assert verdicts == [True] * 4 + [False] * 26
    assert gate.state()["losses"][0] == pytest.approx(4.04), "the window began anew with the step that was let through"
    assert judge(gate, 9.0)


def test_an_overflow_between_outliers_neither_breaks_nor_lengthens_their_row():
    gate = settled(gate_patience=3, scaled=True)
    assert [judge(gate, *pair) for pair in ((5.0, 1.0), (5.0, math.inf), (5.0, 1.0), (5.0, math.nan), (5.0, 1.0))] == [
        True, True, True, True, False
    ]  # fmt: skip


def test_a_window_of_one_number_over_and_over_does_not_refuse_what_is_near_it():
    gate = gate_of()
    for _ in range(32):
        judge(gate, 2.0, 1.0)
    assert not judge(gate, 2.05)
    assert judge(gate, 2.2)


@pytest.mark.parametrize(("gate", "scaled", "nan", "spike"), [
    ("off", False, False, False), ("off", True, True, False), ("nonfinite", False, True, False), ("outlier", False, True, True),
])  # fmt: skip
def test_each_mode_leaves_out_what_it_says(gate, scaled, nan, spike):
    own = settled(gate=gate, scaled=scaled)
    assert (judge(own, math.nan), judge(own, 50.0)) == (nan, spike)


def test_its_state_goes_through_json_to_the_bit_and_into_a_window_of_another_size():
    gate = settled(45, gate_patience=9)
    judge(gate, 9.0)
    judge(gate, 9.0)
    state = json.loads(json.dumps(gate.state()))
    assert (state["outliers_in_row"], len(state["losses"])) == (2, 32)
    again, smaller = gate_of(gate_patience=9), gate_of(gate_window=16)
    judge(again, 77.0)  # whatever it held before
    again.restore(state)
    smaller.restore(state)
    assert again.state() == state
    assert smaller.state()["losses"] == state["losses"][-16:]
    dice = random.Random(8)
    for _ in range(40):
        pair = 3.0 + dice.gauss(0, 0.3), 1.0 + dice.gauss(0, 0.3)
        assert judge(again, *pair) == judge(gate, *pair)
    assert again.state() == gate.state()
    again.restore(None)
    assert again.state() == gate_of().state() == {"outliers_in_row": 0, "losses": [], "grad_norms": []}
