"""The GPUs of the supervisor's machine as it saw them last, a part of RUN_DIR/senses.json. For showing only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sentinel.client.strict_json import printable

GPUS_MAX = 64  # of one machine
TROUBLES_MAX = 16


class GpuSeen(Protocol):
    """One GPU at one moment; None where the driver does not tell. `troubles`: what is wrong with it, a clause each."""

    @property
    def index(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def lost(self) -> bool: ...
    @property
    def busy_percent(self) -> int | None: ...
    @property
    def memory_used_bytes(self) -> int | None: ...
    @property
    def memory_total_bytes(self) -> int | None: ...
    @property
    def temperature_c(self) -> int | None: ...
    @property
    def power_mw(self) -> int | None: ...
    @property
    def troubles(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class GpuStanding:
    """As `GpuSeen`, read back."""

    index: int
    name: str
    lost: bool
    busy_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    troubles: tuple[str, ...] = ()


def gpu_documents(gpus: Sequence[GpuSeen]) -> list[dict[str, Any]]:
    return [
        {
            "index": gpu.index,
            "name": gpu.name,
            "lost": gpu.lost,
            "busy_percent": gpu.busy_percent,
            "memory_used_bytes": gpu.memory_used_bytes,
            "memory_total_bytes": gpu.memory_total_bytes,
            "temperature_c": gpu.temperature_c,
            "power_mw": gpu.power_mw,
            "troubles": list(gpu.troubles[:TROUBLES_MAX]),
        }
        for gpu in gpus[:GPUS_MAX]
    ]


def read_gpus(raw: Any) -> tuple[GpuStanding, ...]:
    """Raises TypeError, KeyError, ValueError, AttributeError."""
    return tuple(
        GpuStanding(
            index=int(item["index"]),
            name=printable(str(item["name"])),
            lost=item["lost"] is True,
            busy_percent=_count(item["busy_percent"]),
            memory_used_bytes=_count(item["memory_used_bytes"]),
            memory_total_bytes=_count(item["memory_total_bytes"]),
            temperature_c=_count(item["temperature_c"]),
            power_mw=_count(item["power_mw"]),
            troubles=tuple(printable(str(word)) for word in item["troubles"][:TROUBLES_MAX]),
        )
        for item in raw[:GPUS_MAX]
    )


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
