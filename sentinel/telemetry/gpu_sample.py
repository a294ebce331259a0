"""What the NVML helper says of one GPU, and which of it is news. None means unknown, and unknown is not reported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sentinel.model.readings import HardwareWhat

TEXT_CHARS = 200
RECOVERY_WORDS = {
    0: "none", 1: "GPU reset", 2: "node reboot", 3: "drain P2P", 4: "drain and reset", 5: "recover IMEX domain", 6: "bus reset",
    7: "system reboot",
}  # fmt: skip
"""NVML_GPU_RECOVERY_ACTION_* of nvidia-ml-py 13.615.71; Xid 154 prints the same codes."""

_PCI = re.compile(r"^(?:PCI:)?(?:([0-9a-fA-F]{4,16}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?$")


def normalise_pci(text: str) -> str:
    """`00000000:3B:00.0` of NVML and `0000:3b:00` of the kernel as the same `0000:3b:00`; anything else as it is, lower case.

    >>> normalise_pci("00000000:3B:00.0"), normalise_pci("0000:3b:00"), normalise_pci("GPU 1")
    ('0000:3b:00', '0000:3b:00', 'gpu 1')
    """
    found = _PCI.match(text.strip())
    if found is None:
        return text.strip().lower()[:TEXT_CHARS]
    return f"{int(found[1] or '0', 16):04x}:{found[2]}:{found[3]}".lower()


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment. ECC counts since the driver was loaded; `_ever` over the GPU's life. Temperature in °C.
    `busy_percent`: of the last moment, some kernel was running."""

    index: int
    device: str
    lost: bool
    name: str = "GPU"
    uuid: str = ""
    serial: str = ""
    temperature_c: int | None = None
    busy_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_mw: int | None = None
    throttle: tuple[str, ...] | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected_ever: int | None = None
    rows_corrected: int | None = None
    rows_uncorrected: int | None = None
    row_remap_pending: int | None = None
    row_remap_failure: int | None = None
    recovery_action: int | None = None
    nvlink_errors: int | None = None
    pids: tuple[int, ...] = ()

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is wrong with it now, in words; empty when nothing is that could be asked."""
        found = ["lost: the driver cannot reach it"] if self.lost else []
        if self.recovery_action:
            found.append(f"the driver asks for: {recovery_words(self.recovery_action)}")
        found += ["row remapping failed: the GPU is to be replaced"] if self.row_remap_failure else []
        found += ["row remapping waits for a GPU reset"] if self.row_remap_pending else []
        found += [f"{self.ecc_uncorrected} uncorrected memory errors since the driver was loaded"] if self.ecc_uncorrected else []
        return (*found, *(f"slowed down: {word}" for word in self.throttle or ()))


def recovery_words(code: int) -> str:
    return RECOVERY_WORDS.get(code, f"recovery action {code}")


def read_sample(raw: Any) -> GpuSample | None:
    """One object of the helper's `gpus`; None for anything else. Wrong types count as unknown."""
    if not isinstance(raw, dict) or not isinstance(raw.get("index"), int):
        return None
    texts = {name: _text(raw.get(name)) for name in ("name", "uuid", "serial", "bus")}
    counts = {name: _count(raw.get(name)) for name in _COUNTS}
    throttle, pids = raw.get("throttle"), raw.get("pids")
    return GpuSample(
        index=raw["index"],
        device=normalise_pci(texts["bus"] or f"gpu {raw['index']}"),
        lost=raw.get("lost") is True,
        name=texts["name"] or "GPU",
        uuid=texts["uuid"],
        serial=texts["serial"],
        throttle=tuple(str(word)[:TEXT_CHARS] for word in throttle) if isinstance(throttle, list) else None,
        pids=tuple(pid for pid in pids if isinstance(pid, int)) if isinstance(pids, list) else (),
        **counts,
    )


def tell_values(gpu: GpuSample) -> dict[HardwareWhat, tuple[float, str]]:
    """Every known state and counter with its words, for comparison with what was told before."""
    out: dict[HardwareWhat, tuple[float, str]] = {"gpu_lost": (float(gpu.lost), "the driver cannot reach the GPU any more")}
    if gpu.recovery_action is not None:
        out["recovery_action"] = (gpu.recovery_action, f"the driver asks for: {recovery_words(gpu.recovery_action)}")
    if gpu.ecc_uncorrected is not None:
        out["ecc_uncorrected"] = (gpu.ecc_uncorrected, f"{gpu.ecc_uncorrected} uncorrected memory errors")
    if gpu.row_remap_pending is not None:
        out["row_remap_pending"] = (float(gpu.row_remap_pending > 0), "row remapping waits for a GPU reset")
    if gpu.row_remap_failure is not None:
        out["row_remap_failure"] = (float(gpu.row_remap_failure > 0), "row remapping failed: the GPU is to be replaced")
    if gpu.throttle is not None:
        at = "" if gpu.temperature_c is None else f" at {gpu.temperature_c} °C"
        out["throttle"] = (float(bool(gpu.throttle)), f"clocks are held down by {' and '.join(gpu.throttle) or 'nothing'}{at}")
    if gpu.nvlink_errors is not None:
        out["nvlink_errors"] = (gpu.nvlink_errors, f"{gpu.nvlink_errors} NVLink errors")
    return out


_COUNTS = (
    "temperature_c", "busy_percent", "memory_used_bytes", "memory_total_bytes", "power_mw", "ecc_uncorrected", "ecc_corrected",
    "ecc_uncorrected_ever", "rows_corrected", "rows_uncorrected",
    "row_remap_pending", "row_remap_failure", "recovery_action", "nvlink_errors",
)  # fmt: skip


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64 else None


def _text(value: Any) -> str:
    return value[:TEXT_CHARS] if isinstance(value, str) else ""
