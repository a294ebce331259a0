"""The bytes of a checkpoint: every rank writes its shards and random streams, rank 0 commits. And reads them back.

What fails on one rank fails on all, with the same error: each stage ends in an exchange of what came of it. (torch's own stages
do so too.) Everything here is collective over `world.storage`; one thread of each rank calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException, FileSystemWriter

from sentinel.client import write_atomically
from sentinel.client.checkpoint_files import describe_file
from sentinel.client.file_digest import TREE

from ..exits import SaveError, TrainerError
from ..world import World
from .committing import commit, make_aside
from .reading import Reader, fill
from .verifying import Verified, name_of

Streams = dict[str, torch.Tensor]
T = TypeVar("T")


def write(
    root: Path,
    step: int,
    world: World,
    state: dict[str, Any],
    streams: Streams,
    details: dict[str, Any],
    may_commit: Callable[[], bool],
    algorithm: str = TREE,
) -> str:
    """Write and commit `checkpoints/step-N` under `root`; every rank calls it, every rank gets the digest of its manifest.

    `details` goes into the manifest; `algorithm`: of its digests. Raises SaveError, or LeaseLostError instead of committing when
    `may_commit` is false on rank 0; older checkpoints are then as they were.
    """
    target = root / "checkpoints" / name_of(step)
    try:
        here = _on_all_ranks(world, lambda: make_aside(target.parent, step) if world.rank == 0 else None)[0]
        assert here is not None
        dcp.save(state, storage_writer=FileSystemWriter(here, sync_files=True), process_group=world.storage)
        entries = _on_all_ranks(world, lambda: _write_own(here, world.rank, streams, algorithm))

        def finish() -> str:
            files = {name: entry for part in entries for name, entry in sorted(part.items())}
            return commit(here, target, {"v": 1, "step": step, **details, "files": files}, may_commit)

        digest = _on_all_ranks(world, lambda: finish() if world.rank == 0 else None)[0]
        assert digest is not None
        return digest
    except CheckpointException as error:
        rank, (first, _) = min(error.failures.items())
        raise SaveError(_failure_message(target, rank, first)) from error


def load(found: Verified, world: World, state: dict[str, Any]) -> None:
    """Fill `state` in place, each rank its shards, and restore this rank's random streams. The number of ranks may differ. Raises
    DataError, on every rank, for files that are there and still cannot be loaded: one of them holds what is no tensor, or the
    manifest does not list them all."""
    readers: list[Reader] = []

    def read_index() -> None:
        readers.append(Reader(found.path))

    _on_all_ranks(world, read_index)  # before torch's own stages, which bury the reason in a traceback
    fill(state, readers[0], process_group=world.storage)
    if found.manifest.get("world_size") != world.size:
        return  # there is no stream to continue
    for kind in rng_streams(world):
        path = found.path / _rng_name(kind, world.rank)
        if path.name in found.manifest["files"]:
            stream = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
            torch.set_rng_state(stream) if kind == "cpu" else torch.cuda.set_rng_state(stream)


def rng_streams(world: World) -> Streams:
    """The states of torch's generators now, by kind."""
    streams = {"cpu": torch.get_rng_state()}
    return streams | {"cuda": torch.cuda.get_rng_state()} if world.device.type == "cuda" else streams


def _on_all_ranks(world: World, act: Callable[[], T]) -> list[T]:
    """What `act` gave on each rank, by rank. Where it failed on one, every rank raises: the trainer's own errors as they are,
    OSError within a CheckpointException as torch's own stages do."""
    outcome: Any
    try:
        outcome = act()
    except (OSError, TrainerError) as error:
        outcome = error
    outcomes: list[Any] = [None] * world.size
    dist.all_gather_object(outcomes, outcome, group=world.storage)
    failures = {rank: outcome for rank, outcome in enumerate(outcomes) if isinstance(outcome, Exception)}
    for failure in failures.values():
        if isinstance(failure, TrainerError):
            raise failure
    if failures:
        raise CheckpointException("", {rank: (failure, None) for rank, failure in failures.items()})
    return outcomes


def _failure_message(target: Path, rank: int, error: BaseException) -> str:
    return (
        f"{target}: rank {rank} could not write it ({type(error).__name__}: {error}); "
        "older checkpoints are untouched. Make room, or mend what is in the way, and resume"
    )


def _write_own(here: Path, rank: int, streams: Streams, algorithm: str) -> dict[str, dict[str, Any]]:
    """Write the random streams, and read back everything this rank answers for: file → size and digest.

    Read back, not hashed on the way out: what is promised is what the filesystem gives. It is done behind training, and the
    reading is a tenth to a sixth of what the digest takes (measured from the page cache, on two cores).
    """
    for kind, stream in streams.items():
        write_atomically(here / _rng_name(kind, rank), stream.numpy().tobytes())
    files = _own_files(here, rank, streams)
    return {path.name: describe_file(path, algorithm) for path in files}


def _rng_name(kind: str, rank: int) -> str:
    return f"rng-{kind}-{rank:05d}.bin"


def _own_files(folder: Path, rank: int, kinds: Iterable[str]) -> list[Path]:
    """What this rank answers for: its shards and streams; rank 0 also the index. Other ranks may still be writing theirs."""
    own = sorted(folder.glob(f"__{rank}_*.distcp")) + [folder / _rng_name(kind, rank) for kind in kinds]
    return [*own, folder / ".metadata"] if rank == 0 else own
