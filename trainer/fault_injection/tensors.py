"""What faults do to tensors and checkpoints: a flipped bit, NaNs, an overflow, a moment that runs away, noise, a rotten byte.

`lasting` maps the faults that continue (a sick optimizer, drift) to the step at which they began. It is in the manifest of
every later checkpoint, so a run that resumes from one continues the damage, and a run that goes back further does not.
Everything here is a function of the step, so that a resume is bitwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data_order import mix
from ..exits import ConfigError
from ..faults import Fault
from ..optim import ShardedAdamW

LASTING = ("sick_optimizer", "drift")
SHOWS_AFTER = 8  # doublings past the usual size until the loss shows it: a weight moves by the learning rate, a thousandth of it
STRETCHES = {"nan_grad": float("nan"), "scale_collapse": float("inf")}  # what a gradient element becomes


class Damage:
    """Of one rank of one attempt. `faults` are all of the run: those that last are known by their texts in a manifest."""

    def __init__(self, faults: tuple[Fault, ...], rank: int, precision: str) -> None:
        """Raises ConfigError for a collapse of a loss scale that there is not."""
        for fault in faults:
            if fault.kind == "scale_collapse" and precision != "fp16":
                raise ConfigError(f"--fault {fault.text!r}: {precision} has no loss scale; add --set numerics.precision=fp16")
        self.lasting: dict[str, int] = {}
        self._faults = {fault.text: fault for fault in faults}
        self._rank = rank
        self._stretches: dict[str, int] = {}
        self._ruins = False

    def state(self) -> dict[str, Any]:
        """What goes into a manifest: nothing where nothing lasts."""
        return {"damage": dict(self.lasting)} if self.lasting else {}

    def restore(self, manifest: dict[str, Any]) -> None:
        self.lasting = {text: step for text, step in manifest.get("damage", {}).items() if text in self._faults}

    def begin(self, due: list[Fault], step: int, optimizer: ShardedAdamW) -> None:
        """Before the step's forward."""
        for fault in due:
            if fault.kind == "bit_flip":
                flip_bit(optimizer)
            elif fault.kind in LASTING:
                self.lasting.setdefault(fault.text, step)
            elif fault.kind in STRETCHES:
                self._stretches[fault.text] = step
            elif fault.kind == "nan_state":
                self._ruins = True

    def after_backward(self, step: int, optimizer: ShardedAdamW) -> None:
        for text, first in self._stretches.items():
            fault = self._faults[text]
            if fault.rank == self._rank and first <= step < first + fault.number("length"):
                poison_gradient(optimizer, STRETCHES[fault.kind])

    def after_update(self, step: int, optimizer: ShardedAdamW) -> None:
        if self._ruins:
            self._ruins = False
            fill_with_nan(optimizer)
        for text, since in self.lasting.items():
            fault = self._faults[text]
            if fault.rank != self._rank:
                continue
            if fault.kind == "drift":
                add_noise(optimizer, step, fault.number("size"))
            else:
                amplify_moments(optimizer, step - since - int(fault.number("later")) + SHOWS_AFTER)
            optimizer.state_changed()  # the first line after a resume must report what this run's next line does


@torch.no_grad()
def poison_gradient(optimizer: ShardedAdamW, value: float = float("nan")) -> None:
    """Make one gradient element of this rank NaN, or infinite as an overflow is."""
    next(iter(optimizer.gradients().values())).view(-1)[0] = value


@torch.no_grad()
def flip_bit(optimizer: ShardedAdamW) -> None:
    """Flip the highest exponent bit of one weight in this rank's own shard: what a particle does."""
    flat = optimizer.shards[_block_matrix(optimizer)].view(-1)
    place = int(flat.abs().argmax())
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()]
    flat[place : place + 1].view(whole).bitwise_xor_(1 << (8 * flat.element_size() - 2))  # next to the sign


@torch.no_grad()
def fill_with_nan(optimizer: ShardedAdamW) -> None:
    for local in optimizer.shards.values():
        local.fill_(float("nan"))


@torch.no_grad()
def amplify_moments(optimizer: ShardedAdamW, doublings: int) -> None:
    """The first moments of this rank's shard gain 2^doublings times the usual size of their gradients, each with a sign of its
    own. Far below 1 it has no visible effect; above it the weights are driven away, twice as fast with every update. All
    matrices: the layer norms take out what a single one does, and the others learn to live with it."""
    for number, (first, second) in enumerate(optimizer.moments.values()):
        if first.dim() > 1 and first.numel():
            generator = torch.Generator().manual_seed(number)
            signs = torch.randint(0, 2, first.shape, generator=generator).to(first.device) * 2 - 1
            first += signs * second.sqrt().clamp(min=1e-6) * 2.0 ** min(doublings, 60)


@torch.no_grad()
def add_noise(optimizer: ShardedAdamW, step: int, share: float) -> None:
    """Seeded noise in every matrix of this rank's shard, so large a share of its root mean square."""
    for number, local in enumerate(optimizer.shards.values()):
        if local.dim() > 1 and local.numel():
            generator = torch.Generator().manual_seed(mix(step * 1000 + number) >> 1)
            noise = torch.randn(local.shape, generator=generator).to(local.device)
            local.add_(noise * (local.square().mean().sqrt() * share))


def corrupt_byte(checkpoint: Path) -> None:
    """Change one byte in the middle of a committed checkpoint's largest file; its size stays."""
    largest = max((path for path in checkpoint.iterdir() if path.suffix == ".distcp"), key=lambda path: path.stat().st_size)
    with largest.open("r+b") as file:
        middle = largest.stat().st_size // 2
        file.seek(middle)
        byte = file.read(1)[0]
        file.seek(middle)
        file.write(bytes([byte ^ 0x10]))


def _block_matrix(optimizer: ShardedAdamW) -> str:
    """The largest matrix of a block in this rank's shard, through which every token passes; a row of the embedding may belong
    to a byte that never comes."""
    matrices: dict[str, nn.Parameter] = {name: p for name, p in optimizer.shards.items() if "blocks" in name and p.numel()}
    return max(matrices, key=lambda name: matrices[name].numel())
