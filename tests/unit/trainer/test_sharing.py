"""All ranks read a checkpoint together: shares are whole and even, and rank 0 names what does not match."""

from __future__ import annotations

import hashlib
import queue
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentinel.client.checkpoint_files import describe_files
from sentinel.client.file_digest import RANGE_BYTES, SHA256, TREE
from trainer.checkpoint import sharing
from trainer.checkpoint.sharing import Piece, assist, deal, dismiss, pieces_of, read_together
from trainer.checkpoint.verifying import Verified
from trainer.exits import DataError

NAMES = ("a", "b", "c")
DEADLINE_S = 20.0


@pytest.fixture
def found(tmp_path: Path) -> Verified:
    """Three files: a tree of three ranges, a plain digest, an empty tree."""
    for name, size in zip(NAMES, (2 * RANGE_BYTES + 7, 1000, 0), strict=True):
        (tmp_path / name).write_bytes(name.encode() * size)
    files = describe_files(tmp_path, ["a", "c"], TREE) | describe_files(tmp_path, ["b"], SHA256)
    return Verified(tmp_path, 8, "d", {"files": files})


class Meeting:
    """Two ranks that are threads, in the place of torch.distributed."""

    def __init__(self) -> None:
        self.said: queue.Queue[Any] = queue.Queue()
        self.read: queue.Queue[Any] = queue.Queue()

    def broadcast_object_list(self, box: list[Any], src: int, group: int) -> None:
        if group == src:
            self.said.put(box[0])
        else:
            box[0] = self.said.get(timeout=DEADLINE_S)

    def gather_object(self, own: Any, gathered: list[Any] | None, dst: int, group: int) -> None:
        if group != dst:
            self.read.put(own)
            return
        assert gathered is not None
        gathered[:] = [own, self.read.get(timeout=DEADLINE_S)]


@pytest.fixture
def ranks(world: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(sharing, "dist", Meeting())
    return [replace(world, rank=rank, size=2, storage=rank) for rank in (0, 1)]


def both(ranks: list[Any], found: Verified) -> None:
    other = threading.Thread(target=assist, args=(ranks[1],), daemon=True)
    other.start()
    try:
        read_together(found, ranks[0])
    finally:
        dismiss(ranks[0])
        other.join(DEADLINE_S)
    assert not other.is_alive()


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_every_piece_is_dealt_once_and_the_shares_are_even(ranks: int) -> None:
    pieces = [Piece(name, number, size, TREE) for name in "abcd" for number, size in enumerate((16, 16, 16, 5))]
    shares = deal(pieces, ranks)
    assert [piece for share in shares for piece in share] == pieces
    sizes = [sum(piece.size for piece in share) for share in shares]
    assert max(sizes) - min(sizes) <= 2 * 16


def test_a_tree_is_many_pieces_and_a_plain_digest_one(found: Verified) -> None:
    assert [(piece.name, piece.number, piece.size) for piece in pieces_of(found)] == [
        ("a", 0, RANGE_BYTES), ("a", 1, RANGE_BYTES), ("a", 2, 7), ("b", 0, 1000),
    ]  # fmt: skip


def test_two_ranks_read_what_holds(found: Verified, ranks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    read, plain = [], sharing.read_pieces
    monkeypatch.setattr(sharing, "read_pieces", lambda path, share: read.append(len(share)) or plain(path, share))
    both(ranks, found)
    assert sorted(read) == [1, 3], "half of the bytes each"


@pytest.mark.parametrize(("name", "at"), [("a", 3), ("a", 2 * RANGE_BYTES + 1), ("b", 500)])
def test_a_flipped_bit_is_found_by_whoever_reads_it(found: Verified, ranks: list[Any], name: str, at: int) -> None:
    with open(found.path / name, "r+b") as file:
        file.seek(at)
        file.write(b"!")
    with pytest.raises(DataError, match=f"{name} does not match its digest"):
        both(ranks, found)


def test_what_another_rank_cannot_read_is_told_with_the_reason(found: Verified, ranks: list[Any]) -> None:
    (found.path / "b").unlink()
    with pytest.raises(DataError, match=r"b cannot be read \(No such file or directory\)"):
        both(ranks, found)


def test_one_rank_reads_alone(found: Verified, world: Any) -> None:
    read_together(found, world)
    dismiss(world)
    entry = found.manifest["files"]["c"]
    assert entry == {"bytes": 0, TREE: hashlib.sha256().hexdigest()}
