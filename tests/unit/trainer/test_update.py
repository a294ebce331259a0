"""The update against plain torch: clipping, the gate, loss scaling, accumulation, and nothing waiting for the device."""

import contextlib
import copy
from dataclasses import replace

import pytest
import torch
from torch.distributed.tensor import Shard, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.unit.trainer.stepping import HYPER, SCALE, Stepping, batches, same, seen
from trainer.config.loading import changed
from trainer.fault_injection.tensors import poison_gradient
from trainer.loss import compute_loss
from trainer.model.gpt import GPT
from trainer.model.initial import fill_initial
from trainer.optim import ShardedAdamW
from trainer.parallel import compile_blocks

PRECISIONS = ["fp32", "bf16", "fp16"]


def test_it_is_clip_grad_norm_and_adamw(world, config, fused):
    stepping = Stepping(world, config, fused=fused)
    plain = GPT(config, 256)
    fill_initial(plain, config)
    groups = [{"params": [p for p in plain.parameters() if p.dim() > 1]}]
    groups.append({"params": [p for p in plain.parameters() if p.dim() <= 1], "weight_decay": 0.0})
    reference = torch.optim.AdamW(groups, lr=HYPER.lr, betas=HYPER.betas, eps=HYPER.eps, weight_decay=HYPER.weight_decay)
    for batch in batches(5):
        statistics = stepping.step(batch)
        loss = compute_loss(plain, *batch).total
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), HYPER.clip_norm)
        reference.step()
        reference.zero_grad()
        assert statistics["loss"].item() == pytest.approx(loss.item(), rel=1e-5)
        assert statistics["grad_norm"].item() == pytest.approx(norm.item(), rel=1e-4)
        assert statistics["clip_coef"].item() == pytest.approx(min(1.0, HYPER.clip_norm / norm.item()), rel=1e-4)
        assert statistics["skipped"].item() == 0
    state = stepping.weights()
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(state[f"model.{name}"], parameter.detach(), rtol=1e-4, atol=1e-4 if fused else 2e-5)
    assert stepping.optimizer.count().item() == 5


@pytest.mark.parametrize("compiled", [False, True])
def test_the_embeddings_scaled_gradient_is_what_is_measured_clipped_and_applied(world, config, fused, compiled, monkeypatch):
    """Sharded, recomputed, in micro-batches, and compiled; against plain torch that scales the gradient itself."""
    monkeypatch.setattr("trainer.parallel.check_compiler", lambda device: None)
    monkeypatch.setattr("trainer.parallel.compile_blocks", lambda model: compile_blocks(model, backend="eager"))
    torch._dynamo.reset()
    parallel = {"micro_batch": 1, "recompute": "full", "compile": compiled}
    stepping = Stepping(world, config, fused=fused, parallel=parallel)
    plain = GPT(config, 256)
    fill_initial(plain, config)
    for batch, scale in zip(batches(3), (1.0, 0.1, 0.1), strict=True):
        stepping.model.shrink = scale
        plain.load_state_dict({name: p.full_tensor().clone() for name, p in stepping.model.named_parameters()})
        plain.zero_grad()
        compute_loss(plain, *batch).total.backward()
        plain.embed.weight.grad *= scale
        statistics = stepping.step(batch)
        embed = torch.hypot(plain.embed.weight.grad.norm(), plain.place.weight.grad.norm())
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), HYPER.clip_norm)
        assert statistics["grad_norm"].item() == pytest.approx(norm.item(), rel=1e-4)
        assert statistics["grad_norm/embed"].item() == pytest.approx(embed.item(), rel=1e-3)
        assert statistics["clip_coef"].item() == pytest.approx(min(1.0, HYPER.clip_norm / norm.item()), rel=1e-4)


