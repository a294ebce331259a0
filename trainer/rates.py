"""Numbers of a step that the host derives: speed, its share of what the device could do, memory, how often clipping took hold."""

from __future__ import annotations

import re
import resource
from collections import deque
from collections.abc import Callable

import torch

from .config import Config
from .model.sizes import flops_per_token

CLIP_WINDOW = 100  # steps
CLIPPED, WHOLE = "1", "0"

# Dense TFLOP/s of one device, without sparsity: (words of its name, bf16 and fp16 with fp32 accumulation, fp32 without TF32, as
# torch's default is). From NVIDIA's data sheets: GB200 NVL72, HGX B200, H200, H100, A100, L40S, L4, A10. The first to fit holds.
PEAKS: tuple[tuple[tuple[str, ...], float, float], ...] = (
    (("GB200",), 2500.0, 80.0),
    (("B200",), 2250.0, 75.0),
    (("H200", "NVL"), 835.5, 60.0),
    (("H200",), 989.4, 66.9),
    (("H100", "NVL"), 835.5, 60.0),
    (("H100", "PCIe"), 756.0, 51.2),
    (("H100",), 989.4, 66.9),
    (("A100",), 312.0, 19.5),
    (("L40S",), 362.0, 91.6),
    (("L4",), 121.0, 30.3),
    (("A10",), 125.0, 31.2),
)


def known_peak_tflops(device_name: str, precision: str) -> float | None:
    """Dense peak of a device by the name torch gives it; None for one that is not in the table."""
    words = set(re.split(r"[\s-]+", device_name))
    for needed, half, single in PEAKS:
        if words.issuperset(needed):
            return single if precision == "fp32" else half
    return None


def peak_tflops(device: torch.device, precision: str, configured: float | None) -> float | None:
    """What a device could do at best: as configured, else where it is known. A CPU's is not."""
    if configured is not None or device.type != "cuda":
        return configured
    return known_peak_tflops(torch.cuda.get_device_name(device), precision)


Mfu = Callable[[float, int], float]
"""Tokens a second, over all devices, at a sequence length → their share of the devices' peak."""


def mfu_of(config: Config, padded: int, device: torch.device, devices: int) -> Mfu | None:
    """None where the device's peak is unknown. `padded`: the padded vocabulary."""
    peak = peak_tflops(device, config.numerics.precision, config.telemetry.peak_tflops)
    if peak is None:
        return None
    return lambda rate, seq_len: model_flops_share(rate, flops_per_token(config, padded, seq_len), peak, devices)


def model_flops_share(tokens_per_s: float, flops_per_token: float, peak_tflops: float, devices: int) -> float:
    """MFU (Chowdhery et al. 2022, PaLM): model FLOPs a second over all devices' peak. Recomputation does not count."""
    return tokens_per_s * flops_per_token / (peak_tflops * 1e12 * devices)


def peak_memory_bytes(device: torch.device) -> int:
    """The most this rank has held: of the GPU's memory in tensors, on a CPU of resident memory."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class ClipShare:
    """Over the last CLIP_WINDOW steps. A step without a usable gradient was not clipped."""

    def __init__(self) -> None:
        self._window: deque[str] = deque(maxlen=CLIP_WINDOW)

    def take(self, clip_coef: float) -> float:
        """A step more; the share of steps clipped, of those in the window. An infinite norm, as of an overflow, makes 0."""
        self._window.append(CLIPPED if 0.0 < clip_coef < 1.0 else WHOLE)
        return self._window.count(CLIPPED) / len(self._window)

    def state(self) -> str:
        """A character for each step, oldest first: what a checkpoint keeps."""
        return "".join(self._window)

    def restore(self, state: str) -> None:
        self._window.clear()
        self._window.extend(state)
