"""Settings of gpu_fault: which sources are asked about the machine, and what they may call a fault."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from sentinel.policy.schema_fields import Flag, Model, Seconds, written


def _on_or_off(value: Any) -> Any:
    """`on` and `off` are words in YAML 1.2."""
    return {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value


OnOff = Annotated[Flag, BeforeValidator(_on_or_off), WithJsonSchema({"enum": ["on", "off", True, False]})]
LogPath = Annotated[str, Field(max_length=1000, pattern=r"^(off|/.+)$")]


class GpuFaultSettings(Model):
    """What the GPUs and the kernel say of sick hardware: gpu_fault, and hardware_warning for what only needs a person."""

    enabled: Flag = True
    """Whether this detector runs."""
    nvml: OnOff = True
    """Ask the NVIDIA driver, in a process of its own."""
    kernel_log: LogPath = "/dev/kmsg"
    """Where the kernel log is read: /dev/kmsg, a text file that grows, or off."""
    throttle_s: Seconds = written("5m", alias="throttle")
    """Clocks held down by heat or a power brake for so long are a warning."""
