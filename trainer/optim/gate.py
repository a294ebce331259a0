"""The gate before an update: what is not finite, or far above what was usual lately, is not applied.

After OLMo's skip-step optimizer (Ai2's OLMo-core, 2024: an update whose loss or gradient norm lies 6 standard deviations above
the mean of the last 128 steps is left out), with three differences. Median and median absolute deviation take the place of mean
and standard deviation, so that one outlier does not hide the next. What was left out never enters the window, where a NaN would
blind the rule for a whole window. And an update is left out by the kernel's own test: a factor of zero turns NaN gradients into
NaN parameters. A level that has jumped and stays is let through after `gate_patience` updates: a gate that never opened again
would end the run.
"""

from __future__ import annotations

from typing import Any

import torch

from ..config.sections import Stability

NORMAL = 1.4826  # times the median absolute deviation is the standard deviation of normal noise
# A deviation is taken for at least so much of the median: a window may hold one number over and over. So nothing within 3 % of
# the median is an outlier by the usual 6 sigmas.
FLOOR = 0.005
# The median deviation of 16 normal values is off by a quarter, so that 6 sigmas are more than 4. A quarter of the window keeps
# the steep first steps of a run from being the whole window.
ENOUGH, ENOUGH_SHARE = 16, 4


class Gate:
    """Its state and every decision are on the device. `scaled`: fp16 overflows are left out even where the gate is off, because
    the loss scale is found by overflowing; no gate counts them as outliers. `skips_nonfinite`: updates that are not finite are
    left out."""

    def __init__(self, stability: Stability, scaled: bool, device: torch.device) -> None:
        self._settings = stability
        self.skips_nonfinite = scaled or stability.gate != "off"
        self._judges = stability.gate == "outlier"
        size = stability.gate_window
        self._enough = min(size, max(ENOUGH, size // ENOUGH_SHARE))
        self._slots = torch.arange(size, device=device)
        self._window = torch.zeros(2, size, dtype=torch.float64, device=device)  # loss, gradient norm; entry n at place n % size
        self._accepted = torch.zeros((), dtype=torch.int64, device=device)  # entries since the window began
        self._outliers_in_row = torch.zeros((), dtype=torch.int64, device=device)

    def judge(self, loss: torch.Tensor, grad_norm: torch.Tensor, nonfinite: torch.Tensor) -> torch.Tensor:
        """Whether to leave this update out: a bool scalar on the device. Loss and norm are float64 scalars of all ranks, the norm
        unscaled and before clipping; `nonfinite`: the loss or a gradient element is not finite."""
        skip = nonfinite if self.skips_nonfinite else torch.zeros_like(nonfinite)
        if self._judges:
            values = torch.stack([loss, grad_norm])
            outlier = self._is_outlier(values)
            # A value that is not finite neither breaks a row of outliers nor lengthens it.
            in_row = torch.where(nonfinite, self._outliers_in_row, torch.where(outlier, self._outliers_in_row + 1, 0))
            new_level = in_row >= self._settings.gate_patience
            self._outliers_in_row = torch.where(new_level, 0, in_row)
            skip = nonfinite | (outlier & ~new_level)
            self._enter(values, torch.where(new_level, 0, self._accepted), ~skip)
        return skip

    def _is_outlier(self, values: torch.Tensor) -> torch.Tensor:
        """On the high side only: a loss or a norm that falls is nothing to refuse."""
        filled = self._slots < self._accepted
        middle = self._median(self._window, filled)
        deviation = NORMAL * self._median((self._window - middle).abs(), filled)
        bound = middle + self._settings.gate_sigmas * torch.maximum(deviation, FLOOR * middle.abs())
        return (values[:, None] > bound).any() & (self._accepted >= self._enough)

    def _median(self, rows: torch.Tensor, filled: torch.Tensor) -> torch.Tensor:
        """(2, size) → (2, 1): of the places held, the mean of the middle two. By sorting: torch's own medians wait for the device
        or are not deterministic there. Nothing held gives infinity, above which is nothing."""
        ordered = torch.where(filled, rows, torch.inf).sort(dim=1).values
        count = self._accepted.clamp(min=1, max=len(self._slots))
        middle = torch.stack([(count - 1) // 2, count // 2]).expand(2, 2)
        return ordered.gather(1, middle).mean(dim=1, keepdim=True)

    def _enter(self, values: torch.Tensor, accepted: torch.Tensor, enters: torch.Tensor) -> None:
        here = (self._slots == accepted % len(self._slots)) & enters
        self._window = torch.where(here, values[:, None], self._window)
        self._accepted = accepted + enters

    def state(self) -> dict[str, Any]:
        """For a manifest, the window's oldest entry first. The host waits for the device here."""
        accepted, size = int(self._accepted), len(self._slots)
        order = [number % size for number in range(max(0, accepted - size), accepted)]
        losses, norms = ([row[place] for place in order] for row in self._window.tolist())
        return {
            "outliers_in_row": int(self._outliers_in_row),
            "losses": losses,
            "grad_norms": norms,
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continue where a checkpoint stood, to the bit; a window of another size keeps the newest entries. What a state does not
        tell, as of a run without this gate, begins anew."""
        state = state or {}
        self._outliers_in_row.fill_(int(state.get("outliers_in_row", 0)))
        size = len(self._slots)
        rows = torch.tensor([state.get("losses", [])[-size:], state.get("grad_norms", [])[-size:]], dtype=torch.float64)
        self._window.zero_()
        self._window[:, : rows.shape[1]] = rows.to(self._window.device)
        self._accepted.fill_(rows.shape[1])
