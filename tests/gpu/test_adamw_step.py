"""adamw_step on a GPU: every test of the CPU over again, and what only a GPU can get wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuda_ext.ops.adamw_step import adamw_step
from tests.cuda_ext.many_tensors import CHUNK, REFUSAL, OptimizerState, bytes_of, control, optimizer_state, step_stats_in_double
from tests.cuda_ext.test_adamw_refusals import (  # noqa: F401
    test_a_gradient_that_is_not_finite_ends_in_its_own_element_alone,
    test_a_tensor_that_it_does_not_take_is_named,
    test_an_update_that_does_not_apply_changes_not_one_bit,
    test_an_update_that_does_not_apply_tells_of_what_stands_there_as_the_update_that_left_it_did,
    test_lists_and_settings_that_it_does_not_take_are_named,
    test_shapes_may_differ_where_the_elements_are_as_many,
    test_the_update_after_one_that_did_not_apply_is_as_if_it_had_never_been,
)
from tests.cuda_ext.test_adamw_step import (  # noqa: F401  collected here with this file's device
    test_a_backward_pass_that_needs_the_old_parameters_is_refused,
    test_a_view_within_a_buffer_leaves_its_neighbours_alone,
    test_an_update_is_as_in_float64,
    test_an_update_is_the_same_bits_as_float32_rounded_at_every_operation,
    test_empty_tensors_and_none_at_all_still_count_the_update,
    test_gradients_of_bfloat16_are_what_they_are_in_float32,
    test_it_compiles_without_a_break,
    test_second_moments_too_small_to_square_in_float32_are_told,
    test_ten_updates_go_where_torchs_fused_adamw_goes,
    test_tensors_that_begin_anywhere_give_the_same_bits,
    test_the_same_inputs_give_the_same_bits,
    test_three_thousand_tensors_are_each_updated_by_their_own,
    test_torch_checks_the_op,
)


@pytest.fixture
def device(cuda: Any) -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def test_the_host_never_waits_and_a_graph_follows_the_control(device: torch.device) -> None:
    """200 tensors are three tables: all of them see the count as it was, and it grows by one."""
    sizes = (3 * CHUNK, 5, 0, CHUNK + 1) * 50
    now, settings = optimizer_state(device, sizes=sizes), control(device)
    adamw_step(*now.arguments(settings))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        adamw_step(*now.arguments(settings))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    twin = now.copy()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stats = adamw_step(*now.arguments(settings))
    assert now.step.item() == 5.0, "capturing runs nothing"
    for gate, lr in ((0.0, 1e-3), (1.0, 1e-3), (0.0, 5e-4)):
        settings.copy_(control(device, gate=gate, lr=lr))
        graph.replay()
        before = twin.copy()
        adamw_step(*twin.arguments(settings))
        assert bytes_of(now.changeable) == bytes_of(twin.changeable)
        torch.testing.assert_close(stats, step_stats_in_double(before, twin), rtol=1e-12, atol=0.0)
    assert now.step.item() == 7.0


def test_more_than_two_to_the_31_elements_are_updated_through(device: torch.device) -> None:
    size = 2**31 + CHUNK + 5
    if torch.cuda.mem_get_info(device)[0] < 14 * size + (4 << 30):
        pytest.skip("less than 35 GB free on the GPU")
    flat = [torch.zeros(size, device=device) for _ in range(3)]
    grad = torch.zeros(size, dtype=torch.bfloat16, device=device)
    grad[-1], grad[2**31 + 1], grad[7] = 1.0, -1.0, 1.0
    now = OptimizerState([flat[0]], [grad], [flat[1]], [flat[2]], torch.zeros((), device=device), [1.0])
    stats = adamw_step(*now.arguments(control(device))).tolist()
    changed = now.params[0][[7, 2**31 + 1, size - 1]].tolist()
    assert changed == pytest.approx([-1e-3, 1e-3, -1e-3], rel=1e-5)
    assert stats[0] == pytest.approx([3e-6, 3e-6, 3 * 0.05**2, 0.05], rel=1e-5)


def test_a_tensor_elsewhere_is_refused(device: torch.device) -> None:
    now = optimizer_state(device, sizes=(4, 9))
    now.grads[1] = now.grads[1].cpu()
    with pytest.raises(REFUSAL, match=r"adamw_step: grads\[1\]: on another device"):
        adamw_step(*now.arguments(control(device)))
