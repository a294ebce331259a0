"""adamw_step beside torch's own fused AdamW and beside float64. The tests that take a `device` are those of tests/gpu too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from cuda_ext.ops.adamw_step import CONTROLS, adamw_step
from cuda_ext.reference.adamw_step import adamw_step as reference
from tests.cuda_ext.many_tensors import (
    CHUNK,
    DEFAULTS,
    SIZES,
    OptimizerState,
    bytes_of,
    control,
    drawn_each,
    joined,
    optimizer_state,
    shifted,
    step_stats_in_double,
    stepped_in_double,
    threads,
)

# One update from the same float32 numbers: a few roundings, each 2^-24 of a parameter of size up to 4, of a first moment of up to
# 0.3, and of a second moment, which is a sum of positive numbers.
NEAR = {"params": (3e-7, 3e-7), "firsts": (3e-7, 3e-8), "seconds": (3e-7, 0.0)}


@pytest.fixture
def device(cpu_library: Any) -> torch.device:
    return torch.device("cpu")


def assert_near(now: OptimizerState, wanted: OptimizerState) -> None:
    for kind, (relative, absolute) in NEAR.items():
        torch.testing.assert_close(joined(getattr(now, kind)), joined(getattr(wanted, kind)), rtol=relative, atol=absolute)


def test_the_controls_are_in_this_order() -> None:
    assert tuple(DEFAULTS) == CONTROLS


@pytest.mark.parametrize("tier", [adamw_step, reference], ids=["op", "reference"])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"lr": 0.0},
        {"lr": 3e-3, "weight_decay": 0.0},
        {"grad_factor": 2.0**-16},
        {"grad_factor": 0.0},
        {"beta1": 0.0, "beta2": 0.0},
        {"beta1": 0.3, "beta2": 0.999, "eps": 1e-3},
    ],
    ids=str,
)
@pytest.mark.parametrize("grad_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("step", [0, 100_000])
def test_an_update_is_as_in_float64(
    device: torch.device, tier: Any, changed: dict[str, float], grad_dtype: torch.dtype, step: int
) -> None:
    now = optimizer_state(device, grad_dtype=grad_dtype, step=step)
    if changed.get("grad_factor"):
        now.grads = [grad / changed["grad_factor"] for grad in now.grads]
    before = now.copy()
    stats = tier(*now.arguments(control(device, **changed)))
    assert_near(now, stepped_in_double(before, **changed))
    assert now.step.item() == step + 1
    torch.testing.assert_close(stats, step_stats_in_double(before, now), rtol=1e-12, atol=0.0)


def test_an_update_is_the_same_bits_as_float32_rounded_at_every_operation(device: torch.device) -> None:
    """On every device. numpy joins no two operations, and rounds divisions and roots as IEEE 754 does."""
    now = optimizer_state(device, step=6)
    before = now.copy()
    adamw_step(*now.arguments(control(device, grad_factor=0.3)))
    single = np.float32
    step_size, unbias_root = single(1e-3 / (1 - 0.9**7)), single(1 / (1 - 0.95**7) ** 0.5)
    for index, decay in enumerate(before.decays):
        param, first, second, grad = (
            tensors[index].cpu().numpy() for tensors in (before.params, before.firsts, before.seconds, before.grads)
        )
        scaled = grad * single(0.3)
        first = first + single(1 - 0.9) * (scaled - first)
        second = second * single(0.95) + single(1 - 0.95) * scaled * scaled
        root = np.sqrt(second) * unbias_root + single(1e-8)
        param = param * single(1 - 1e-3 * 0.1 * decay) - step_size * first / root
        assert now.firsts[index].cpu().numpy().tobytes() == first.tobytes()
        assert now.seconds[index].cpu().numpy().tobytes() == second.tobytes()
        assert now.params[index].cpu().numpy().tobytes() == param.tobytes()


def test_ten_updates_go_where_torchs_fused_adamw_goes(device: torch.device) -> None:
    now = optimizer_state(device, step=0)
    for moment in (*now.firsts, *now.seconds):
        moment.zero_()
    twins = [torch.nn.Parameter(param.clone()) for param in now.params]
    decayed = {"params": twins[::2], "weight_decay": 0.1}
    peer = torch.optim.AdamW([decayed, {"params": twins[1::2], "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95), fused=True)
    for number in range(10):
        factor = 1.0 / (1 + number)
        now.grads = drawn_each(SIZES, 20 + number, device)
        for twin, grad in zip(twins, now.grads, strict=True):
            twin.grad = grad.clone()
        peer.grad_scale = torch.tensor(1 / factor, device=device)  # it divides
        peer.found_inf = torch.zeros((), device=device)
        peer.step()
        adamw_step(*now.arguments(control(device, grad_factor=factor)))
    firsts, seconds = ([peer.state[twin][name] for twin in twins] for name in ("exp_avg", "exp_avg_sq"))
    # torch's kernel for CUDA takes the decay off in float64. Rounded to float32 as it is here and on a CPU, 1 - 1e-4 is off by
    # 1.7e-8 in each update, and a parameter by one more rounding.
    relative = 0.0 if device.type == "cpu" else 1e-6
    torch.testing.assert_close(joined(now.params), joined([twin.detach() for twin in twins]), rtol=relative, atol=5e-7)
    torch.testing.assert_close(joined(now.firsts), joined(firsts), rtol=3e-6, atol=1e-7)
    torch.testing.assert_close(joined(now.seconds), joined(seconds), rtol=3e-6, atol=0.0)


@pytest.mark.parametrize("elements", [1, 2, 3])
@pytest.mark.parametrize("kind", ["params", "grads", "firsts", "seconds"])
@pytest.mark.parametrize("grad_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tensors_that_begin_anywhere_give_the_same_bits(
    device: torch.device, kind: str, elements: int, grad_dtype: torch.dtype
) -> None:
    aligned = optimizer_state(device, grad_dtype=grad_dtype)
    moved = aligned.copy()
    setattr(moved, kind, [shifted(tensor, elements) for tensor in getattr(moved, kind)])
    stats = [bytes_of([adamw_step(*one.arguments(control(device)))]) for one in (aligned, moved)]
    assert stats[0] == stats[1]
    assert bytes_of(moved.changeable) == bytes_of(aligned.changeable)


def test_a_view_within_a_buffer_leaves_its_neighbours_alone(device: torch.device) -> None:
    """Stores are of four elements where they can be: never of what belongs to another tensor."""
    now = optimizer_state(device, sizes=(CHUNK + 6,))
    rooms = {}
    for kind in ("params", "firsts", "seconds"):
        room = torch.full((CHUNK + 6 + 2,), 7.0, device=device)
        room[1:-1] = getattr(now, kind)[0]
        rooms[kind] = room
        setattr(now, kind, [room[1:-1]])
    adamw_step(*now.arguments(control(device)))
    assert all(room[0] == 7.0 and room[-1] == 7.0 for room in rooms.values())
    assert all(not torch.equal(room[1:-1], torch.full_like(room[1:-1], 7.0)) for room in rooms.values())


def test_gradients_of_bfloat16_are_what_they_are_in_float32(device: torch.device) -> None:
    narrow = optimizer_state(device, grad_dtype=torch.bfloat16)
    mixed, wide = narrow.copy(), narrow.copy()
    mixed.grads[::2] = [grad.float() for grad in mixed.grads[::2]]
    wide.grads = [grad.float() for grad in wide.grads]
    stats = [bytes_of([adamw_step(*one.arguments(control(device)))]) for one in (narrow, mixed, wide)]
    assert stats[0] == stats[1] == stats[2]
    assert bytes_of(narrow.changeable) == bytes_of(mixed.changeable) == bytes_of(wide.changeable)


def test_empty_tensors_and_none_at_all_still_count_the_update(device: torch.device) -> None:
    now = optimizer_state(device, sizes=(0, 5, 0, CHUNK + 1, 0))
    before = now.copy()
    stats = adamw_step(*now.arguments(control(device)))
    torch.testing.assert_close(stats, step_stats_in_double(before, now), rtol=1e-12, atol=0.0)
    none = optimizer_state(device, sizes=())
    assert adamw_step(*none.arguments(control(device))).shape == (0, 4)
    assert none.step.item() == 4.0
    adamw_step(*none.arguments(control(device, gate=1.0)))
    assert none.step.item() == 4.0


def test_three_thousand_tensors_are_each_updated_by_their_own(device: torch.device) -> None:
    now = optimizer_state(device, sizes=tuple(1 + number % 9 for number in range(3000)))
    before = now.copy()
    stats = adamw_step(*now.arguments(control(device)))
    assert_near(now, stepped_in_double(before))
    old, new, second = (pad_sequence(tensors, batch_first=True) for tensors in (before.params, now.params, now.seconds))
    sums = [values.double().square().sum(1) for values in (new - old, new, second)]
    torch.testing.assert_close(stats, torch.stack([*sums, second.amax(1).double()], dim=1), rtol=1e-12, atol=0.0)


def test_the_same_inputs_give_the_same_bits(device: torch.device) -> None:
    start = optimizer_state(device, sizes=(20 * CHUNK + 11, 5))
    first = None
    for _ in range(5):
        now = start.copy()
        stats = [*bytes_of([adamw_step(*now.arguments(control(device)))]), *bytes_of(now.changeable)]
        first = first or stats
        assert stats == first


def test_second_moments_too_small_to_square_in_float32_are_told(device: torch.device) -> None:
    now = optimizer_state(device, sizes=(CHUNK,))
    now.seconds[0][:], now.grads[0][:] = 1e-25, 0.0
    stats = adamw_step(*now.arguments(control(device)))
    assert stats[0, 2].item() == pytest.approx(CHUNK * (0.95e-25) ** 2, rel=1e-6)
    assert stats[0, 3].item() == pytest.approx(0.95e-25, rel=1e-6)


def test_a_backward_pass_that_needs_the_old_parameters_is_refused(device: torch.device) -> None:
    now = optimizer_state(device, sizes=(4,))
    parameter = torch.nn.Parameter(now.params[0])
    now.params = [parameter]
    loss = parameter.square().sum()
    assert not adamw_step(*now.arguments(control(device))).requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_torch_checks_the_op(device: torch.device) -> None:
    now = optimizer_state(device, sizes=(100, 0, 9), grad_dtype=torch.bfloat16)
    torch.library.opcheck(torch.ops.sentinel.adamw_step.default, now.arguments(control(device)))


def test_it_compiles_without_a_break(device: torch.device) -> None:
    plain = optimizer_state(device, sizes=(100, 9))
    traced = plain.copy()
    compiled = torch.compile(lambda *arguments: adamw_step(*arguments).sum(0), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*traced.arguments(control(device))), adamw_step(*plain.arguments(control(device))).sum(0))
    assert bytes_of(traced.changeable) == bytes_of(plain.changeable)


def test_the_number_of_threads_changes_no_bit(cpu_library: Any) -> None:
    start = optimizer_state(torch.device("cpu"), sizes=(40 * CHUNK + 3, 7, 9 * CHUNK))
    stats = []
    for number in (1, 2, 3):
        now = start.copy()
        with threads(number):
            stats.append([*bytes_of([adamw_step(*now.arguments(control(torch.device("cpu"))))]), *bytes_of(now.changeable)])
    assert stats[0] == stats[1] == stats[2]
