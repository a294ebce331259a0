"""Settings of gpu_fault: which sources are asked about the machine, and what they may call a fault."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from sentinel.policy.quantities import Malformed, show
from sentinel.policy.schema_fields import Flag, Model, Seconds, written


def _on_or_off(value: Any) -> Any:
    """`on` and `off` are words in YAML 1.2."""
    if isinstance(value, bool):
        return value
    if value not in ("on", "off"):
        raise Malformed(f"{show(value)} is neither on nor off", "write on or off")
    return value == "on"


def _path_or_off(value: Any) -> Any:
    if value != "off" and not (isinstance(value, str) and value.startswith("/")):
        remedy = "write /dev/kmsg, the whole path of a text file such as /var/log/kern.log, or off"
        raise Malformed(f"{show(value)} is not where a kernel log can be read", remedy)
    return value


OnOff = Annotated[Flag, BeforeValidator(_on_or_off), WithJsonSchema({"enum": ["on", "off", True, False]})]
LogPath = Annotated[str, BeforeValidator(_path_or_off), Field(max_length=1000)]


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
