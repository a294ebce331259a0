"""What arguments an op takes, said with the op's and the argument's name. csrc/checks.h says the same sentences."""

from __future__ import annotations

from collections.abc import Sequence

import torch

FLOATING = (torch.float32, torch.bfloat16, torch.float16)


def check(condition: bool, op: str, argument: str, sentence: str) -> None:
    """Raises ValueError: `op: argument: sentence`."""
    if not condition:
        raise ValueError(f"{op}: {argument}: {sentence}")


def check_tensor(
    tensor: torch.Tensor,
    op: str,
    argument: str,
    *,
    dtypes: Sequence[torch.dtype] = FLOATING,
    shape: Sequence[int] | None = None,
    device: torch.device | None = None,
) -> None:
    """Raises ValueError unless it is dense, contiguous, of one of the dtypes, and of this shape and device where given."""
    names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
    check(tensor.layout == torch.strided, op, argument, f"layout {tensor.layout}, must be strided")
    check(tensor.dtype in dtypes, op, argument, f"dtype {str(tensor.dtype).removeprefix('torch.')}, must be one of {names}")
    check(tensor.is_contiguous(), op, argument, "not contiguous; call .contiguous() on it")
    if shape is not None:
        check(tuple(tensor.shape) == tuple(shape), op, argument, f"shape {list(tensor.shape)}, must be {list(shape)}")
    if device is not None:
        check(tensor.device == device, op, argument, f"on {tensor.device}, the other arguments are on {device}")


def check_elements(tensor: torch.Tensor, elements: int, op: str, argument: str) -> None:
    """Raises ValueError unless it has so many."""
    check(tensor.numel() == elements, op, argument, f"{tensor.numel()} elements, must be {elements}")
