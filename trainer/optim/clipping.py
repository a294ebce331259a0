"""What an update's gradients are multiplied by: a fixed bound on their global norm, and one that follows the norm itself."""

from __future__ import annotations

from typing import Any

import torch

GUARD = 1e-6  # keeps divisions finite for a norm or a deviation of zero, as torch's clip_grad_norm_ does
WARM_UP = 25  # norms that make the first mean and variance (Kumar et al. 2025, section 3)


class ZClip:
    """Adaptive clipping by the z-score of the gradient norm (Kumar, Owen, Chowdhury and Güra 2025, arXiv 2504.02507).

    With z = (norm − mean)/deviation above the threshold, the norm is brought to mean + deviation·threshold²/z: the further out,
    the harder (the paper's reciprocal form, its default). Mean and variance are exponential averages of the norms as clipped, so
    that a spike hardly moves them; the first WARM_UP norms only make their first values. What is not finite never enters: one
    NaN would stay in the averages for ever. Everything is float64 on the device.
    """

    def __init__(self, threshold: float, decay: float, device: torch.device) -> None:
        self.threshold, self.decay = threshold, decay
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        self.mean = torch.zeros((), dtype=torch.float64, device=device)
        self.variance = torch.zeros((), dtype=torch.float64, device=device)

    def bound(self, norm: torch.Tensor) -> torch.Tensor:
        """What this norm (float64 scalar, unscaled) is clipped to: itself where it is not clipped. Updates the averages."""
        deviation = self.variance.sqrt()
        z = (norm - self.mean) / (deviation + GUARD)
        warm, finite = self.count >= WARM_UP, torch.isfinite(norm)
        clipped = self.mean + deviation * (self.threshold**2 / z)
        bound = torch.where(warm & finite & (z > self.threshold), clipped, norm)
        self._learn(bound, warm, finite)
        return bound

    def _learn(self, norm: torch.Tensor, warm: torch.Tensor, finite: torch.Tensor) -> None:
        """In the warm-up the plain mean and population variance so far (Welford 1962), then the exponential averages."""
        count = self.count + 1
        weight = torch.where(warm, 1.0 - self.decay, 1.0 / count.double())
        from_old = norm - self.mean
        mean = self.mean + weight * from_old
        from_new = norm - mean
        variance = (1.0 - weight) * self.variance + weight * torch.where(warm, from_new.square(), from_old * from_new)
        # Welford's step for a variance in place of a sum of squares: M/n = (M'/(n-1))·(n-1)/n + from_old·from_new/n.
        self.mean = torch.where(finite, mean, self.mean)
        self.variance = torch.where(finite, variance, self.variance)
        self.count = torch.where(finite, count, self.count)

    def state(self) -> dict[str, Any]:
        return {"seen": int(self.count), "mean": self.mean.item(), "variance": self.variance.item()}

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continue where a checkpoint stood; without a state, from the beginning."""
        state = state or {"seen": 0, "mean": 0.0, "variance": 0.0}
        self.count.fill_(int(state["seen"]))
        self.mean.fill_(state["mean"])
        self.variance.fill_(state["variance"])


def coefficient(norm: torch.Tensor, clip_norm: float, zclip: ZClip | None) -> torch.Tensor:
    """What to multiply gradients of this norm by, at most 1: the stricter of the two bounds. float64, on the device."""
    bound = torch.full_like(norm, clip_norm)
    if zclip is not None:
        # Rounding must not clip what ZClip lets pass: the guard below would turn its own norm into a little less than 1.
        zclip_bound = zclip.bound(norm)
        bound = torch.where(zclip_bound < norm, torch.minimum(bound, zclip_bound), bound)
    return (bound / (norm + GUARD)).clamp(max=1.0)
