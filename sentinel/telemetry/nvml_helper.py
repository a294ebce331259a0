"""A program of its own that asks NVML about the GPUs of this machine: `python -m sentinel.telemetry.nvml_helper [ROUND_MS]`.

A call to the driver of a sick GPU may never return, so no other process of Sentinel makes one. It prints one JSON object a line
on standard output: `hello`, `xid` for each event, `sample` with every GPU every SAMPLE_EVERY rounds and after each event,
`round` otherwise, so that silence means that it is stuck; `absent` or `failed` with a reason before it leaves. A value the driver
does not give is null: unknown, never zero. It leaves when its standard input is closed, and an alarm ends it when a call does
not return and nobody is left to kill it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any

ROUND_MS = 1000
SAMPLE_EVERY = 10  # rounds
EVENTS_PER_ROUND = 100
PIDS_MAX = 64
ALARM_S = 90  # longer than the supervisor's patience, so that it is the one who says what happened

# Clocks event reasons that are the hardware's own and no policy of power (NVML: nvmlClocksEventReasons).
_HARDWARE_REASONS = {0x08: "hardware slowdown", 0x20: "software thermal slowdown", 0x40: "thermal slowdown", 0x80: "power brake"}
_NVLINK_TOTALS = ("CRC_FLIT", "REPLAY", "RECOVERY")


class _Lost(Exception):
    """The driver says that this GPU is gone."""


class NvmlGpus:
    """Every GPU the driver shows, asked through the module `pynvml`."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._handles: dict[int, Any] = {}
        self._known: dict[int, dict[str, Any]] = {}
        self._by_handle: dict[int | None, str] = {}
        for index in range(nvml.nvmlDeviceGetCount()):
            self._meet(index)

    def _meet(self, index: int) -> None:
        nvml = self._nvml
        self._known[index] = {"index": index, "bus": None, "uuid": None, "serial": None, "name": None}
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError:
            return
        self._handles[index] = handle
        try:
            pci = self._ask(nvml.nvmlDeviceGetPciInfo, handle)
            known = {"uuid": nvml.nvmlDeviceGetUUID, "serial": nvml.nvmlDeviceGetSerial, "name": nvml.nvmlDeviceGetName}
            self._known[index] |= {"bus": None if pci is None else _text(pci.busId)}
            self._known[index] |= {word: _text(self._ask(function, handle)) for word, function in known.items()}
        except _Lost:
            pass
        bus = self._known[index]["bus"]
        if bus is not None:
            self._by_handle[ctypes.cast(handle, ctypes.c_void_p).value] = bus

    def sample(self) -> list[dict[str, Any]]:
        """Every GPU as it stands now."""
        return [self._read(index) for index in self._known]

    def bus_of(self, handle: Any) -> str | None:
        return self._by_handle.get(ctypes.cast(handle, ctypes.c_void_p).value)

    def watch_events(self) -> Any:
        """An event set with what each GPU can tell at once; None when none can."""
        nvml, events, any_registered = self._nvml, None, False
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return None
        wanted = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
        wanted |= getattr(nvml, "nvmlEventTypeGpuRecoveryAction", 0)
        for handle in self._handles.values():
            try:
                supported = nvml.nvmlDeviceGetSupportedEventTypes(handle)
                nvml.nvmlDeviceRegisterEvents(handle, wanted & supported, events)
                any_registered = any_registered or bool(supported & nvml.nvmlEventTypeXidCriticalError)
            except nvml.NVMLError:
                continue
        return events if any_registered else None

    def _read(self, index: int) -> dict[str, Any]:
        known = self._known[index]
        if index not in self._handles:
            return known | {"lost": True}
        try:
            return known | {"lost": False} | self._counters(self._handles[index])
        except _Lost:
            return known | {"lost": True}

    def _counters(self, handle: Any) -> dict[str, Any]:
        nvml, ask = self._nvml, self._ask
        reasons_of = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        reasons = ask(reasons_of, handle)
        if reasons is None:
            reasons = ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        rows = ask(nvml.nvmlDeviceGetRemappedRows, handle) or (None, None, None, None)
        bad, mended = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
        now, ever = nvml.NVML_VOLATILE_ECC, nvml.NVML_AGGREGATE_ECC
        processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        return {
            "temperature_c": ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "busy_percent": getattr(ask(nvml.nvmlDeviceGetUtilizationRates, handle), "gpu", None),
            "memory_used_bytes": getattr(memory, "used", None), "memory_total_bytes": getattr(memory, "total", None),
            "power_mw": ask(nvml.nvmlDeviceGetPowerUsage, handle),
            "throttle": None if reasons is None else [word for bit, word in _HARDWARE_REASONS.items() if reasons & bit],
            "ecc_uncorrected": ask(nvml.nvmlDeviceGetTotalEccErrors, handle, bad, now),
            "ecc_corrected": ask(nvml.nvmlDeviceGetTotalEccErrors, handle, mended, now),
            "ecc_uncorrected_ever": ask(nvml.nvmlDeviceGetTotalEccErrors, handle, bad, ever),
            "rows_corrected": rows[0], "rows_uncorrected": rows[1],
            "row_remap_pending": rows[2], "row_remap_failure": rows[3],
            "recovery_action": self._field(handle, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"),
            "nvlink_errors": self._nvlink(handle),
            "pids": None if processes is None else [int(process.pid) for process in processes][:PIDS_MAX],
        }  # fmt: skip

    def _nvlink(self, handle: Any) -> int | None:
        counts = [self._field(handle, f"NVML_FI_DEV_NVLINK_{name}_ERROR_COUNT_TOTAL") for name in _NVLINK_TOTALS]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def _field(self, handle: Any, name: str) -> int | None:
        """One field value; None where this driver, this GPU or this version of the bindings has none."""
        number = getattr(self._nvml, name, None)
        if number is None:
            return None
        answers = self._ask(self._nvml.nvmlDeviceGetFieldValues, handle, [number])
        if answers is None or answers[0].nvmlReturn != self._nvml.NVML_SUCCESS:
            return None
        wide = answers[0].valueType in (self._nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, self._nvml.NVML_VALUE_TYPE_UNSIGNED_LONG)
        return int(answers[0].value.ullVal if wide else answers[0].value.uiVal)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        nvml = self._nvml
        try:
            return function(*arguments)
        except nvml.NVMLError_GpuIsLost:
            raise _Lost from None
        except nvml.NVMLError:
            return None


def watch(nvml: Any, round_ms: int) -> None:
    """Rounds until nobody listens any more. Raises NVMLError when the driver as a whole fails."""
    gpus = NvmlGpus(nvml)
    events = gpus.watch_events()
    _tell("hello", driver=_text(nvml.nvmlSystemGetDriverVersion()), events=events is not None)
    rounds = 0
    while True:
        signal.alarm(ALARM_S)
        is_due, pause_ms = rounds % SAMPLE_EVERY == 0, round_ms if events is None else 0
        for _ in range(EVENTS_PER_ROUND if events is not None else 0):
            try:
                event = nvml.nvmlEventSetWait_v2(events, 0 if is_due else round_ms)
            except nvml.NVMLError_Timeout:
                break
            except nvml.NVMLError_GpuIsLost:
                is_due, pause_ms, events = True, round_ms, gpus.watch_events()  # without the one that is gone
                break
            is_due = True
            if event.eventType == nvml.nvmlEventTypeXidCriticalError:
                _tell("xid", bus=gpus.bus_of(event.device), xid=int(event.eventData))
        if is_due:
            _tell("sample", gpus=gpus.sample())
        else:
            _tell("round")
        if select.select([0], [], [], pause_ms / 1000)[0]:
            return  # the supervisor is gone: nothing else is ever written there
        rounds += 1


def main(round_ms: int) -> int:
    signal.alarm(ALARM_S)
    try:
        import pynvml as nvml
    except ImportError:
        _tell("absent", reason="nvidia-ml-py is not installed: gpu faults cannot be seen (pip install nvidia-ml-py)")
        return 0
    try:
        nvml.nvmlInit()
        watch(nvml, round_ms)
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded) as error:
        _tell("absent", reason=f"no NVIDIA driver: gpu faults cannot be seen ({error})")
    except nvml.NVMLError as error:
        _tell("failed", reason=f"NVML: {error}")
        return 1
    return 0


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _tell(kind: str, **fields: Any) -> None:
    os.write(1, json.dumps({"kind": kind} | fields).encode() + b"\n")


if __name__ == "__main__":
    try:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUND_MS))
    except BrokenPipeError:
        sys.exit(0)
