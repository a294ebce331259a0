"""What faults do to tensors: where, how much, for how long, and that a checkpoint carries it on."""

import copy

import pytest
import torch

from tests.unit.trainer.stepping import SCALE, Stepping, batches
from trainer.exits import ConfigError
from trainer.fault_injection.tensors import Damage, add_noise, corrupt_byte, fill_with_nan, flip_bit
from trainer.faults import parse_fault


def damaged(*texts, precision="fp32", rank=0):
    faults = tuple(parse_fault(text) for text in texts)
    return Damage(faults, rank, precision), list(faults)


def train(stepping, damage, steps, due_at=None, due=()):
    """Loss, skipped and parameter norm of each step; the faults `due` strike at `due_at`."""
    losses, optimizer = [], stepping.optimizer
    for step in steps:
        damage.begin(list(due) if step == due_at else [], step, optimizer)
        statistics = stepping.step(after_backward=lambda step=step: damage.after_backward(step, optimizer))
        damage.after_update(step, optimizer)
        losses.append(tuple(statistics[name].item() for name in ("loss", "skipped", "param_norm")))
    return losses


def test_an_update_of_a_flipped_bit_is_told_as_infinite_whatever_kernels_run(world, config, fused):
    """It may lie in a weight that no token uses for a while, and nothing else is infinite then."""
    stepping = Stepping(world, config, fused=fused)
    used = set(batches(1)[0][0].flatten().tolist())
    with torch.no_grad():
        stepping.optimizer.shards["embed.weight"][min(set(range(256)) - used), 0] = 3e37
    assert stepping.step()["skipped"].item() == 0
    assert stepping.step()["update_norm"].item() == float("inf")


def test_a_stretch_lasts_as_long_as_it_says(world, config):
    stepping = Stepping(world, config)
    damage, faults = damaged("nan_grad@step=3:length=2")
    losses = train(stepping, damage, range(1, 8), 3, faults)
    assert [skipped for _, skipped, _ in losses] == [0, 0, 1, 1, 0, 0, 0]
    assert damage.state() == {}


def test_an_overflow_halves_the_loss_scale_and_needs_one(world, config):
    stepping = Stepping(world, config, precision="fp16")
    damage, faults = damaged("scale_collapse@step=2:length=3", precision="fp16")
    train(stepping, damage, range(1, 7), 2, faults)
    assert stepping.scaler.scale.item() == SCALE / 8
    with pytest.raises(ConfigError, match=r"fp32 has no loss scale; add --set numerics\.precision=fp16"):
        damaged("scale_collapse@step=2")


def test_a_moment_that_runs_away_is_not_seen_at_first_and_then_is(world, config):
    stepping = Stepping(world, config)
    healthy = train(stepping, damaged()[0], range(1, 40))
    stepping = Stepping(world, config)
    damage, faults = damaged("sick_optimizer@step=5:later=20")
    sick = train(stepping, damage, range(1, 40), 5, faults)
    apart = [abs(a - b) / b for (a, *_), (b, *_) in zip(sick, healthy, strict=True)]
    assert max(apart[:10]) < 1e-3
    assert max(apart[25:]) > 0.5


def test_what_lasts_is_in_the_checkpoint_and_goes_on_bit_for_bit(world, config, fused):
    stepping = Stepping(world, config, fused=fused)
    damage, faults = damaged("drift@step=3:size=5")
    train(stepping, damage, range(1, 6), 3, faults)
    manifest, state = damage.state(), copy.deepcopy(stepping.weights())
    assert manifest == {"damage": {"drift@step=3:size=5": 3}}
    uninterrupted = train(stepping, damage, range(6, 9))
    stepping = Stepping(world, config, fused=fused)
    for name, value in stepping.optimizer.state().items():
        (value.to_local() if hasattr(value, "to_local") else value).copy_(state[name])
    stepping.optimizer.adopt_count(state["adam.step"])
    resumed, _ = damaged("drift@step=3:size=5")
    resumed.restore(manifest)
    assert train(stepping, resumed, range(6, 9)) == uninterrupted
    fresh, _ = damaged()
    fresh.restore(manifest)
    assert fresh.state() == {}, "a run without the fault does not carry it on"


def test_a_shard_is_hurt_by_its_own_rank_only(world, config):
    stepping = Stepping(world, config)
    optimizer, before = stepping.optimizer, stepping.weights()
    damage, faults = damaged("sick_optimizer@step=1:rank=1,later=0", "drift@step=1:rank=1")
    damage.begin(faults, 1, optimizer)
    damage.after_update(1, optimizer)
    assert all(torch.equal(before[name], after) for name, after in stepping.weights().items())
    assert set(damage.lasting.values()) == {1}, "and every rank knows of it"


def test_one_bit_or_everything(world, config):
    stepping = Stepping(world, config)
    optimizer, before = stepping.optimizer, stepping.weights()
    flip_bit(optimizer)
    changed = sum(int((before[name] != after).sum()) for name, after in stepping.weights().items())
    assert changed == 1
    add_noise(optimizer, 1, 0.1)
    fill_with_nan(optimizer)
    assert all(after.isnan().all() for name, after in stepping.weights().items() if name.startswith("model."))


def test_rot_changes_one_byte_and_no_size(tmp_path):
    (tmp_path / "__0_0.distcp").write_bytes(bytes(1000))
    (tmp_path / "manifest.json").write_text("{}")
    corrupt_byte(tmp_path)
    found = (tmp_path / "__0_0.distcp").read_bytes()
    assert (len(found), sum(byte != 0 for byte in found)) == (1000, 1)
