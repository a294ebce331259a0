"""All ranks read one checkpoint for its digests together, each a share of its bytes: nodes read at the same time.

The shares are consecutive in the order of the names, so a rank reads about what it wrote and will load. Rank 0 asks and judges;
the others `assist` until it is done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist

from sentinel.client.file_digest import RANGE_BYTES, TREE, count_ranges, digest_of, listed_digest, tree_of
from sentinel.client.regular_file import regular

from ..exits import DataError
from ..world import World
from .verifying import Verified, mismatch, read_alone, unreadable


class Piece(NamedTuple):
    """A range of a file; the whole file where its digest is no tree."""

    name: str
    number: int
    size: int
    algorithm: str


def read_together(found: Verified, world: World) -> None:
    """On rank 0: compare every file with its digest. Raises DataError naming the first that does not match."""
    if world.size == 1:
        read_alone(found)
        return
    pieces = pieces_of(found)
    judge(found, pieces, _share_out(world, (found.path, pieces)))


def dismiss(world: World) -> None:
    """On rank 0: nothing more is to be read. The other ranks' `assist` returns."""
    if world.size > 1:
        _send(world, None)


def assist(world: World) -> None:
    """On every other rank, until rank 0 is done."""
    while (asked := _send(world, None)) is not None:
        path, pieces = asked
        own = read_pieces(path, deal(pieces, world.size)[world.rank])
        dist.gather_object(own, None, dst=0, group=world.storage)


def pieces_of(found: Verified) -> list[Piece]:
    """In the order of the names, and of the ranges in a file."""
    pieces: list[Piece] = []
    for name, entry in sorted(found.manifest["files"].items()):
        listed, size = listed_digest(entry), int(entry["bytes"])
        assert listed is not None, "read_manifest has looked"
        if listed.algorithm != TREE:
            pieces.append(Piece(name, 0, size, listed.algorithm))
            continue
        lengths = (min(RANGE_BYTES, size - number * RANGE_BYTES) for number in range(count_ranges(size)))
        pieces += [Piece(name, number, length, TREE) for number, length in enumerate(lengths)]
    return pieces


def deal(pieces: Sequence[Piece], ranks: int) -> list[list[Piece]]:
    """By rank: consecutive ones, of about as many bytes each."""
    shares: list[list[Piece]] = [[] for _ in range(ranks)]
    whole, before = max(sum(piece.size for piece in pieces), 1), 0
    for piece in pieces:
        shares[min((before + piece.size // 2) * ranks // whole, ranks - 1)].append(piece)
        before += piece.size
    return shares


def read_pieces(path: Path, pieces: Sequence[Piece]) -> list[bytes | str]:
    """The digest of each, or why it cannot be read. Never raises: a rank that left would keep all others waiting."""
    return [_read(path, piece) for piece in pieces]


def _read(path: Path, piece: Piece) -> bytes | str:
    try:
        if piece.algorithm != TREE:
            return bytes.fromhex(digest_of(path / piece.name, piece.algorithm))
        with open(path / piece.name, "rb", opener=regular) as file:
            file.seek(piece.number * RANGE_BYTES)
            return hashlib.sha256(file.read(piece.size)).digest()
    except OSError as error:
        return str(error.strerror)


def judge(found: Verified, pieces: Sequence[Piece], read: Sequence[bytes | str]) -> None:
    """Raises DataError naming the first file whose digest is another, or that a rank cannot read."""
    by_name: dict[str, list[bytes]] = {name: [] for name in found.manifest["files"]}
    for piece, digest in zip(pieces, read, strict=True):
        if isinstance(digest, str):
            raise DataError(unreadable(found, piece.name, digest))
        by_name[piece.name].append(digest)
    for name, entry in found.manifest["files"].items():
        listed = listed_digest(entry)
        assert listed is not None
        digests = by_name[name]
        if (tree_of(digests) if listed.algorithm == TREE else digests[0].hex()) != listed.hex:
            raise DataError(mismatch(found, name))


def _share_out(world: World, order: tuple[Path, list[Piece]]) -> list[bytes | str]:
    path, pieces = order
    _send(world, order)
    gathered: list[Any] = [None] * world.size
    own = read_pieces(path, deal(pieces, world.size)[world.rank])
    dist.gather_object(own, gathered, dst=0, group=world.storage)
    return [digest for share in gathered for digest in share]


def _send(world: World, order: Any) -> Any:
    """What rank 0 sends is what every rank gets."""
    box = [order]
    dist.broadcast_object_list(box, src=0, group=world.storage)
    return box[0]
