"""`sentinel hardware`: what gpu_fault's sources see on this machine now, so that a person can check it before a run relies on it.

It asks in the same way a run does, through the helper process with its deadline; only the look for signs of a driver is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from sentinel.clock import Clock, SystemClock
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.telemetry.gpu_sample import GpuSample, recovery_words
from sentinel.telemetry.kernel_log import KernelLog
from sentinel.telemetry.nvml import SILENT_S, NvmlSource

EXIT_WELL, EXIT_SICK, EXIT_UNSEEN = 0, 1, 3
LOOK_EVERY_S = 0.02
SWITCHED_OFF = "switched off by policy"
_HEAD = ("gpu", "name", "°C", "ecc uncorrected", "ecc corrected", "rows remapped", "driver asks for", "state")


def look_at_hardware(policy: str) -> tuple[dict[str, Any], int]:
    """The document and the exit code: 0 GPUs are seen and well, 1 something is wrong with one, 3 none can be seen."""
    settings = load_policy(shipped_policy_path(policy)).spec.detectors.gpu_fault
    gpus: tuple[GpuSample, ...] = ()
    why_not = log_why_not = SWITCHED_OFF
    if settings.enabled and settings.nvml:
        with closing(NvmlSource(signs=())) as nvml:
            gpus, why_not = wait_for_gpus(nvml, SystemClock())
    if settings.enabled and settings.kernel_log != "off":
        with closing(KernelLog(settings.kernel_log)) as log:
            log.poll(0.0)
            log_why_not = log.why_not
    document = {
        "gpus": [asdict(gpu) | {"troubles": list(gpu.troubles)} for gpu in gpus],
        "nvml": {"ok": not why_not, "reason": why_not},
        "kernel_log": {"ok": not log_why_not, "reason": log_why_not, "path": settings.kernel_log},
    }
    return document, EXIT_UNSEEN if not gpus else EXIT_SICK if any(gpu.troubles for gpu in gpus) else EXIT_WELL


def wait_for_gpus(nvml: NvmlSource, clock: Clock) -> tuple[tuple[GpuSample, ...], str]:
    """The first sample, or why there is none; at most a little longer than the source's own patience."""
    never, started_s = threading.Event(), clock.now_s()
    last = ""
    while (now_s := clock.now_s()) - started_s <= SILENT_S + 1.0:
        readings = nvml.poll(now_s)
        if nvml.gpus or nvml.is_absent:
            return nvml.gpus, nvml.why_not
        last = nvml.why_not
        if readings:
            break  # it went blind, or sees that there is no GPU
        clock.wait(never, LOOK_EVERY_S)
    return (), last


def hardware_text(document: dict[str, Any]) -> str:
    """The same as a table for a terminal."""
    rows = [_HEAD, *(_row(gpu) for gpu in document["gpus"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    nvml, log = document["nvml"], document["kernel_log"]
    lines = lines if document["gpus"] else [f"gpus        none is seen: {nvml['reason']}"]
    lines.append(f"kernel log  {log['path']}: is read" if log["ok"] else f"kernel log  {log['reason']}")
    return "\n".join(lines)


def _row(gpu: dict[str, Any]) -> Sequence[str]:
    action = gpu["recovery_action"]
    return (
        gpu["device"], gpu["name"], _or_unknown(gpu["temperature_c"]), _or_unknown(gpu["ecc_uncorrected"]),
        _or_unknown(gpu["ecc_corrected"]), _or_unknown(gpu["rows_uncorrected"]),
        "unknown" if action is None else recovery_words(action), "; ".join(gpu["troubles"]) or "well, as far as it tells",
    )  # fmt: skip


def _or_unknown(value: object) -> str:
    return "unknown" if value is None else str(value)
