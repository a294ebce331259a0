"""Everything about prepared data that can be wrong, read to the last byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from ..exits import DataError
from .inputs import Advance
from .megatron import check_index, open_megatron, read_index
from .shards import DTYPES, File, Manifest, check_sizes, read_manifest

BLOCK_BYTES = 1 << 22  # divides by every dtype's size


def verify_shards(folder: Path, advance: Advance) -> Manifest:
    """Sizes, digests, each token below the vocabulary; `advance` is called with bytes read. Raises DataError at the first
    mismatch."""
    manifest, _ = read_manifest(folder)
    check_sizes(folder, manifest)
    for file in manifest.files:
        _verify_file(folder / file.file, file, manifest, advance)
    return manifest


def verify_megatron(prefix: Path, vocab_size: int | None, advance: Advance) -> int:
    """The index, and each token where a vocabulary is given; the number of tokens. Raises DataError."""
    corpus = open_megatron(prefix, 2, vocab_size or 1)
    check_index(read_index(Path(f"{prefix}.idx")))
    for tokens in (corpus.train, corpus.held_out):
        for start in range(0, len(tokens), BLOCK_BYTES):
            block = tokens.cut(start, min(start + BLOCK_BYTES, len(tokens)))
            if vocab_size is not None:
                _check_tokens(Path(f"{prefix}.bin"), block, vocab_size)
            advance(block.nbytes)
    return len(corpus.train) + len(corpus.held_out)


def _verify_file(path: Path, file: File, manifest: Manifest, advance: Advance) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as opened:
        while block := opened.read(BLOCK_BYTES):
            digest.update(block)
            if file.tokens is not None:
                _check_tokens(path, np.frombuffer(block, DTYPES[manifest.dtype]), manifest.vocab_size)
            advance(len(block))
    if digest.hexdigest() != file.sha256:
        raise DataError(f"{path}: SHA-256 {digest.hexdigest()}, the manifest says {file.sha256}; copy it again, or prepare anew")


def _check_tokens(path: Path, block: np.ndarray, vocab_size: int) -> None:
    for extreme in (block.min(), block.max()):
        if not 0 <= extreme < vocab_size:
            raise DataError(f"{path}: token {extreme} is outside the vocabulary of {vocab_size}; copy it again, or prepare anew")
