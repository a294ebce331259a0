"""The update against plain torch: clipping, the gate, loss scaling."""

import copy

import pytest
import torch

from trainer.config.loading import changed
from trainer.model.gpt import GPT, build_model
from trainer.model.initial import fill_initial
from trainer.optim import Hyperparameters, ShardedAdamW
from trainer.parallel import shard
from trainer.step import Hooks, LossScaler, compute_loss, train_step

HYPER = Hyperparameters(lr=1e-2, clip_norm=0.5, weight_decay=0.1, betas=(0.9, 0.95), eps=1e-8)


def batches(count):
    generator = torch.Generator().manual_seed(0)
    blocks = [torch.randint(0, 256, (2, 17), generator=generator) for _ in range(count)]
    return [(block[:, :-1], block[:, 1:]) for block in blocks]


def prepared(world, config, gate=True, precision="fp32"):
    model = shard(build_model(config, 256), world, changed(config, numerics={"precision": precision}))
    optimizer = ShardedAdamW(model, gate)
    optimizer.set(HYPER)
    return model, optimizer, LossScaler(precision == "fp16", 1024.0, world.device)


def quiet(poison=None):
    return Hooks(phase=lambda phase: None, after_backward=poison or (lambda: None))


def weights(optimizer):
    return {name: value.clone() if not hasattr(value, "full_tensor") else value.full_tensor().clone()
            for name, value in optimizer.state().items()}  # fmt: skip


def test_it_is_clip_grad_norm_and_adamw(world, config):
    model, optimizer, scaler = prepared(world, config)
    plain = GPT(config, 256)
    fill_initial(plain, config)
    groups = [{"params": [p for p in plain.parameters() if p.dim() > 1]}]
    groups.append({"params": [p for p in plain.parameters() if p.dim() <= 1], "weight_decay": 0.0})
    reference = torch.optim.AdamW(groups, lr=HYPER.lr, betas=HYPER.betas, eps=HYPER.eps, weight_decay=HYPER.weight_decay)
    for batch in batches(5):
        statistics = train_step(model, optimizer, scaler, batch, quiet())
        loss, _ = compute_loss(plain, *batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), HYPER.clip_norm)
        reference.step()
        reference.zero_grad()
        assert statistics.loss.item() == pytest.approx(loss.item(), rel=1e-5)
        assert statistics.grad_norm.item() == pytest.approx(norm.item(), rel=1e-4)
        assert statistics.clip_coef.item() == pytest.approx(min(1.0, HYPER.clip_norm / norm.item()), rel=1e-4)
        assert statistics.skipped.item() == 0
    state = weights(optimizer)
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(state[f"model.{name}"], parameter.detach(), rtol=1e-4, atol=2e-5)
    assert optimizer.count().item() == 5


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_gated_update_changes_no_bit_and_no_count(world, config, precision):
    model, optimizer, scaler = prepared(world, config, precision=precision)
    first, second, third = batches(3)
    train_step(model, optimizer, scaler, first, quiet())
    before = weights(optimizer)
    statistics = train_step(model, optimizer, scaler, second, quiet(optimizer.poison_gradient))
    after = weights(optimizer)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (statistics.skipped.item(), statistics.nonfinite_count.item()) == (1, 1)
    assert torch.isnan(statistics.grad_norm)
    statistics = train_step(model, optimizer, scaler, third, quiet())
    assert statistics.skipped.item() == 0
    assert not torch.equal(weights(optimizer)["model.head.weight"], before["model.head.weight"])


def test_without_the_gate_it_goes_in(world, config):
    model, optimizer, scaler = prepared(world, config, gate=False)
    statistics = train_step(model, optimizer, scaler, batches(1)[0], quiet(optimizer.poison_gradient))
    assert statistics.skipped.item() == 0
    assert torch.isnan(weights(optimizer)["model.head.weight"]).any()


def test_a_finite_gradient_whose_square_overflows_is_not_called_non_finite(world, config):
    model, optimizer, scaler = prepared(world, config)

    def enlarge():
        next(model.parameters()).grad.to_local().fill_(1e30)

    statistics = train_step(model, optimizer, scaler, batches(1)[0], quiet(enlarge))
    assert (statistics.nonfinite_count.item(), statistics.skipped.item()) == (0, 0)
    assert 1e30 < statistics.grad_norm.item() < 1e36
    assert all(torch.isfinite(value).all() for value in weights(optimizer).values())


def test_fp16_unscales_what_it_reports_and_halves_after_an_overflow(world, config):
    batch = batches(1)[0]
    plain = train_step(*prepared(world, config), batch, quiet())
    model, optimizer, scaler = prepared(world, config, precision="fp16")
    statistics = train_step(model, optimizer, scaler, batch, quiet())
    assert statistics.loss_scale.item() == 1024
    assert statistics.grad_norm.item() == pytest.approx(plain.grad_norm.item(), rel=0.02)
    before = weights(optimizer)
    statistics = train_step(model, optimizer, scaler, batch, quiet(optimizer.poison_gradient))
    assert (statistics.overflow.item(), statistics.skipped.item(), scaler.scale.item()) == (1, 1, 512)
    assert all(torch.equal(before[name], value) for name, value in weights(optimizer).items())
    kept = scaler.state()
    other = LossScaler(True, 1.0, world.device)
    other.restore(copy.deepcopy(kept))
    assert other.state() == kept == {"scale": 512.0, "clean_updates": 0}


def test_settings_are_read_back_from_the_live_optimizer(world, config):
    _, optimizer, _ = prepared(world, config)
    live = optimizer.read_back()
    assert (live["lr"], live["clip_norm"], live["betas"], live["weight_decay"], live["eps"]) == (
        1e-2,
        0.5,
        (0.9, 0.95),
        0.1,
        1e-8,
    )
    optimizer.adamw.param_groups[0]["betas"] = (0.5, 0.6)
    assert optimizer.read_back()["betas"] == (0.5, 0.6)


def test_reset_forgets_moments_and_count_but_not_parameters(world, config):
    model, optimizer, scaler = prepared(world, config)
    train_step(model, optimizer, scaler, batches(1)[0], quiet())
    before = weights(optimizer)
    optimizer.reset()
    after = weights(optimizer)
    assert after["adam.step"].item() == 0
    assert all(not value.any() for name, value in after.items() if name.startswith("adam."))
    assert all(torch.equal(before[name], value) for name, value in after.items() if name.startswith("model."))
