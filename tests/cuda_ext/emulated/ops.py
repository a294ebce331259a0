"""The emulated kernels behind the signatures of the ops: tensors of the CPU in, tensors of the CPU out."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from .library import emulated_library

ELEMENTS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}  # csrc/host_device.h
H200 = {"processors": 3, "major": 9, "shared": 233_472, "shared_of_block": 232_448, "clusters_fail": False}
A100 = H200 | {"major": 8, "shared": 167_936, "shared_of_block": 166_912}


@contextmanager
def emulated_device(**changed: int) -> Iterator[None]:
    """An H200 but for its processors, which are 3, and what is changed."""
    function = emulated_library().emulated_device
    function(*map(ctypes.c_int, (H200 | changed).values()))
    try:
        yield
    finally:
        function(*map(ctypes.c_int, H200.values()))


def call(name: str, *arguments: object) -> None:
    """Raises RuntimeError with what the kernel's launch raised."""
    function = getattr(emulated_library(), name)
    function.restype = ctypes.c_char_p
    raised = function(*map(converted, arguments))
    if raised is not None:
        raise RuntimeError(raised.decode())


def converted(value: object) -> object:
    if isinstance(value, Tensor):
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, torch.dtype):
        return ctypes.c_int(ELEMENTS[value])
    return ctypes.c_int64(value) if isinstance(value, int) else value


def add_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float, rms: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    width = x.shape[-1]
    rows = x.numel() // width
    y, h = filled(x.shape, x.dtype), filled(x.shape if residual is not None else 0, x.dtype)
    mean, rstd, stats = filled(0 if rms else rows, torch.float32), filled(rows, torch.float32), filled(3, torch.float64)
    call(
        "emulated_add_norm", x, residual, weight, bias, y, None if residual is None else h, None if rms else mean, rstd, stats,
        rows, width, ctypes.c_float(eps), x.dtype, weight.dtype,
    )  # fmt: skip
    return y, h, mean, rstd, stats


def add_norm_backward(
    dy: Tensor, dh: Tensor | None, h: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor, rms: bool, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    width = h.shape[-1]
    dx, dweight = filled(h.shape, h.dtype), filled(width, weight.dtype)
    dbias = filled(width if has_bias else 0, weight.dtype)
    call(
        "emulated_add_norm_backward", dy, dh, h, weight, None if rms else mean, rstd, dx, dweight, dbias if has_bias else None,
        h.numel() // width, width, h.dtype, weight.dtype,
    )  # fmt: skip
    return dx, dweight, dbias


def softmax_xent(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None,
    expected: Tensor | None,
    z_loss: float,
    ignore_index: int,
    wants_gradient: bool = True,
    over: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`over`: the gradient is written over the logits, as softmax_xent_ does."""
    rows, columns = logits.shape
    total, losses, lse = filled((), torch.float32), filled(rows, torch.float32), filled(rows, torch.float32)
    stats, mean = filled(4, torch.float64), filled((), torch.float32)
    dlogits = logits if over else filled(logits.shape if wants_gradient else 0, logits.dtype)
    call(
        "emulated_softmax_xent", logits, dlogits if wants_gradient else None, targets, weight, expected, losses, lse, total, mean,
        stats, ctypes.c_double(z_loss), ignore_index, rows, ctypes.c_int(columns), logits.dtype,
    )  # fmt: skip
    return total, losses, lse, dlogits, stats, mean


def scale_(x: Tensor, factor: Tensor) -> None:
    call("emulated_scale", x, x.numel(), x.dtype, factor)


def grad_stats(grads: Sequence[Tensor], inv_scale: Tensor) -> Tensor:
    out = filled((len(grads), 3), torch.float64)
    count = len(grads)
    call(
        "emulated_grad_stats", count, (ctypes.c_void_p * count)(*(grad.data_ptr() for grad in grads)),
        (ctypes.c_int64 * count)(*(grad.numel() for grad in grads)),
        (ctypes.c_int * count)(*(ELEMENTS[grad.dtype] for grad in grads)), inv_scale, out,
    )  # fmt: skip
    return out


def adamw_step(
    params: Sequence[Tensor], grads: Sequence[Tensor], firsts: Sequence[Tensor], seconds: Sequence[Tensor], step: Tensor,
    control: Tensor, decays: Sequence[float],
) -> Tensor:  # fmt: skip
    out = filled((len(params), 4), torch.float64)
    count = len(params)
    state = [tensor.data_ptr() for each in zip(params, grads, firsts, seconds, strict=True) for tensor in each]
    sizes = (ctypes.c_int64 * count)(*(param.numel() for param in params))
    call(
        "emulated_adamw_step", count, (ctypes.c_void_p * (4 * count))(*state), sizes, (ctypes.c_double * count)(*decays),
        grads[0].dtype, control, step, out,
    )  # fmt: skip
    return out


def filled(shape: int | Sequence[int], dtype: torch.dtype) -> Tensor:
    """Whatever nobody writes is NaN."""
    return torch.full((shape,) if isinstance(shape, int) else tuple(shape), torch.nan, dtype=dtype)
