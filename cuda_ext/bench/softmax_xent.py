"""softmax_xent beside torch's cross-entropy, forward and backward: the loss and the gradient of the logits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..ops.softmax_xent import softmax_xent
from .harness import Case, Way, installed

GOAL = 0.8
IGNORED = -100
# (tokens, vocabulary): GPT-2 padded and Llama 3 at more than a GB each, bytes, and GPT-2 as it is, whose rows lie askew.
ON_GPU = ((16_384, 50_304), (8192, 128_256), (16_384, 50_257), (1 << 21, 256))
FEW = (50_304, 128_256)
ON_CPU = ((2048, 256), (2048, 50_304))
DTYPES = {"cuda": (torch.bfloat16, torch.float32), "cpu": (torch.float32, torch.bfloat16)}


def cases(device: torch.device, few: bool = False) -> Iterable[Case]:
    shapes = ON_GPU if device.type == "cuda" else ON_CPU
    for dtype in (torch.bfloat16,) if few else DTYPES[device.type]:
        for rows, columns in shapes:
            if not few or columns in FEW:
                yield case(device, dtype, rows, columns)


def case(device: torch.device, dtype: torch.dtype, rows: int, columns: int) -> Case:
    logits = (torch.randn(rows, columns, device=device, dtype=dtype) * 3).requires_grad_()
    targets = torch.randint(columns, (rows,), device=device)
    peers = {"torch": trained(F.cross_entropy, logits, targets)}
    if device.type == "cuda":
        peers["torch.compile"] = trained(torch.compile(F.cross_entropy, dynamic=False), logits, targets)
        if installed("liger_kernel"):
            peers["Liger"] = liger(logits, targets)
    peers["ours by autograd"] = trained(lambda *arguments: softmax_xent(*arguments)[0], logits, targets)
    bare_logits, one = logits.detach(), torch.ones((), device=device)
    return Case(
        op="softmax_xent, gradient included",
        shape=f"{rows} x {columns}",
        dtype=str(dtype).removeprefix("torch."),
        moved_bytes=2 * logits.nbytes,
        ours=lambda ops: whole(ops, bare_logits, targets, one),
        peers=peers,
        goal=GOAL if device.type == "cuda" and columns > 50_000 and dtype == torch.bfloat16 else None,
    )


def whole(ops: Any, logits: Tensor, targets: Tensor, expected: Tensor) -> Tensor:
    """What the public function and its backward do, without autograd, which knows the ops of one namespace alone."""
    dlogits: Tensor = ops.softmax_xent(logits, targets, None, expected, 0.0, IGNORED)[3]  # the op counts the targets itself
    ops.scale_(dlogits, expected / expected)
    return dlogits


def trained(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor) -> Way:
    def step() -> None:
        logits.grad = None
        loss(logits, targets).backward()

    return step


def liger(logits: Tensor, targets: Tensor) -> Way:
    """Its cross-entropy writes the gradient over the logits; a copy of them is not counted against it."""
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    spare = logits.detach().clone()

    def step() -> None:
        LigerCrossEntropyFunction.apply(spare.requires_grad_(), targets, None, IGNORED)

    return step
