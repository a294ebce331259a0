"""`python -m cuda_ext.gpu.values`: are our kernels' values right at the trainer's own shapes? Against float64 on the same device.

The first thing to know on a GPU, in seconds and with torch alone; the tests, which try every corner, need pytest and come later.
Each value may be off by a few roundings of its type, of the largest element of what it should be. One line a case, recorded at
once. The exit code is 1 if a case is wrong or could not run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..bench import record
from ..bench.grad_stats import gpt
from ..ops.adamw_step import adamw_step
from ..ops.add_norm import add_norm
from ..ops.grad_stats import grad_stats
from ..ops.softmax_xent import softmax_xent
from ..reference.softmax_xent import of_rows
from ..tiers import KernelsUnavailable, load

EPS = 1e-5
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-21}  # float32: sums of thousands, too
STATISTIC = 1e-4  # of a sum of squares of millions
CONTROL = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "grad_factor": 0.5, "gate": 0.0}


class Value(NamedTuple):
    name: str
    found: Tensor
    wanted: Tensor
    allowed: float | None = None
    """Of the largest element wanted; None: two roundings of the type found."""


class Sizes(NamedTuple):
    """What is tried; on a CPU, to rehearse, less of it."""

    norms: tuple[tuple[int, int], ...]
    vocabularies: tuple[tuple[int, int], ...]
    parameters: list[int]


ON_GPU = Sizes(
    ((65_536, 768), (32_768, 1600), (8192, 4096), (4096, 8192)), ((5120, 50_304), (2048, 128_256)), gpt(12, 768, 50_304, 1024)
)
ON_CPU = Sizes(((64, 768), (16, 4096)), ((16, 50_304),), gpt(1, 64, 512, 32))
Case = Callable[[], Iterator[Value]]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cuda_ext.gpu.values", description="Our kernels' values at real shapes.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="the CPU to rehearse")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep each outcome there")
    args = parser.parse_args(argv)
    try:
        print(load(args.device), flush=True)
    except KernelsUnavailable as error:
        print(f"cuda_ext.gpu.values: {error}", file=sys.stderr)
        return 1
    ok = True
    for name, case in cases(torch.device(args.device)).items():
        outcome = judged(case)
        print(f"{'ok   ' if outcome['ok'] else 'WRONG'} {name}: {outcome['says']}", flush=True)
        ok = ok and bool(outcome["ok"])
        if args.record is not None:
            record.write(args.record, {}, {"values": {name: outcome}})
    return 0 if ok else 1


def cases(device: torch.device) -> dict[str, Case]:
    sizes = ON_GPU if device.type == "cuda" else ON_CPU
    found: dict[str, Case] = {}
    for rows, columns in sizes.vocabularies:
        for dtype in (torch.bfloat16, torch.float16):
            found[f"softmax_xent {rows} x {columns} {dtype}"] = partial(cross_entropy, device, dtype, rows, columns)
    for rows, width in sizes.norms:
        for rms in (False, True):
            label = "RMSNorm" if rms else "LayerNorm"
            found[f"add_norm {label} {rows} x {width} bfloat16"] = partial(norm, device, rows, width, rms)
    found["grad_stats and adamw_step, GPT-2"] = partial(update, device, sizes.parameters)
    return found


def judged(case: Case) -> dict[str, object]:
    """{"ok", "says"}: the worst value, as a share of what is allowed."""
    worst, says = -1.0, "nothing was compared"
    try:
        for value in case():
            share = share_of_allowed(value)
            if not share <= worst:  # a NaN, too
                worst, says = share, f"{value.name} is the worst, at {share:.2f} of what is allowed"
            if not share <= 1.0:
                return {"ok": False, "says": f"{value.name} is off by {share:.3g} times what is allowed"}
    except Exception as error:  # noqa: BLE001  the next case may well run, and the kernels of it may be right
        return {"ok": False, "says": f"{type(error).__name__}: {error}"}
    return {"ok": worst >= 0.0, "says": says}


def share_of_allowed(value: Value) -> float:
    """NaN where either has one, or shapes differ: never below 1."""
    if value.found.shape != value.wanted.shape:
        return float("nan")
    allowed = value.allowed if value.allowed is not None else 2 * ROUNDING[value.found.dtype]
    found, wanted = value.found.detach().double(), value.wanted.detach().double()
    return float((found - wanted).abs().max() / (allowed * wanted.abs().max()).clamp(min=1e-30))


def cross_entropy(device: torch.device, dtype: torch.dtype, rows: int, columns: int) -> Iterator[Value]:
    draws = torch.Generator(device).manual_seed(1)
    logits = torch.randn(rows, columns, device=device, generator=draws).mul_(3).to(dtype).requires_grad_()
    targets = torch.randint(columns, (rows,), device=device, generator=draws)
    scale = torch.full((), 1024.0, device=device)
    total, cross_entropy, stats = softmax_xent(logits, targets, z_loss=1e-4, expected=scale)
    (found,) = torch.autograd.grad(total, logits, scale)
    weight, wanted_sum = torch.full((), 1 / rows, device=device, dtype=torch.float64), torch.zeros((), device=device).double()
    for start in range(0, rows, 1024):  # float64 of all at once would be the largest tensor there is
        part = slice(start, start + 1024)
        of_part = logits.detach()[part].double()
        losses, _, gradient = of_rows(of_part, targets[part], weight, scale.double(), 1e-4, -100)
        wanted_sum += losses.sum()
        yield Value(f"gradient of rows {start}", found[part], gradient)
    yield Value("loss", cross_entropy, wanted_sum / rows, 1e-5)
    yield Value("largest logit", stats[0], logits.detach().amax().double(), 1e-12)
    yield Value("not finite", stats[1], torch.zeros_like(stats[1]), 1.0)


def norm(device: torch.device, rows: int, width: int, rms: bool) -> Iterator[Value]:
    draws = torch.Generator(device).manual_seed(2)
    x, residual, dy, dh = (torch.randn(rows, width, device=device, generator=draws).bfloat16() for _ in range(4))
    weight, shift = (torch.randn(width, device=device, generator=draws).bfloat16().requires_grad_() for _ in range(2))
    bias = None if rms else shift
    leaf = x.requires_grad_()
    y, h, stats = add_norm(leaf, residual, weight, bias, eps=EPS, rms=rms)
    leaves = [leaf, weight] if bias is None else [leaf, weight, bias]
    found = torch.autograd.grad([y, h], leaves, [dy, dh])
    wide = (x.detach() + residual).double().requires_grad_()
    doubles = [wide, *(one.detach().double().requires_grad_() for one in leaves[1:])]
    centred = wide if rms else wide - wide.mean(1, keepdim=True)
    normed = centred * (centred.square().mean(1, keepdim=True) + EPS).rsqrt() * doubles[1]
    out = normed if rms else normed + doubles[2]
    wanted = torch.autograd.grad((out * dy.double()).sum() + (wide * dh.double()).sum(), doubles)
    yield Value("y", y, out.detach())
    yield Value("h", h, wide.detach(), 1e-12)
    for name, one, other in zip(("dx", "dweight", "dbias"), found, wanted, strict=False):
        yield Value(name, one, other)
    yield Value("sum of squares", stats[0], wide.detach().square().sum(), STATISTIC)
    yield Value("largest", stats[1], wide.detach().abs().amax(), 1e-12)


def update(device: torch.device, sizes: list[int]) -> Iterator[Value]:
    draws = torch.Generator(device).manual_seed(3)
    params, grads, firsts, roots = ([torch.randn(size, device=device, generator=draws) for size in sizes] for _ in range(4))
    seconds = [root.square_() for root in roots]
    inverse, step = torch.full((), 0.25, device=device), torch.full((), 3.0, device=device)
    measured = grad_stats(grads, inverse)
    squares = torch.stack([(grad * 0.25).double().square().sum() for grad in grads])
    yield Value("squares of gradients", measured[:, 0], squares, STATISTIC)
    set_ = dict(CONTROL)
    before = [torch.cat(tensors).double() for tensors in (params, grads, firsts, seconds)]
    control = torch.tensor(list(set_.values()), dtype=torch.float64, device=device)
    adamw_step(params, grads, firsts, seconds, step, control, [1.0] * len(params))
    param, grad, first, second = before
    grad = grad * set_["grad_factor"]
    first = set_["beta1"] * first + (1 - set_["beta1"]) * grad
    second = set_["beta2"] * second + (1 - set_["beta2"]) * grad.square()
    denominator = (second / (1 - set_["beta2"] ** 4)).sqrt() + set_["eps"]
    param = param * (1 - set_["lr"] * set_["weight_decay"]) - set_["lr"] * first / (1 - set_["beta1"] ** 4) / denominator
    for name, tensors, wanted in (("parameters", params, param), ("first", firsts, first), ("second", seconds, second)):
        yield Value(name, torch.cat(tensors), wanted)
    yield Value("count", step, torch.full_like(step, 4.0), 1e-12)


if __name__ == "__main__":
    sys.exit(main())
