"""One optimizer step: forward, backward, update, and the fp16 loss scale between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from trainer.data import Batch
from trainer.optim import ShardedAdamW, UpdateStatistics

# The constants of torch.amp.GradScaler: double after 2000 clean updates, halve after one overflow.
GROWTH, BACKOFF, GROWTH_INTERVAL = 2.0, 0.5, 2000


class LossScaler:
    """Dynamic loss scaling, on the device. Off (scale 1, never changing) unless the precision is fp16."""

    def __init__(self, active: bool, initial: float, device: torch.device) -> None:
        self.active = active
        self.scale = torch.full((), initial if active else 1.0, device=device)
        self._clean = torch.zeros((), dtype=torch.int32, device=device)

    def update(self, overflow: torch.Tensor) -> None:
        if self.active:
            torch._amp_update_scale_(self.scale, self._clean, overflow, GROWTH, BACKOFF, GROWTH_INTERVAL)

    def state(self) -> dict[str, float] | None:
        return {"scale": self.scale.item(), "clean_updates": int(self._clean)} if self.active else None

    def restore(self, state: dict[str, float] | None) -> None:
        """Continue where a checkpoint stood; one written under another precision has no state and changes nothing."""
        if self.active and state is not None:
            self.set_scale(state["scale"])
            self._clean.fill_(int(state["clean_updates"]))

    def set_scale(self, scale: float) -> None:
        self.scale.fill_(scale)
        self._clean.zero_()


@dataclass(frozen=True)
class Hooks:
    """Called on the way: `phase` before each part, `after_backward` when gradients are there and the update is not yet made."""

    phase: Callable[[str], None]
    after_backward: Callable[[], None]


def compute_loss(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean cross entropy in nats per byte (float32) and the mean square of the residual stream."""
    logits, layers = model(inputs)
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten()), layers[-1, 0]


def train_step(model: nn.Module, optimizer: ShardedAdamW, scaler: LossScaler, batch: Batch, hooks: Hooks) -> UpdateStatistics:
    """Train on this rank's share of one batch."""
    hooks.phase("forward")
    loss, mean_square = compute_loss(model, *batch)
    hooks.phase("backward")
    (loss * scaler.scale if scaler.active else loss).backward()
    hooks.after_backward()
    hooks.phase("optimizer")
    statistics = optimizer.update(loss.detach(), mean_square, scaler.scale)
    scaler.update(statistics.overflow)
    return statistics


@torch.no_grad()
def evaluate(model: nn.Module, batches: list[Callable[[], Batch]], beat: Callable[[], None]) -> torch.Tensor:
    """Mean loss of this rank's share of the held-out batches, float64."""
    model.eval()  # nothing is dropped, so nothing is drawn
    total = torch.zeros((), dtype=torch.float64)
    for fetch in batches:
        beat()
        loss, _ = compute_loss(model, *fetch())
        total += loss.cpu()
    model.train()
    return total / len(batches)
