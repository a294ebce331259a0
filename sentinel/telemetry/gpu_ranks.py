"""Which rank trains on which GPU, as far as this machine can tell.

Certain: NVML lists the processes of a GPU, and a process of this run says its RANK in its environment. That fails where the
processes live in another pid namespace (a container) and before they have opened the GPU. Then the place counts: the i-th GPU
that CUDA_VISIBLE_DEVICES leaves visible is that of LOCAL_RANK i, as `torch.cuda.set_device(LOCAL_RANK)` makes it; NVML and CUDA
count alike (by PCI address) where all GPUs are of one model. Whether a local rank is the rank is for the reader to judge.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sentinel.launcher.process_tree import is_marked, read_environment
from sentinel.run_files.attempt_files import RUN_DIR_VARIABLE
from sentinel.telemetry.gpu_sample import GpuSample


def rank_of_process(pid: int, run_dir: str) -> int | None:
    """The rank of a living process of this run; None for any other process."""
    if not is_marked(pid, {RUN_DIR_VARIABLE: run_dir}):
        return None
    for entry in read_environment(pid):
        name, _, value = entry.partition(b"=")
        if name == b"RANK" and value.isdigit() and len(value) < 8:
            return int(value)
    return None


def visible_devices(gpus: Sequence[GpuSample], setting: str | None) -> tuple[str, ...] | None:
    """The devices CUDA_VISIBLE_DEVICES names, in its order, all of them without it; None where it cannot be understood (MIG).

    CUDA stops at the first entry that names no GPU.
    """
    if setting is None:
        return tuple(gpu.device for gpu in sorted(gpus, key=lambda gpu: gpu.index))
    found: list[str] = []
    for word in (word.strip() for word in setting.split(",")):
        if word.startswith("MIG"):
            return None
        named = [gpu for gpu in gpus if (word.isdigit() and gpu.index == int(word[:9])) or _is_uuid_of(word, gpu)]
        if len(named) != 1 or named[0].device in found:
            break
        found.append(named[0].device)
    return tuple(found)


def _is_uuid_of(word: str, gpu: GpuSample) -> bool:
    return word.startswith("GPU-") and len(word) > 4 and gpu.uuid.startswith(word)


def visible_setting() -> str | None:
    """The trainer inherits the supervisor's environment, unless its command changes it."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")
