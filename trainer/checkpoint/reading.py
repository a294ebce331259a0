"""The tensors of a checkpoint by torch.distributed.checkpoint, which is given no way to run what a file says.

torch itself reads tensors with `weights_only=True`. With everything allowed it unpickles `.metadata` (Reader reads it otherwise)
and entries that are no tensors (Planner loads none).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException, DefaultLoadPlanner, FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata

from ..exits import DataError
from .index import part_of, read_index
from .pickled import foreign_name, refusal, shown


def fill(state: dict[str, Any], reader: Reader, **how: Any) -> None:
    """Fill the tensors of `state` in place; `how` goes to dcp.load. Raises DataError, on every rank of its group."""
    try:
        dcp.load(state, storage_reader=reader, planner=Planner(), **how)
    except CheckpointException as error:
        rank, (first, _) = min(error.failures.items())
        if isinstance(first, DataError):
            raise DataError(str(first)) from None
        raise DataError(f"{reader.checkpoint}: rank {rank} could not load it ({type(first).__name__}: {first})") from None


class Reader(FileSystemReader):
    """Of one checkpoint. Its index is read here, once, however often it is loaded from. Raises DataError."""

    def __init__(self, checkpoint: Path) -> None:
        super().__init__(checkpoint)
        self.checkpoint = checkpoint
        self.index = read_index(checkpoint)

    def read_metadata(self) -> Metadata:
        """Takes no rank: so torch never looks for the index of a single rank, which nothing here has read."""
        return self.index

    def read_data(self, plan: Any, planner: Any) -> Any:
        try:
            return super().read_data(plan, planner)
        except Exception:
            if (why := self._refused(plan)) is not None:
                raise DataError(why) from None
            raise

    def _refused(self, plan: Any) -> str | None:
        """Which file holds what torch refuses to load as a tensor, and what it names. torch tells neither, and advises to load it
        with everything allowed."""
        for item in plan.items:
            place = self.storage_data.get(item.storage_index)
            if place is None:
                continue
            try:
                data = part_of(self.checkpoint, place)
            except OSError:
                continue
            try:
                torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            except Exception as error:  # noqa: BLE001  # the answer is a sentence
                if (name := foreign_name(data)) is not None:
                    return refusal(self.checkpoint, place.relative_path, name)
                return (
                    f"{self.checkpoint}: {place.relative_path}: torch refuses to load {shown(item.storage_index.fqn)} as a "
                    f"tensor ({type(error).__name__}). Continue from another checkpoint"
                )
        return None


class Planner(DefaultLoadPlanner):
    """Loads tensors. The index has no other entries (`read_index`); torch's own planner would unpickle one."""

    def load_bytes(self, read_item: Any, value: io.BytesIO) -> None:  # noqa: ARG002
        name = shown(read_item.storage_index.fqn)
        raise DataError(f"{name} is a Python object in the checkpoint, and this trainer loads tensors alone")