@pytest.mark.parametrize("clip_norm", [0.5, 1e9])
def test_our_own_update_is_plain_pytorchs_from_the_same_gradients(world, config, clip_norm):
    """Six updates, clipped or not, one of them left out: parameters and moments are the same after each but for two parts in a
    million, and what is told of it is."""
    plain, own = (Stepping(world, config, fused=fused) for fused in (False, True))
    for number in range(6):
        given = torch.Generator().manual_seed(number)
        for stepping in (plain, own):
            stepping.optimizer.set(replace(HYPER, lr=HYPER.lr * (number + 1) / 6, clip_norm=clip_norm))
        drawn = {name: torch.randn(p.shape, generator=given) * 10.0 ** (number - 4) for name, p in plain.optimizer.shards.items()}
        if number == 3:
            drawn["norm.weight"][0] = torch.nan

        def put(stepping, drawn=drawn):
            for name, parameter in stepping.model.named_parameters():
                parameter.grad.to_local().copy_(drawn[name])

        expected_stats, other = (
            stepping.step(after_backward=lambda stepping=stepping: put(stepping)) for stepping in (plain, own)
        )
        assert expected_stats["skipped"].item() == (number == 3)
        for name in ("grad_norm", "grad_norm/head", "clip_coef", "param_norm", "update_norm", "adam_v_norm", "adam_v_max"):
            assert other[name].item() == pytest.approx(expected_stats[name].item(), rel=1e-6, nan_ok=True), (number, name)
        reference = plain.weights()
        for name, value in own.weights().items():
            assert (value - reference[name]).abs().max() <= 2e-6 * reference[name].abs().max(), (number, name)


