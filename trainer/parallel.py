"""The model over the ranks, as the `parallel` section asks: blocks recomputed and compiled, then sharded by FSDP2.

Recomputation: a block's inner activations are not kept for backward but computed again (Chen et al. 2016). Compilation goes one
block at a time: equal blocks share one compilation, and FSDP's hooks stay outside.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from .config import Config
from .exits import ConfigError
from .model.gpt import GPT
from .model.initial import fill_initial
from .world import World

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

# Blocks are one code to the compiler, which gives up (an error with fullgraph) past eight graphs of it. Training and evaluation,
# watched and unwatched blocks, a first length and then any, a batch of one: ten have been seen.
GRAPHS_MAX = 64

# What `selective` keeps: matrix products and attention, nearly all of the arithmetic. The norms, activations and sums between
# them are most of the memory and cost almost nothing again (Korthikanti et al. 2022 draw the line elsewhere for the same reason).
_ATEN = torch.ops.aten
KEPT = [
    _ATEN.mm.default,
    _ATEN.addmm.default,
    _ATEN._scaled_dot_product_flash_attention.default,
    _ATEN._scaled_dot_product_flash_attention_for_cpu.default,
    _ATEN._scaled_dot_product_efficient_attention.default,
    _ATEN._scaled_dot_product_cudnn_attention.default,
]


def shard(model: GPT, world: World, config: Config, *, initial: bool = True) -> GPT:
    """A model of the meta device over the ranks by FSDP2, each block a unit, with its initial weights. Every rank calls it.

    Parameters stay float32; numerics.precision is that of the arithmetic, gradients are reduced in float32. Blocks are
    compiled and recomputed inside their FSDP hooks, so parameter names are always those of the plain model.
    The root (embeddings, last norm, head) stays gathered between forward and backward: it is needed again at once.

    `initial` False leaves NaN instead of initial weights, for a checkpoint that will fill every one: drawing a billion of them
    takes seconds, and one that was forgotten shows. Raises ConfigError where blocks cannot be compiled.
    """
    precision = config.numerics.precision
    policy = MixedPrecisionPolicy()
    if precision in DTYPES:
        # Inputs are not cast: tokens are integers, the embedding gives the right type, rotary angles must stay float32.
        policy = MixedPrecisionPolicy(param_dtype=DTYPES[precision], reduce_dtype=torch.float32, cast_forward_inputs=False)
    recompute_blocks(model, config)
    if config.parallel.compile:
        check_compiler(world.device)
        compile_blocks(model)
    for block in model.blocks:
        fully_shard(block, mesh=world.mesh, mp_policy=policy, reshard_after_forward=config.parallel.reshard)
    fully_shard(model, mesh=world.mesh, mp_policy=policy, reshard_after_forward=False)
    model.to_empty(device=world.device)
    if initial:
        fill_initial(model, config)
    else:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.to_local().fill_(float("nan"))
    return model


def recompute_blocks(model: GPT, config: Config) -> None:
    """Make each block recompute as parallel.recompute sets; in place, names and results stay. Before compiling and sharding."""
    if config.parallel.recompute == "none":
        return
    # Keeping the random state costs a little, and only dropout draws from it.
    options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": config.model.dropout > 0}
    if config.parallel.recompute == "selective":
        options["context_fn"] = partial(create_selective_checkpoint_contexts, KEPT)
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, **options)


def compile_blocks(model: GPT, backend: str = "inductor") -> None:
    """Compile each block's forward as one graph; in place, parameter names stay. Before sharding."""
    torch._dynamo.config.recompile_limit = GRAPHS_MAX
    for block in model.blocks:
        block.forward = torch.compile(block.forward, fullgraph=True, backend=backend)


def check_compiler(device: torch.device) -> None:
    """Compile something small, so that a machine that cannot (no C++ compiler, no Triton) fails before training. Raises
    ConfigError."""
    probe = torch.compile(lambda x: (x * x + 1).sum(), fullgraph=True)
    try:
        probe(torch.ones(8, device=device))
    except Exception as error:
        need = "Triton and a C compiler" if device.type == "cuda" else "a C++ compiler (g++ or clang)"
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"parallel.compile true: torch.compile does not work here ({why}); install {need}, "
            "or add --set parallel.compile=false"
        ) from error
