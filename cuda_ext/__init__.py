"""Ops that take statistics in the pass that does the work: norms of activations, gradients and updates, and non-finite counts.

    from cuda_ext import add_norm, softmax_xent, grad_stats, adamw_step

Each is an op `torch.ops.sentinel.*` with a plain-torch reference (cuda_ext.reference, its specification), a C++ version for
the CPU and a CUDA version. Which one runs is chosen once (cuda_ext.tiers); `python -m cuda_ext` prints it and why.
Installed from a wheel this package is `sentinel_kernels`: it imports itself by relative names alone.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["adamw_step", "add_norm", "grad_stats", "softmax_xent"]


def __getattr__(name: str) -> Any:
    """An op at its first use: importing this package imports no torch and builds nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.ops.{name}"), name)
