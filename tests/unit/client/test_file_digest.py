"""Digests of files: the tree is what PROTOCOL.md says, however the bytes come; the best of what an entry names is taken."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from sentinel.client import file_digest
from sentinel.client.checkpoint_files import describe_files
from sentinel.client.file_digest import (
    SHA256,
    TREE,
    FileDigest,
    TreeHasher,
    best_of,
    count_ranges,
    digest_of,
    listed_digest,
    tree_of,
)

SMALL = 64


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_digest, "RANGE_BYTES", SMALL)


def by_hand(data: bytes) -> str:
    ranges = [hashlib.sha256(data[at : at + SMALL]).digest() for at in range(0, len(data), SMALL)]
    return hashlib.sha256(b"".join(ranges)).hexdigest()


@pytest.mark.parametrize("size", [0, 1, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL, 1000])
def test_the_tree_is_the_digest_of_the_ranges_digests(small: None, tmp_path: Path, size: int) -> None:
    dice = random.Random(size)
    data = dice.randbytes(size)
    hasher, rest = TreeHasher(), data
    while rest:
        length = dice.randrange(1, 100)
        hasher.update(rest[:length])
        rest = rest[length:]
    assert hasher.hexdigest() == hasher.hexdigest() == by_hand(data)
    (tmp_path / "a").write_bytes(data)
    assert digest_of(tmp_path / "a", TREE) == by_hand(data)
    assert digest_of(tmp_path / "a") == hashlib.sha256(data).hexdigest()
    ranges = [hashlib.sha256(data[at * SMALL : (at + 1) * SMALL]).digest() for at in range(count_ranges(size))]
    assert tree_of(ranges) == by_hand(data)


def test_the_best_known_one_of_an_entry_is_taken() -> None:
    assert listed_digest({"sha256": "AB"}) == FileDigest(SHA256, "ab")
    assert listed_digest({"sha256": "ab", "sha256_tree": "CD"}) == FileDigest(TREE, "cd")
    assert listed_digest({"blake3": "ab"}) is None
    assert listed_digest({"sha256": 7}) is None


def test_a_reader_who_says_nothing_gets_the_oldest() -> None:
    assert best_of(("sha256", "sha256_tree")) == TREE
    assert best_of(("sha256", "later")) == SHA256
    assert best_of(()) == SHA256


def test_files_are_described_by_the_algorithm_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"hello")
    once = hashlib.sha256(b"hello")
    assert describe_files(tmp_path, ["a"]) == {"a": {"bytes": 5, "sha256": once.hexdigest()}}
    assert describe_files(tmp_path, ["a"], TREE) == {"a": {"bytes": 5, "sha256_tree": hashlib.sha256(once.digest()).hexdigest()}}
