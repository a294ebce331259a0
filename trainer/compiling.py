"""torch.compile, one block at a time: equal blocks share one compilation, and FSDP's hooks stay outside."""

from __future__ import annotations

import torch

from .exits import ConfigError
from .model.gpt import GPT

# Blocks are one code to the compiler, which gives up (an error with fullgraph) past eight graphs of it. Training and evaluation,
# watched and unwatched blocks, a first length and then any, a batch of one: ten have been seen.
GRAPHS_MAX = 64


def compile_blocks(model: GPT, backend: str = "inductor") -> None:
    """Compile each block's forward as one graph; in place, parameter names stay. Before sharding."""
    torch._dynamo.config.recompile_limit = GRAPHS_MAX
    for block in model.blocks:
        block.forward = torch.compile(block.forward, fullgraph=True, backend=backend)


def check_compiler(device: torch.device) -> None:
    """Compile something small, so that a machine that cannot (no C++ compiler, no Triton) says so before training. Raises
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
