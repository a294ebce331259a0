"""One optimizer step: forward and backward in micro-batches, the update, and the fp16 loss scale between them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from .config import Config
from .data import Batch
from .loss import ForwardStatistics, compute_loss
from .optim import ShardedAdamW
from .optim.scaler import LossScaler
from .optim.statistics import UpdateStatistics


@dataclass(frozen=True)
class Hooks:
    """Called on the way: `phase` before each part, `after_backward` when gradients are there and the update is not yet made."""

    phase: Callable[[str], None]
    after_backward: Callable[[], None]


def train_step(
    model: nn.Module, optimizer: ShardedAdamW, scaler: LossScaler, batch: Batch, hooks: Hooks, config: Config
) -> UpdateStatistics:
    """Train on this rank's share of one batch."""
    forward = accumulate(model, scaler, batch, hooks.phase, config)
    hooks.after_backward()
    hooks.phase("optimizer")
    statistics: UpdateStatistics = optimizer.update(forward, scaler.scale)
    scaler.update(statistics.overflow)
    return statistics


def accumulate(
    model: nn.Module, scaler: LossScaler, batch: Batch, phase: Callable[[str], None], config: Config
) -> ForwardStatistics:
    """Leave the gradient of the whole share's mean loss on the parameters, reduced over the ranks.

    The share is cut into `parallel.micro_batch` sequences; the last part may be smaller, so each counts by its size. Ranks
    exchange gradients once, with the last part, and keep gathered weights between parts unless `parallel.reshard` frees them.
    """
    whole = len(batch[0])
    parts = list(zip(*(tensor.split(config.parallel.micro_batch or whole) for tensor in batch), strict=True))
    forward = None
    for number, (inputs, targets) in enumerate(parts, start=1):
        if len(parts) > 1:
            last = number == len(parts)
            model.set_requires_gradient_sync(last)
            model.set_reshard_after_backward(last or config.parallel.reshard)
        share = len(inputs) / whole
        grad_output = scaler.scale if share == 1.0 else scaler.scale * share  # the gradient of this part's loss
        phase("forward")
        losses = compute_loss(model, inputs, targets, config.stability.z_loss, grad_output)
        phase("backward")
        losses.total.backward(grad_output)
        part = ForwardStatistics.of(losses, share)
        forward = part if forward is None else forward.with_part(part)
    assert forward is not None
    return forward


@torch.no_grad()
def evaluate(
    model: nn.Module, batches: list[Callable[[], Batch]], beat: Callable[[], None], micro_batch: int | None = None
) -> torch.Tensor:
    """Mean cross entropy of this rank's share of the held-out batches, float64, without dropout; so many sequences at once."""
    total = torch.zeros((), dtype=torch.float64)
    model.eval()  # nothing is dropped, so nothing is drawn
    for fetch in batches:
        batch = fetch()
        whole = len(batch[0])
        for inputs, targets in zip(*(tensor.split(micro_batch or whole) for tensor in batch), strict=True):
            beat()
            total += compute_loss(model, inputs, targets).cross_entropy.cpu() * (len(inputs) / whole)
    model.train()
    return total / len(batches)


def seed_dropout(config: Config, step: int, rank: int) -> None:
    """Before the forward of a step: dropout's masks become a function of (init.seed, step, rank). There is nothing to save with a
    checkpoint, and random draws between two steps change no mask. Costs nothing where there is no dropout."""
    if config.model.dropout:
        key = hashlib.sha256(f"{config.init.seed} dropout {step} {rank}".encode()).digest()
        torch.manual_seed(int.from_bytes(key[:7]))
