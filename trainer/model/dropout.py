"""The random stream of dropout."""

from __future__ import annotations

import hashlib

import torch

from ..config import Config


def seed_dropout(config: Config, step: int, rank: int) -> None:
    """Before the forward of a step: dropout's masks become a function of (init.seed, step, rank). There is nothing to save with a
    checkpoint, and whatever else draws numbers between two steps changes no mask. Costs nothing where there is no dropout."""
    if config.model.dropout:
        key = hashlib.sha256(f"{config.init.seed} dropout {step} {rank}".encode()).digest()
        torch.manual_seed(int.from_bytes(key[:7]))
