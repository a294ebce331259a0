"""Which ops there are, and for which device a library has registered a kernel of its own."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from cuda_ext.sources import Kind

DISPATCH_KEYS: dict[Kind, str] = {"cpu": "CPU", "cuda": "CUDA"}


def register(library: Path) -> None:
    """Gives its kernels to torch; whether they can run here is not asked (cuda_ext.tiers asks). Raises OSError."""
    import torch

    torch.ops.load_library(str(library))


def declared() -> dict[str, str]:
    """Every op of the namespace, by name, with its schema. Imports the files of cuda_ext/ops."""
    import torch

    from cuda_ext import ops

    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"cuda_ext.ops.{module.name}")
    schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("sentinel::")]
    return {schema.name.removeprefix("sentinel::"): str(schema) for schema in sorted(schemas, key=lambda one: str(one.name))}


def without_kernel(kind: Kind) -> list[str]:
    """The ops that have none for this device: there the reference runs."""
    import torch

    key = DISPATCH_KEYS[kind]
    return [name for name in declared() if not torch._C._dispatch_has_kernel_for_dispatch_key(f"sentinel::{name}", key)]
