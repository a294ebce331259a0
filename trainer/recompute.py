"""Activation recomputation: a block's inner activations are not kept for backward but computed again (Chen et al. 2016)."""

from __future__ import annotations

from functools import partial

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from .config import Config
from .model.gpt import GPT

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


def recompute_blocks(model: GPT, config: Config) -> None:
    """Make each block recompute as parallel.recompute says; in place, names and results stay. Before compiling and sharding."""
    if config.parallel.recompute == "none":
        return
    # Keeping the random state costs a little, and only dropout draws from it.
    options = {"use_reentrant": False, "preserve_rng_state": config.model.dropout > 0}
    if config.parallel.recompute == "selective":
        options["context_fn"] = partial(create_selective_checkpoint_contexts, KEPT)
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, **options)
