"""A directory becomes a checkpoint: the order of `sentinel/client/checkpoint_files.py`, in this trainer's terms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sentinel.client import checkpoint_files
from sentinel.client.checkpoint_files import LeaseLost, hidden_name, make_aside

from ..exits import LeaseLostError

__all__ = ["commit", "hidden_name", "make_aside"]


def commit(here: Path, target: Path, manifest: dict[str, Any], may_commit: Callable[[], bool]) -> str:
    """Turn a finished directory into a checkpoint; the digest of its manifest. Raises LeaseLostError, OSError: nothing is then
    changed but the directory aside."""
    try:
        return checkpoint_files.commit(here, target, manifest, may_commit)
    except LeaseLost as error:
        raise LeaseLostError(str(error)) from None
