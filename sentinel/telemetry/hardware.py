"""The machine under the run: NVML and the kernel log as one source, as the policy wants them. Belongs to no attempt."""

from __future__ import annotations

from pathlib import Path

from sentinel.detectors.gpu_fault import GpuFaultSettings
from sentinel.model.readings import Reading
from sentinel.telemetry.gpu_sample import GpuSample
from sentinel.telemetry.kernel_log import KernelLog
from sentinel.telemetry.nvml import NvmlSource


class Hardware:
    """A `Source` over those that are switched on. Close it: the helper process ends with it."""

    def __init__(self, nvml: NvmlSource | None, kernel_log: KernelLog | None) -> None:
        self.nvml = nvml
        self.kernel_log = kernel_log
        self._sources = tuple(source for source in (kernel_log, nvml) if source is not None)

    @property
    def has_more(self) -> bool:
        return any(source.has_more for source in self._sources)

    def poll(self, now_s: float) -> list[Reading]:
        """What is new: the kernel first, it knows causes."""
        return [reading for source in self._sources for reading in source.poll(now_s)]

    def gpus(self) -> tuple[tuple[GpuSample, ...], str]:
        """As last seen, and why none is."""
        return (self.nvml.gpus, self.nvml.why_not) if self.nvml is not None else ((), "switched off by policy")

    def close(self) -> None:
        for source in self._sources:
            source.close()


def open_hardware(settings: GpuFaultSettings, run_dir: Path | None = None) -> Hardware:
    """What the policy's `detectors.gpu_fault` asks for; nothing is opened before the first poll."""
    if not settings.enabled:
        return Hardware(None, None)
    kernel_log = None if settings.kernel_log == "off" else KernelLog(settings.kernel_log, run_dir)
    return Hardware(NvmlSource(run_dir) if settings.nvml else None, kernel_log)
