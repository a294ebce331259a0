"""The ops of the namespace `sentinel`: how they are declared, and for which devices a library has registered kernels.

An op's schema is declared once, for every tier, with its plain-torch reference as the kernel for every device. A library built
from csrc/ registers its kernels for CPU or CUDA over that when it is loaded (cuda_ext.tiers). So an op exists, traces and
differentiates wherever torch does. Importing this file imports no torch.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from .sources import Kind

DISPATCH_KEYS: dict[Kind, str] = {"cpu": "CPU", "cuda": "CUDA"}


@cache
def _namespace() -> Any:
    import torch

    return torch.library.Library("sentinel", "DEF")


def declare(schema: str, reference: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Declares an op and returns it. `schema` is `name(arguments) -> results`; `reference` computes it in plain torch, `fake`
    returns the results' shapes alone. A mutating op (`Tensor(a!)`) can have no gradient.
    """
    import torch

    name = schema.split("(", 1)[0]
    tags = (torch.Tag.pt2_compliant_tag,)
    _namespace().define(schema, tags=tags)
    _namespace().impl(name, reference, "CompositeExplicitAutograd")
    torch.library.register_fake(f"sentinel::{name}", fake, lib=_namespace())
    return getattr(torch.ops.sentinel, name).default


def register(library: Path) -> None:
    """Registers a library's kernels with torch; cuda_ext.tiers checks whether they run here. Raises OSError."""
    import torch

    torch.ops.load_library(str(library))


def declared() -> dict[str, str]:
    """The schema of every op, by name. Imports all files of cuda_ext/ops."""
    import torch

    from . import ops

    for module in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f"{ops.__name__}.{module.name}")
    schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("sentinel::")]
    return {schema.name.removeprefix("sentinel::"): str(schema) for schema in sorted(schemas, key=lambda one: str(one.name))}


def without_kernel(kind: Kind) -> list[str]:
    """The ops that have no kernel of their own for this device: there the reference runs."""
    import torch

    key = DISPATCH_KEYS[kind]
    return [name for name in declared() if not torch._C._dispatch_has_kernel_for_dispatch_key(f"sentinel::{name}", key)]
