"""What adamw_step leaves alone: updates that do not apply, and arguments that it does not take. For tests/gpu too."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from cuda_ext.ops.adamw_step import adamw_step
from cuda_ext.reference.adamw_step import adamw_step as reference
from tests.cuda_ext.many_tensors import CHUNK, REFUSAL, bytes_of, control, optimizer_state, shifted, step_stats_in_double

NAN, INF = math.nan, math.inf
REFUSED = [{"gate": 1.0}, {"gate": 2.0}, {"gate": -1.0}, {"gate": 1e-300}, {"gate": NAN}, {"gate": INF}]
REFUSED += [{"grad_factor": NAN}, {"grad_factor": INF}, {"grad_factor": -INF}, {"grad_factor": 1e39}]


@pytest.fixture
def device(cpu_library: Any) -> torch.device:
    return torch.device("cpu")


@pytest.mark.parametrize("tier", [adamw_step, reference], ids=["op", "reference"])
@pytest.mark.parametrize("changed", REFUSED, ids=str)
def test_an_update_that_does_not_apply_changes_not_one_bit(device: torch.device, tier: Any, changed: dict[str, float]) -> None:
    now = optimizer_state(device)
    now.grads[3][:] = NAN
    now.grads[-1][5] = INF
    now.params[4][0], now.params[5][1], now.firsts[6][2], now.seconds[7][3] = NAN, -0.0, -INF, NAN
    before, stood = bytes_of(now.changeable), now.copy()
    stats = tier(*now.arguments(control(device, **changed)))
    assert bytes_of(now.changeable) == before
    wanted = step_stats_in_double(stood, now)
    wanted[:, 0] = 0.0
    torch.testing.assert_close(stats, wanted, rtol=1e-12, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("tier", [adamw_step, reference], ids=["op", "reference"])
@pytest.mark.parametrize("kind", ["grads", "params", "firsts", "seconds"])
def test_an_update_that_does_not_apply_tells_of_what_stands_there_as_the_update_that_left_it_did(
    device: torch.device, tier: Any, kind: str
) -> None:
    """To the bit: a series of norms does not jump where a step is left out. Wherever the tensors begin."""
    now = optimizer_state(device)
    setattr(now, kind, [shifted(tensor, 1) for tensor in getattr(now, kind)])
    stats = tier(*now.arguments(control(device)))
    assert stats[:, 0].all()
    for changed in ({"gate": 1.0}, {"grad_factor": NAN}):
        again = tier(*now.arguments(control(device, **changed)))
        assert bytes_of([again[:, 1:]]) == bytes_of([stats[:, 1:]])
        assert not again[:, 0].any()


@pytest.mark.parametrize("tier", [adamw_step, reference], ids=["op", "reference"])
def test_shapes_may_differ_where_the_elements_are_as_many(device: torch.device, tier: Any) -> None:
    plain = optimizer_state(device, sizes=(6, 1))
    shaped = plain.copy()
    shapes = ((2, 3), (6,), (6, 1), (1, 6)), ((), (1,), (1, 1), ())
    for number, row in enumerate(shapes):
        lists = (shaped.params, shaped.grads, shaped.firsts, shaped.seconds)
        for tensors, shape in zip(lists, row, strict=True):
            tensors[number] = tensors[number].view(shape)
    shaped.step = shaped.step.view(1, 1)
    stats = [tier(*plain.arguments(control(device))), tier(*shaped.arguments(control(device).view(1, -1)))]
    assert bytes_of([stats[0]]) == bytes_of([stats[1]])
    assert bytes_of(shaped.changeable) == bytes_of(plain.changeable)


def test_the_update_after_one_that_did_not_apply_is_as_if_it_had_never_been(device: torch.device) -> None:
    now = optimizer_state(device)
    twin = now.copy()
    adamw_step(*now.arguments(control(device, gate=1.0)))
    adamw_step(*now.arguments(control(device)))
    adamw_step(*twin.arguments(control(device)))
    assert bytes_of(now.changeable) == bytes_of(twin.changeable)


def test_a_gradient_that_is_not_finite_ends_in_its_own_element_alone(device: torch.device) -> None:
    now = optimizer_state(device)
    twin = now.copy()
    place = CHUNK + 700
    now.grads[-1][place] = NAN
    stats = adamw_step(*now.arguments(control(device)))
    healthy = adamw_step(*twin.arguments(control(device)))
    assert now.params[-1][place].isnan()
    assert stats[-1].isnan().all()
    assert torch.equal(stats[:-1], healthy[:-1])
    now.params[-1][place], now.firsts[-1][place], now.seconds[-1][place] = (
        tensors[-1][place] for tensors in (twin.params, twin.firsts, twin.seconds)
    )
    assert bytes_of(now.changeable) == bytes_of(twin.changeable)


@pytest.mark.parametrize("tier", [adamw_step, reference], ids=["op", "reference"])
@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("params", torch.Tensor.double, r"params\[1\]: dtype float64, must be one of float32(?!,)"),
        ("params", torch.Tensor.bfloat16, r"params\[1\]: dtype bfloat16, must be one of float32(?!,)"),
        ("grads", torch.Tensor.half, r"grads\[1\]: dtype float16, must be one of float32, bfloat16(?!,)"),
        ("firsts", lambda tensor: tensor[:-1], r"exp_avgs\[1\]: 8 elements, must be 9"),
        ("seconds", lambda tensor: tensor.repeat(2)[::2], r"exp_avg_sqs\[1\]: not contiguous"),
    ],
)
def test_a_tensor_that_it_does_not_take_is_named(device: torch.device, tier: Any, kind: str, change: Any, message: str) -> None:
    now = optimizer_state(device, sizes=(4, 9))
    before = bytes_of(now.changeable)
    tensors = getattr(now, kind)
    sound, tensors[1] = tensors[1], change(tensors[1])
    with pytest.raises(REFUSAL, match="adamw_step: " + message):
        tier(*now.arguments(control(device)))
    tensors[1] = sound
    assert bytes_of(now.changeable) == before


@pytest.mark.parametrize("tier", [adamw_step, reference], ids=["op", "reference"])
def test_lists_and_settings_that_it_does_not_take_are_named(device: torch.device, tier: Any) -> None:
    now, settings = optimizer_state(device, sizes=(4, 9)), control(device)
    for place, name in ((1, "grads"), (2, "exp_avgs"), (3, "exp_avg_sqs"), (6, "decays")):
        arguments = list(now.arguments(settings))
        arguments[place] = arguments[place][:1]
        with pytest.raises(REFUSAL, match=f"adamw_step: {name}: 1 of them, must be as many as params, 2"):
            tier(*arguments)
    with pytest.raises(REFUSAL, match="adamw_step: control: 6 elements, must be 7"):
        tier(*now.arguments(settings[:6]))
    with pytest.raises(REFUSAL, match="adamw_step: control: dtype float32, must be one of float64"):
        tier(*now.arguments(settings.float()))
    now.step = now.step.double()
    with pytest.raises(REFUSAL, match="adamw_step: step: dtype float64, must be one of float32"):
        tier(*now.arguments(settings))
