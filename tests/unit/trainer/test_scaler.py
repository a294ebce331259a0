"""The loss scale against torch's own rule, and against Megatron's hysteresis by hand."""

import json
import random

import pytest
import torch

from trainer.config.sections import Numerics
from trainer.optim.scaler import BACKOFF, GROWTH, LossScaler

CPU = torch.device("cpu")


def scaler_of(**settings):
    return LossScaler(Numerics(precision="fp16", **settings), CPU)


def scales(scaler, overflows):
    """In force after each update."""
    found = []
    for overflow in overflows:
        scaler.update(torch.tensor(float(overflow)))
        found.append(scaler.scale.item())
    return found


@pytest.mark.parametrize(("first", "share"), [(65536.0, 0.1), (2.0**126, 0.02), (1.0, 0.15)])
def test_without_hysteresis_it_is_the_scaler_of_torch(first, share):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)
    overflows = [dice.random() < share for _ in range(400)]
    scale, clean, wanted = torch.full((), first), torch.zeros((), dtype=torch.int32), []
    for overflow in overflows:
        torch._amp_update_scale_(scale, clean, torch.tensor(float(overflow)), GROWTH, BACKOFF, 7)
        wanted.append(scale.item())
    assert scales(scaler_of(loss_scale=first, loss_scale_growth_steps=7, loss_scale_min=2.0**-149), overflows) == wanted


def test_hysteresis_forgives_until_it_is_used_up_and_again_once_the_scale_has_grown():
    scaler = scaler_of(loss_scale=64.0, loss_scale_growth_steps=3, loss_scale_hysteresis=2)
    assert scales(scaler, (1, 0, 0, 1, 1)) == [64, 64, 64, 32, 16], "the first is forgiven; clean updates alone forgive nothing"
    assert scales(scaler, (0, 0, 0, 1, 1)) == [16, 16, 32, 32, 16]


def test_it_never_falls_below_its_floor_nor_rises_to_it():
    scaler = scaler_of(loss_scale=8.0, loss_scale_min=3.0)
    assert scales(scaler, (1, 1, 1)) == [4, 3, 3]
    scaler.set_scale(1.0)
    assert scales(scaler, (1,)) == [1], "a person may set less"


def test_its_state_goes_through_json_and_a_new_scale_begins_to_count_anew():
    settings = {"loss_scale": 64.0, "loss_scale_growth_steps": 5, "loss_scale_hysteresis": 2}
    scaler, again = scaler_of(**settings), scaler_of(**settings)
    scales(scaler, (0, 1, 0, 0))
    state = json.loads(json.dumps(scaler.state()))
    assert state == {"scale": 64.0, "clean_updates": 2, "forgiven": 1}
    again.restore(state)
    ahead = (0, 0, 0, 1, 1, 0)
    assert scales(again, ahead) == scales(scaler, ahead)
    again.restore({"scale": 8.0, "clean_updates": 4})
    assert again.state() == {"scale": 8.0, "clean_updates": 4, "forgiven": 0}, "of before there was hysteresis"
    again.set_scale(2.0)
    assert again.state() == {"scale": 2.0, "clean_updates": 0, "forgiven": 0}


def test_other_precisions_have_no_scale():
    scaler = LossScaler(Numerics(precision="bf16"), CPU)
    scaler.restore({"scale": 8.0, "clean_updates": 4})
    assert scales(scaler, (1, 1)) == [1, 1]
    assert scaler.state() is None
