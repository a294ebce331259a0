"""Whether this attempt computes again, to the bit, what those before it computed: the receipt claims it (`deterministic`), and a
supervisor who repeats a stretch calls a difference hardware where it is claimed.

Another number of ranks adds up in another order, and other kernels round otherwise: a relaunch on a machine without a compiler is
no broken one. What can be repeated begins at the checkpoint, so the attempts since the one that wrote it count, and no older.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sentinel.client import loads
from sentinel.client.run_layout import stream_path

BEFORE_KERNELS = "torch"  # what ran where a receipt or a manifest names none
RECEIPT_BYTES = 1 << 22


def repeats(run_dir: Path, attempts: Iterable[int], world_size: int, kernels: str) -> bool:
    """Did all of these attempts that trained at all train on so many ranks, with kernels of this name?"""
    receipts = (_receipt(stream_path(run_dir, attempt)) for attempt in attempts)
    return all((told.get("world_size"), _kernels(told)) == (world_size, kernels) for told in receipts if told is not None)


def _receipt(stream: Path) -> dict[str, Any] | None:
    """The first line of a stream. None where there is none: nothing that could be compared follows."""
    try:
        with stream.open("rb") as file:
            line = loads(file.readline(RECEIPT_BYTES))
    except (OSError, ValueError):
        return None
    return line if isinstance(line, dict) and line.get("kind") == "start" else None


def _kernels(receipt: dict[str, Any]) -> Any:
    told = receipt.get("kernels")
    return told.get("name") if isinstance(told, dict) else BEFORE_KERNELS
