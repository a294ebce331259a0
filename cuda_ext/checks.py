"""Checks of an op's arguments. Errors name the op and the argument, in the same words as csrc/tensors.h.

A message is formatted only when it is raised: an optimizer's step checks hundreds of tensors.
"""

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
    elements: int | None = None,
    device: torch.device | None = None,
) -> None:
    """Raises ValueError unless it is dense, contiguous, of one of the dtypes, and of this shape, size and device where given."""
    reason = unfit(tensor, dtypes, shape, elements, device)
    if reason is not None:
        raise ValueError(f"{op}: {argument}: {reason}")


def check_tensors(
    tensors: Sequence[torch.Tensor],
    op: str,
    argument: str,
    *,
    dtypes: Sequence[torch.dtype] = FLOATING,
    elements: Sequence[int] | None = None,
    device: torch.device | None = None,
) -> None:
    """check_tensor for each tensor of a list; the error names its index. `elements`: of each."""
    for number, tensor in enumerate(tensors):
        reason = unfit(tensor, dtypes, None, None if elements is None else elements[number], device)
        if reason is not None:
            raise ValueError(f"{op}: {argument}[{number}]: {reason}")


def unfit(
    tensor: torch.Tensor,
    dtypes: Sequence[torch.dtype],
    shape: Sequence[int] | None,
    elements: int | None,
    device: torch.device | None,
) -> str | None:
    """Why a tensor is not accepted; None if it is."""
    if tensor.layout != torch.strided:
        return f"layout {tensor.layout}, must be strided"
    if tensor.dtype not in dtypes:
        return f"dtype {named(tensor.dtype)}, must be one of {', '.join(map(named, dtypes))}"
    if not tensor.is_contiguous():
        return "not contiguous; call .contiguous() on it"
    if shape is not None and tuple(tensor.shape) != tuple(shape):
        return f"shape {list(tensor.shape)}, must be {list(shape)}"
    if device is not None and tensor.device != device:
        return f"on {tensor.device}, the other arguments are on {device}"
    if elements is not None and tensor.numel() != elements:
        return f"{tensor.numel()} elements, must be {elements}"
    return None


def named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
