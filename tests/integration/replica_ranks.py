"""Two ranks, the second forked from the first: the model as two whole copies, then as one copy in two shards, then with nothing
kept that can be gathered or computed again, against the plain model on the whole batch; on plain PyTorch and on our own kernels.

    python -m tests.integration.replica_ranks OUT_DIR      writes OUT_DIR/rank-R.json: per layout what was found and told
"""

import json
import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

from tests.plain_gpt import PlainGPT, initial_weights_of
from trainer.config import Config
from trainer.config.loading import changed
from trainer.fused import choose
from trainer.model.gpt import build_model
from trainer.optim import Hyperparameters, ShardedAdamW
from trainer.optim.scaler import LossScaler
from trainer.parallel import shard
from trainer.step import Hooks, train_step
from trainer.world import join_world

PADDED = 128
# An odd feed-forward, so that the ranks' shares of it are unequal.
MODEL = {
    "vocab_size": 100,
    "layers": 2,
    "width": 32,
    "heads": 4,
    "kv_heads": 2,
    "positions": "rotary",
    "ffn_width": 41,
    "bias": True,
}


def found(world, config, plain, batch, fused):
    model = shard(build_model(config, PADDED, fused), world, config)
    whole = {name: parameter.full_tensor() for name, parameter in model.named_parameters()}
    own = batch.chunk(world.size)[world.rank]
    F.cross_entropy(model(own).logits.flatten(0, 1), own.flatten()).backward()
    return {
        "weights_equal": all(torch.equal(whole[name], value) for name, value in initial_weights_of(config, PADDED).items()),
        "own_elements": sum(parameter.to_local().numel() for parameter in model.parameters()),
        "own_ffn_rows": len(model.blocks[0].mlp.up.weight.to_local()),
        "gradients_off": max(
            float((parameter.grad.full_tensor() - plain.weights[name].grad).abs().max())
            for name, parameter in model.named_parameters()
        ),
        **two_steps(world, config, model, own, fused),
    }


def two_steps(world, config, model, batch, fused):
    """What both lines of two updates tell, and what the state then amounts to."""
    for parameter in model.parameters():
        parameter.grad = None
    optimizer = ShardedAdamW(model, config, world.replicas, fused=fused)
    scaler = LossScaler(config.numerics, world.device)
    optimizer.set(Hyperparameters(lr=1e-3, clip_norm=1.0, weight_decay=0.1, betas=(0.9, 0.95), eps=1e-8))
    hooks = Hooks(phase=lambda _: None, after_backward=lambda: None)
    lines = [train_step(model, optimizer, scaler, (batch, batch), hooks, config) for _ in range(2)]
    told = [dict(zip(line.names, line.values.tolist(), strict=True)) for line in lines]
    return {"lines": told, "numbers": optimizer.numbers(), "history": optimizer.history()}


def become_ranks():
    """Forks. The store, which is the rendezvous without a guessed port, and in rank 0 the pid of the other."""
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    child = os.fork()
    world = {"RANK": 0 if child else 1, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "MASTER_ADDR": "localhost", "MASTER_PORT": store.port}
    os.environ |= {key: str(value) for key, value in world.items()} | {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    return store, child or None


def examine(folder):
    config = Config.model_validate({"model": MODEL, "data": {"seq_len": 16}})
    world = join_world(replicas=2)
    batch = torch.randint(0, 100, (4, 12), generator=torch.Generator().manual_seed(1))
    plain = PlainGPT(config, initial_weights_of(config, PADDED))
    F.cross_entropy(plain(batch)[0].flatten(0, 1), batch.flatten()).backward()
    sharded = replace(world, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("shard",)), replicas=1)
    freed = changed(config, parallel={"reshard": True, "recompute": "full", "micro_batch": 1, "xent_chunk": 7})
    layouts = {"copies": (world, config), "shards": (sharded, config), "freed": (sharded, freed)}
    choose(None, world)
    told = {
        kernels: {layout: found(where, own, plain, batch, kernels == "fused") for layout, (where, own) in layouts.items()}
        for kernels in ("torch", "fused")
    }
    told["grad_norm"] = float(torch.stack([value.grad.double().square().sum() for value in plain.weights.values()]).sum().sqrt())
    told["largest_gradient"] = max(float(value.grad.abs().max()) for value in plain.weights.values())
    (Path(folder) / f"rank-{world.rank}.json").write_text(json.dumps(told))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    store, other = become_ranks()
    try:
        examine(sys.argv[1])
        code = 0 if other is None else os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])
    except BaseException:  # noqa: BLE001 - whatever it was is printed
        traceback.print_exc()
        code = 1
    os._exit(code)  # a forked rank cannot tidy up: the thread of the store is not there to be joined
