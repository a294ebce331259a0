"""Turns PyTorch's flight recorder on: what each rank has in line for its collectives, dumped when they time out, or when asked.

Sentinel asks while a hang is only suspected, and blames the rank that the others wait for. The recorder keeps the newest
collectives in a ring of fixed size; it copies nothing from the device. It exists for NCCL alone.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.run_layout import flight_recorder_pipe_prefix, flight_recorder_prefix

ENTRIES = "2000"  # the value that PyTorch's own tutorial recommends


def turn_on(environ: MutableMapping[str, str], run_dir: Path, attempt: int) -> None:
    """Before the process group is made, which reads these variables. What is set already stays. Raises OSError where the folder
    of the dumps cannot be made."""
    prefix = flight_recorder_prefix(run_dir, attempt)
    ensure_directory(prefix.parent)
    wanted = {
        "TORCH_FR_BUFFER_SIZE": ENTRIES,
        "TORCH_NCCL_TRACE_BUFFER_SIZE": ENTRIES,  # the name before torch 2.9
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": str(prefix),
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(prefix),  # the name before torch 2.9
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(flight_recorder_pipe_prefix(run_dir, attempt)),
    }
    for name, value in wanted.items():
        environ.setdefault(name, value)
