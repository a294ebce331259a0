"""ZClip against the same rule in plain numbers, and the stricter of two bounds."""

import json
import math
import random
import statistics

import pytest
import torch

from tests.unit.trainer.stepping import HYPER, Stepping, batches
from trainer.optim.clipping import GUARD, WARM_UP, ZClip, coefficient

CPU = torch.device("cpu")


def tensor(value):
    return torch.tensor(value, dtype=torch.float64)


def by_hand(norms, threshold, decay):
    """What each norm is brought to."""
    first, mean, variance, bounds = [], 0.0, 0.0, []
    for norm in norms:
        bound = norm
        if math.isfinite(norm) and len(first) < WARM_UP:
            first.append(norm)
            mean, variance = statistics.fmean(first), statistics.pvariance(first)
        elif math.isfinite(norm):
            z = (norm - mean) / (math.sqrt(variance) + GUARD)
            if z > threshold:
                bound = mean + math.sqrt(variance) * threshold**2 / z
            mean = decay * mean + (1 - decay) * bound
            variance = decay * variance + (1 - decay) * (bound - mean) ** 2
        bounds.append(bound)
    return bounds


def drawn(count):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)
    return [abs(dice.gauss(1.0, 0.2)) * (20 if dice.random() < 0.05 else 1) for _ in range(count)]


def test_it_is_the_rule_of_the_paper():
    norms = drawn(300)
    norms[3], norms[90], norms[91] = math.nan, math.inf, math.nan
    norms[200] = 50.0
    zclip = ZClip(2.5, 0.97, CPU)
    found = [zclip.bound(tensor(norm)).item() for norm in norms]
    assert found == pytest.approx(by_hand(norms, 2.5, 0.97), rel=1e-9, nan_ok=True)
    assert found[200] < 5.0
    assert zclip.count.item() == 297


def test_the_further_out_the_harder_it_clips():
    zclip = ZClip(2.5, 0.97, CPU)
    for norm in (0.9, 1.1) * 20:
        zclip.bound(tensor(norm))
    kept = zclip.state()
    bounds = []
    for norm in (1.2, 1.5, 2.0, 10.0):
        zclip.restore(kept)
        bounds.append(zclip.bound(tensor(norm)).item())
    assert bounds[0] == 1.2
    assert 1.2 > bounds[1] > bounds[2] > bounds[3] > 1.0


def test_its_state_goes_through_json_to_the_bit():
    zclip, again = ZClip(2.5, 0.97, CPU), ZClip(2.5, 0.97, CPU)
    norms = drawn(120)
    for norm in norms[:40]:
        zclip.bound(tensor(norm))
    again.bound(tensor(99.0))
    again.restore(json.loads(json.dumps(zclip.state())))
    assert [zclip.bound(tensor(norm)).item() for norm in norms[40:]] == [again.bound(tensor(norm)).item() for norm in norms[40:]]
    assert zclip.state() == again.state()
    again.restore(None)
    assert again.state() == ZClip(2.5, 0.97, CPU).state()


def test_the_stricter_bound_clips():
    assert coefficient(tensor(4.0), 1.0, None).item() == pytest.approx(0.25)
    assert coefficient(tensor(0.5), 1.0, None).item() == 1.0
    zclip = ZClip(2.5, 0.97, CPU)
    for norm in (0.9, 1.1) * 20:
        assert coefficient(tensor(norm), 5.0, zclip).item() == 1.0, "what neither bound concerns is left alone"
    assert coefficient(tensor(4.0), 5.0, zclip).item() < 0.3
    assert coefficient(tensor(4.0), 0.1, zclip).item() == pytest.approx(0.025)


def test_a_gradient_that_jumps_is_clipped_below_the_fixed_bound(world, config):
    stepping = Stepping(world, config, stability={"zclip": 1.0, "zclip_decay": 0.5})
    assert stepping.optimizer.zclip.decay == 0.5
    for batch in batches(WARM_UP):
        stepping.step(batch)
    statistics = stepping.step(after_backward=lambda: stepping.gradients(1.0))
    clipped = statistics["grad_norm"].item() * statistics["clip_coef"].item()
    assert statistics["grad_norm"].item() > 100
    stepping.optimizer.clip_norm = 1e9
    assert clipped <= HYPER.clip_norm
    statistics = stepping.step(after_backward=lambda: stepping.gradients(1.0))
    assert statistics["grad_norm"].item() * statistics["clip_coef"].item() < 10.0, "no fixed bound is left, and ZClip's holds"