@pytest.mark.parametrize("gate", ["off", "nonfinite"])
def test_a_rank_that_holds_no_element_goes_along_and_counts(world, config, fused, gate):
    """A thousand ranks resume what 1024 began: its 51,200 rows are 52 for each, and the last fifteen get none."""
    config = changed(config, stability={"gate": gate})
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(distribute_tensor(torch.zeros(0, 4), world.mesh, [Shard(0)]))
    optimizer = ShardedAdamW(model, config, fused=fused)
    optimizer.set(HYPER)
    statistics = [optimizer.update(seen(loss, counted=fused), torch.ones(())) for loss in (5.0, float("nan"), 4.0)]
    left_out = gate == "nonfinite"
    assert [one["skipped"].item() for one in statistics] == [0, left_out, 0]
    assert optimizer.state()["adam.step"].item() == optimizer.read_back()["optimizer_steps"] == 3 - left_out
    assert (statistics[-1]["param_norm"].item(), statistics[-1]["update_norm"].item()) == (0, 0)
    optimizer.adopt_count(torch.tensor(7.0))
    assert optimizer.count().item() == 7


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("gate", ["nonfinite", "outlier"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_element_that_is_not_finite_changes_no_bit_and_no_count(world, config, fused, gate, precision, value):
    stepping = Stepping(world, config, precision, fused=fused, stability={"gate": gate, "zclip": 2.5})
    first, second, third = batches(3)
    stepping.step(first)
    before = stepping.weights()
    statistics = stepping.step(second, after_backward=lambda: poison_gradient(stepping.optimizer, value))
    assert same(before, stepping.weights())
    assert stepping.optimizer.count().item() == 1
    assert [statistics[name].item() for name in ("skipped", "overflow", "nonfinite_count")] == [1, 1, 1]
    assert not torch.isfinite(statistics["grad_norm"])
    statistics = stepping.step(third)
    assert (statistics["skipped"].item(), statistics["update_norm"].item()) == (0, 0.0), "the last update was none"
    assert stepping.optimizer.count().item() == 2
    assert all(torch.isfinite(value).all() for value in stepping.weights().values())
    assert not torch.equal(stepping.weights()["model.head.weight"], before["model.head.weight"])


def test_without_the_gate_it_goes_in_and_an_overflow_of_fp16_never_does(world, config, fused):
    stepping = Stepping(world, config, fused=fused, stability={"gate": "off"})
    statistics = stepping.poisoned()
    assert statistics["skipped"].item() == 0
    assert stepping.weights()["model.head.weight"].isnan().any()
    stepping = Stepping(world, config, "fp16", fused=fused, stability={"gate": "off"})
    before = stepping.weights()
    assert stepping.poisoned()["skipped"].item() == 1
    assert same(before, stepping.weights())


def test_a_finite_gradient_whose_square_overflows_is_not_called_non_finite(world, config, fused):
    stepping = Stepping(world, config, fused=fused)
    statistics = stepping.step(after_backward=lambda: stepping.gradients(1e30))
    assert (statistics["nonfinite_count"].item(), statistics["skipped"].item()) == (0, 0)
    elements = sum(parameter.numel() for parameter in stepping.model.parameters())
    assert statistics["grad_norm"].item() == pytest.approx(1e30 * elements**0.5, rel=1e-6)
    assert all(torch.isfinite(value).all() for value in stepping.weights().values())


def test_fp16_unscales_what_it_reports_and_halves_after_an_overflow(world, config, fused):
    plain = Stepping(world, config).step()
    stepping = Stepping(world, config, "fp16", fused=fused)
    statistics = stepping.step()
    assert statistics["loss_scale"].item() == SCALE
    for name in ("grad_norm", "grad_norm/head", "grad_norm/block-00"):
        assert statistics[name].item() == pytest.approx(plain[name].item(), rel=0.05)
    statistics = stepping.poisoned()
    assert (statistics["loss_scale"].item(), stepping.scaler.scale.item()) == (SCALE, SCALE / 2)


def test_on_our_kernels_fp16_overflows_scales_and_learns_as_on_plain_pytorch(world, config):
    """The gradient of the logits is made in the forward pass, already times scale and share: too large a scale shows there."""
    sections = {"numerics": {"loss_scale": 2.0**30, "loss_scale_growth_steps": 3}, "parallel": {"micro_batch": 2}}
    plain, own = (Stepping(world, config, "fp16", fused=fused, **copy.deepcopy(sections)) for fused in (False, True))
    skipped = 0
    for batch in batches(20, size=3):
        expected_stats, other = plain.step(batch), own.step(batch)
        skipped += expected_stats["skipped"].item()
        for name in ("skipped", "overflow", "loss_scale"):
            assert other[name].item() == expected_stats[name].item(), name
        assert other["loss"].item() == pytest.approx(expected_stats["loss"].item(), rel=2e-3)
        if not expected_stats["skipped"]:
            assert other["grad_norm"].item() == pytest.approx(expected_stats["grad_norm"].item(), rel=2e-2)
    assert 4 <= skipped <= 16
    assert own.scaler.scale.item() == plain.scaler.scale.item()


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 2e-2)])
def test_micro_batches_of_any_size_add_up_to_the_batch(world, config, fused, precision, tolerance):
    stability = {"z_loss": 1e-3}
    whole, parts = (
        Stepping(world, config, precision, fused=fused, parallel={"micro_batch": size}, stability=stability) for size in (None, 3)
    )
    syncs = []
    parts.model.set_requires_gradient_sync = lambda on: syncs.append(on)
    for batch in batches(2, size=7):
        one, other = whole.step(batch), parts.step(batch)
        for name in one.names:
            assert other[name].item() == pytest.approx(one[name].item(), rel=tolerance, abs=1e-7), name
    assert syncs == [False, False, True] * 2, "7 sequences are 3, 3 and 1; gradients cross with the last"


def test_the_z_loss_is_trained_on_and_not_reported(world, config):
    model = GPT(config, 256)
    fill_initial(model, config)
    batch = batches(1)[0]
    plain, with_z = compute_loss(model, *batch), compute_loss(model, *batch, 0.5)
    partition = torch.logsumexp(model(batch[0]).logits.double(), dim=-1)
    assert with_z.cross_entropy.item() == pytest.approx(plain.cross_entropy.item(), rel=1e-6)
    assert with_z.total.item() == pytest.approx(plain.total.item() + 0.5 * partition.square().mean().item(), rel=1e-6)
    assert plain.total.item() == plain.cross_entropy.item()


