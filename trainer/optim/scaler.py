"""Dynamic loss scaling for fp16, held on the device: the host never learns whether an update overflowed in order to go on."""

from __future__ import annotations

from typing import Any

import torch

from ..config.sections import Numerics

GROWTH, BACKOFF = 2.0, 0.5  # of torch.amp.GradScaler and of Megatron's DynamicGradScaler alike


class LossScaler:
    """The scale doubles after `loss_scale_growth_steps` clean updates in a row and is halved by overflows.

    With a hysteresis of n the n-th overflow is the first that halves; from then on each one does, until the scale has grown again
    and forgives anew (Megatron's DynamicGradScaler). At 1, the default, it is torch.amp.GradScaler to the bit. Never below
    `loss_scale_min`. Off (scale 1, never changing) unless the precision is fp16.
    """

    def __init__(self, numerics: Numerics, device: torch.device) -> None:
        self.active = numerics.precision == "fp16"
        self._numerics = numerics
        self.scale = torch.full((), numerics.loss_scale if self.active else 1.0, device=device)
        self._clean = torch.zeros((), dtype=torch.int64, device=device)  # updates since the last change or overflow
        self._overflows = torch.zeros((), dtype=torch.int64, device=device)  # overflows since the scale last grew

    def update(self, overflow: torch.Tensor) -> None:
        """After an update; `overflow` is a device scalar, 1 where gradients or loss were not finite, else 0."""
        if not self.active:
            return
        overflowed = overflow > 0
        clean = torch.where(overflowed, 0, self._clean + 1)
        overflows = self._overflows + overflowed
        grows = clean >= self._numerics.loss_scale_growth_steps
        grown = self.scale * GROWTH
        grown = torch.where(torch.isfinite(grown), grown, self.scale)
        # A scale that a person set below the floor is left there: an overflow never raises it.
        halved = torch.minimum(self.scale, (self.scale * BACKOFF).clamp(min=self._numerics.loss_scale_min))
        shrinks = overflowed & (overflows >= self._numerics.loss_scale_hysteresis)
        self.scale = torch.where(shrinks, halved, torch.where(grows, grown, self.scale))
        self._clean = torch.where(grows, 0, clean)
        self._overflows = torch.where(grows, 0, overflows)

    def state(self) -> dict[str, Any] | None:
        """For a manifest; the host waits for the device here."""
        if not self.active:
            return None
        return {"scale": self.scale.item(), "clean_updates": int(self._clean), "forgiven": int(self._overflows)}

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continue where a checkpoint stood; one written under another precision has no state and changes nothing."""
        if self.active and state is not None:
            self.set_scale(state["scale"])
            self._clean.fill_(int(state["clean_updates"]))
            self._overflows.fill_(int(state.get("forgiven", 0)))

    def set_scale(self, scale: float) -> None:
        """From the next step on. Both counts start from 0."""
        self.scale.fill_(scale)
        self._clean.zero_()
        self._overflows.zero_()
