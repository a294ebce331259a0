"""Megatron-LM's indexed data set: PREFIX.bin holds the tokens of all documents, PREFIX.idx says where each begins.

The index, little-endian and packed (megatron/core/datasets/indexed_dataset.py): 9 bytes of magic, version (uint64, 1), code of
the dtype (uint8), count of sequences (uint64), count of documents and one (uint64); then the lengths of all sequences (int32)
and their first bytes in .bin (int64); then the first sequence of each document (int64), and the count of sequences at the end;
in a multimodal set one byte more for each sequence. A GPT's document is one sequence.

We read the documents as one run of tokens in the order they lie in. The last twentieth of the documents is held out, as
Megatron's own `--split 95,5` would do it.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..exits import DataError
from .corpus import Corpus, Place
from .text import Ids
from .tokens import Segment, Tokens, mapped

MAGIC, VERSION = b"MMIDIDX\x00\x00", 1
HEADER = struct.Struct("<9sQBQQ")
DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}  # 6 and 7 are floating point: no tokens
HELD_OUT_SHARE = 20
ANEW = "copy both files again, or make them anew with Megatron's tools/preprocess_data.py"


@dataclass(frozen=True)
class Index:
    """`lengths` in tokens and `pointers` in bytes of the sequences; `documents`: first sequence of each, then their count."""

    path: Path
    dtype: np.dtype
    lengths: np.ndarray
    pointers: np.ndarray
    documents: np.ndarray

    @property
    def tokens(self) -> int:
        return int(self.pointers[-1]) // self.dtype.itemsize + int(self.lengths[-1])

    def first_token(self, document: int) -> int:
        sequence = int(self.documents[document])
        return int(self.pointers[sequence]) // self.dtype.itemsize if sequence < len(self.pointers) else self.tokens

    def place_of(self, token: int) -> Place:
        sequence = bisect_right(self.pointers, token * self.dtype.itemsize) - 1
        document = bisect_right(self.documents, sequence, hi=len(self.documents) - 1) - 1
        return f"{self.path.stem} document {document}", token - self.first_token(document)


def prefix_of(path: str) -> Path:
    """With or without .bin and .idx."""
    return Path(path.removesuffix(".bin").removesuffix(".idx"))


def open_megatron(prefix: Path, seq_len: int, vocab_size: int) -> Corpus:
    """`vocab_size` is the model's: the files do not record theirs. Raises DataError."""
    index = read_index(Path(f"{prefix}.idx"))
    path = Path(f"{prefix}.bin")
    whole = mapped(path, index.dtype)
    if len(whole.array) != index.tokens:
        raise DataError(f"{path}: has {len(whole.array)} tokens of {index.dtype.name}, its .idx says {index.tokens}; {ANEW}")
    count = len(index.documents) - 1
    if count < 2:
        raise DataError(f"{prefix}.idx: {count} documents; the last twentieth is held out, so it takes two: {ANEW}")
    border = index.first_token(count - max(1, count // HELD_OUT_SHARE))
    parts = whole.part(0, border), whole.part(border, index.tokens)
    train, held_out = (Tokens([part]) for part in parts)
    with index.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return Corpus(
        train=train,
        held_out=held_out,
        seq_len=seq_len,
        vocab_size=vocab_size,
        digest=digest.hexdigest(),
        text=Ids(),
        place=index.place_of,
        origin=str(prefix),
    )


def read_index(path: Path) -> Index:
    """Mapped, and checked only where that is cheap. Raises DataError."""
    whole = mapped(path, np.dtype("u1"))
    size = len(whole.array)
    if size < HEADER.size:
        raise DataError(f"{path}: {size} bytes are too few for an index; {ANEW}")
    magic, version, code, sequences, bounds = HEADER.unpack(whole.array[: HEADER.size].tobytes())
    if magic != MAGIC:
        raise DataError(f"{path}: does not begin with {MAGIC!r} but with {magic!r}, so it is no index of Megatron's; {ANEW}")
    if version != VERSION:
        raise DataError(f"{path}: version {version}, this program reads {VERSION}; {ANEW}")
    if code not in DTYPES:
        raise DataError(f"{path}: dtype code {code} is none of {sorted(DTYPES)}, which hold tokens; {ANEW}")
    needed = HEADER.size + 12 * sequences + 8 * bounds
    if size not in (needed, needed + sequences):
        raise DataError(f"{path}: {size} bytes, {needed} would hold its {sequences} sequences and {bounds - 1} documents; {ANEW}")
    at = HEADER.size
    lengths = _array(whole, at, sequences, "<i4")
    pointers = _array(whole, at + 4 * sequences, sequences, "<i8")
    documents = _array(whole, at + 12 * sequences, bounds, "<i8")
    if not sequences:
        raise DataError(f"{path}: holds no documents; {ANEW}")
    if pointers[0] != 0 or bounds < 1 or documents[0] != 0 or documents[-1] != sequences:
        raise DataError(f"{path}: its documents do not cover its {sequences} sequences; {ANEW}")
    return Index(path=path, dtype=np.dtype(DTYPES[code]), lengths=lengths, pointers=pointers, documents=documents)


def check_index(index: Index) -> None:
    """That the sequences lie one behind the other and the documents' bounds rise; reads all of it. Raises DataError."""
    ends = index.pointers + index.lengths.astype(np.int64) * index.dtype.itemsize
    wrong = np.flatnonzero(ends[:-1] != index.pointers[1:])
    if len(wrong):
        raise DataError(f"{index.path}: sequence {int(wrong[0]) + 1} does not begin where the one before it ends; {ANEW}")
    if (index.lengths < 0).any() or (np.diff(index.documents) < 0).any():
        raise DataError(f"{index.path}: lengths or documents run backwards; {ANEW}")


def _array(whole: Segment, at: int, count: int, dtype: str) -> np.ndarray:
    """A view: the header's 34 bytes leave these unaligned, which numpy can read."""
    return whole.array[at : at + count * np.dtype(dtype).itemsize].view(dtype)