class Watch(TorchDispatchMode):
    """Notes every operator the update runs, and refuses those that wait for a device."""

    WAITS = ("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "unique")

    def __init__(self):
        super().__init__()
        self.collectives = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        package, name = function.name().split("::")
        assert name.split(".")[0] not in self.WAITS, f"{function.name()} waits for the device"
        if "c10d" in package:
            self.collectives.append(name.split(".")[0])
        return function(*args, **(kwargs or {}))


def refuse(*_, **__):
    raise AssertionError("a host sync within the step")


@pytest.mark.parametrize("gate", ["off", "nonfinite", "outlier"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_step_has_one_collective_of_its_own_and_never_waits_for_the_device(world, config, fused, monkeypatch, precision, gate):
    sections = {"stability": {"gate": gate, "zclip": 2.5, "z_loss": 1e-4}, "parallel": {"micro_batch": 1}}
    stepping = Stepping(world, config, precision, fused=fused, **sections)
    stepping.step()
    watch = Watch()
    with contextlib.ExitStack() as stack, monkeypatch.context() as patch:
        for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "cpu", "numpy"):
            patch.setattr(torch.Tensor, name, refuse)
        stepping.step(after_backward=lambda: stack.enter_context(watch))
    assert len(watch.collectives) == 1, watch.collectives
    assert "gather" in watch.collectives[0]


def test_the_watch_sees_a_wait():
    with Watch(), pytest.raises(AssertionError, match="waits for the device"):
        torch.ones(()).item()


def test_settings_are_read_back_from_the_live_optimizer(world, config, fused):
    optimizer = Stepping(world, config, fused=fused).optimizer
    wanted = {"lr": 1e-2, "clip_norm": 0.5, "betas": (0.9, 0.95), "weight_decay": 0.1, "eps": 1e-8}
    assert wanted.items() <= optimizer.read_back().items()
    if fused:
        optimizer.adamw._control[1:3] = torch.tensor([0.5, 0.6])
    else:
        optimizer.adamw.adamw.param_groups[0]["betas"] = (0.5, 0.6)
    assert optimizer.read_back()["betas"] == pytest.approx((0.5, 0.6))


def test_reset_forgets_moments_and_count_but_not_parameters(world, config, fused):
    stepping = Stepping(world, config, fused=fused)
    stepping.step()
    before = stepping.weights()
    stepping.optimizer.reset()
    after = stepping.weights()
    assert after["adam.step"].item() == 0
    assert all(not value.any() for name, value in after.items() if name.startswith("adam."))
    assert all(torch.equal(before[name], value) for name, value in after.items() if name.startswith("model."))
    found = stepping.step()
    assert (found["adam_v_norm"].item(), found["adam_v_max"].item()) == (0, 0), "told of the state the step began with"


def test_what_a_checkpoint_keeps_continues_to_the_bit(world, config, fused):
    stability = {"gate": "outlier", "gate_window": 8, "gate_sigmas": 1.5, "zclip": 1.0, "gate_patience": 3}
    first, second = (Stepping(world, config, "fp16", fused=fused, stability=stability) for _ in range(2))
    given = batches(14)
    for batch in given[:9]:
        first.step(batch)
    state, history, scaler = first.weights(), first.optimizer.history(), first.scaler.state()
    second.poisoned()  # whatever it did before
    for name, value in second.optimizer.state().items():
        (value.to_local() if hasattr(value, "to_local") else value).copy_(state[name])
    second.optimizer.adopt_count(state["adam.step"])
    second.optimizer.adopt_history(history)
    second.scaler.restore(scaler)
    assert history["update_squares"][0] > 0
    left_out = 0
    for batch in given[9:]:
        one, other = first.step(batch), second.step(batch)
        left_out += one["skipped"].item()
        assert one.values.numpy().tobytes() == other.values.numpy().tobytes(), "the first line's update_norm among them"
    assert left_out > 0, "by the window that was kept"
    assert first.optimizer.history() == second.optimizer.history()
    assert same(first.weights(), second.weights())
