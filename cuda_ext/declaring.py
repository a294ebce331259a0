"""Declares ops in the namespace `sentinel`: the schema once, for every tier.

The plain-torch reference is registered for every device; a library built from csrc/ registers its kernels for CPU or CUDA over
it when it is loaded (cuda_ext.tiers). So an op exists, traces and differentiates wherever torch does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("sentinel", "DEF")


def declare(schema: str, reference: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """`schema` is `name(arguments) -> results`; `reference` computes it in plain torch, `fake` gives the results' shapes alone.

    Returns the op. A mutating op (`Tensor(a!)`) can have no gradient.
    """
    name = schema.split("(", 1)[0]
    tags = (torch.Tag.pt2_compliant_tag,)
    _LIBRARY.define(schema, tags=tags)
    _LIBRARY.impl(name, reference, "CompositeExplicitAutograd")
    torch.library.register_fake(f"sentinel::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.sentinel, name).default
