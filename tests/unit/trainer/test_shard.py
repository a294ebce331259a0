"""What is put around the blocks: recomputation, compilation, sharding. None of it changes a name or a number."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from tests.unit.trainer.test_model import LLAMA, MIXES, TIME, built, settings, tokens
from trainer.exits import ConfigError
from trainer.mesh import mesh_of
from trainer.model.gpt import build_model
from trainer.model.sizes import flops_per_token
from trainer.parallel import check_compiler, compile_blocks, recompute_blocks, shard

TRIED = {"gpt2 in bf16": ({"bias": True, "dropout": 0.2}, "bf16"), "llama": (LLAMA | {"qk_norm": True}, "fp32")}


def trained_once(world, config, fused=False):
    """Loss, every gradient by name, and what the layers told."""
    model = shard(build_model(config, 128, fused), world, config)
    return backward(model)


def backward(model):
    torch.manual_seed(4)
    output = model(tokens())
    loss = F.cross_entropy(output.logits.float().flatten(0, 1), tokens().flatten())
    loss.backward()
    return loss.item(), {name: p.grad.full_tensor() for name, p in model.named_parameters()}, output.layers


@pytest.mark.parametrize("mix", TRIED)
def test_recomputing_changes_no_bit_and_keeps_less(world, mix, fused):
    model, precision = TRIED[mix]
    kept = {}

    def counted(how):
        held = set()

        def keep(tensor):
            held.add(tensor.untyped_storage().data_ptr())
            return tensor

        config = settings(model, numerics={"precision": precision}, parallel={"recompute": how, "reshard": how == "full"})
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            result = trained_once(world, config, fused)
        kept[how] = len(held)
        return result

    loss, gradients, layers = counted("none")
    for how in ("selective", "full"):
        again, others, observed = counted(how)
        assert again == loss
        assert torch.equal(observed, layers)
        assert list(others) == list(gradients)
        assert all(torch.equal(others[name], gradients[name]) for name in gradients)
    assert kept["full"] < kept["none"]


def work(model):
    """Floating-point operations of the matrix products of one forward and backward."""
    with FlopCounterMode(display=False) as counted:
        model(tokens()).logits.logsumexp(-1).mean().backward()
    return counted.get_total_flops()


@pytest.mark.parametrize("mix", ["gpt2", "llama", "exact softmax"])
def test_selective_multiplies_nothing_twice_and_full_repeats_the_forward(mix):
    done = {}
    for how in ("none", "selective", "full"):
        model = built(config := settings(MIXES[mix], parallel={"recompute": how}))
        recompute_blocks(model, config)
        done[how] = work(model)
    assert done["none"] * 1.1 < done["full"] < done["none"] * 4 / 3
    if mix != "exact softmax":  # its scores are the memory that recomputing is to save
        assert done["selective"] == done["none"]


def test_the_formula_for_the_work_is_what_is_counted():
    for mix in ("gpt2", "llama", "the presets micro and tiny"):
        config = settings(MIXES[mix] | {"fp32_softmax": True})  # whose backward multiplies no score a second time
        model = built(config)
        vectors = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() < 2)  # in N and in no product
        assert work(model) == (flops_per_token(config, 128, TIME) - 6 * vectors) * tokens().numel()


@pytest.mark.parametrize("how", ["none", "full"])
def test_equal_blocks_are_one_graph_and_compiled_once(world, monkeypatch, how, fused):
    """The tracer alone (backend "eager"): a break in the graph is an error there as with the real compiler."""
    monkeypatch.setattr("trainer.parallel.check_compiler", lambda device: None)
    monkeypatch.setattr("trainer.parallel.compile_blocks", lambda model: compile_blocks(model, backend="eager"))
    for model, precision in TRIED.values():
        plain = settings(model, numerics={"precision": precision}, parallel={"recompute": how})
        loss, gradients, _ = trained_once(world, plain, fused)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled = settings(model, numerics={"precision": precision}, parallel={"recompute": how, "compile": True})
        again, others, layers = trained_once(world, compiled, fused)
        # On our kernels the first block, which is given no branch to add, is another one.
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1 + fused, "every block compiled anew"
        assert again == loss
        assert list(others) == list(gradients)
        assert layers.shape == (3, 2)


def test_compiled_blocks_take_all_shapes_a_run_brings(world, monkeypatch, fused):
    """Growing lengths, evaluation between them, a lone sequence, unwatched blocks: more graphs than the compiler's own limit."""
    monkeypatch.setattr("trainer.parallel.check_compiler", lambda device: None)
    monkeypatch.setattr("trainer.parallel.compile_blocks", lambda model: compile_blocks(model, backend="eager"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    config = settings({"layers": 2}, parallel={"compile": True}, telemetry={"layers": False})
    model = shard(build_model(config, 128, fused), world, config)
    for batch, time in ((4, 8), (4, 12), (2, 16), (1, 16)):
        model.train()
        model(tokens(time).repeat(2, 1)[:batch]).logits.sum().backward()
        model.eval()
        with torch.no_grad():
            model(tokens(16))
            model(tokens(time)[:1])
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 8


def test_a_machine_that_cannot_compile_says_so_before_training(monkeypatch):
    def broken(function, **options):
        def run(*inputs):
            raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found\nmore")

        return run

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.raises(ConfigError, match=r"No working C\+\+ compiler found\); install .*--set parallel\.compile=false"):
        check_compiler(torch.device("cpu"))


def test_evaluation_and_shorter_sequences_go_through_the_sharded_model(world, fused):
    config = settings(LLAMA)
    model = shard(build_model(config, 128, fused), world, config)
    with torch.no_grad():
        whole, part = model(tokens()).logits, model(tokens()[:, :5]).logits
    assert whole.shape == (2, TIME, 128)
    torch.testing.assert_close(part, whole[:, :5], rtol=1e-5, atol=1e-6)
    backward(model)  # and training goes on after it


def test_ranks_that_do_not_divide_into_replicas_are_refused_with_a_remedy():
    assert mesh_of(8, 1) == ((8,), ("shard",))
    assert mesh_of(8, 2) == ((2, 4), ("replicate", "shard"))
    assert mesh_of(2, 2) == ((2, 1), ("replicate", "shard"))
    with pytest.raises(ConfigError, match=r"replicas 4: 6 ranks .* use one of 1, 2, 3, 6, or start a multiple of 4 ranks"):
        mesh_of(6, 4)
    with pytest.raises(ConfigError, match=r"parallel.replicas 2: 1 ranks"):
        mesh_of(1, 2)
