"""The default corpus: the text of this machine's Python standard library as bytes. Nothing is downloaded, nothing tokenized.

Every twentieth file is held out for evaluation.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..exits import DataError
from .corpus import Corpus, Place
from .text import Bytes
from .tokens import Segment, Tokens

CORPUS_BYTES_MAX = 4_000_000  # ~30k sequences of 128: three epochs of the demonstration's 600 steps fit in one
HELD_OUT_EVERY = 20
HELD_OUT_PLACE = 7  # the eighth document of every twenty
LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3", "turtledemo"}


def is_held_out(number: int, every: int = HELD_OUT_EVERY) -> bool:
    """Whether a document is held out, by its place among all."""
    return number % every == HELD_OUT_PLACE % every


def library_root() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def library_files(root: Path, every: int = HELD_OUT_EVERY) -> Iterator[tuple[str, bytes, bool]]:
    """Path below the root, text, and whether it is held out; sorted, until CORPUS_BYTES_MAX to train on. Raises DataError."""
    left = CORPUS_BYTES_MAX
    for number, path in enumerate(_source_files(root)):
        if left <= 0:
            return
        try:
            text = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); the corpus is the .py files under {root}") from None
        apart = is_held_out(number, every)
        if not apart:
            text = text[:left]
            left -= len(text)
        yield path.relative_to(root).as_posix(), text, apart


def read_corpus(seq_len: int, root: Path | None = None) -> Corpus:
    """Read the standard library's sources into memory. Raises DataError."""
    root = library_root() if root is None else root
    parts = bytearray(), bytearray()
    starts: list[int] = []
    names: list[str] = []
    digest = hashlib.sha256()
    for name, text, apart in library_files(root):
        if not apart:
            starts.append(len(parts[0]))
            names.append(name)
        parts[apart].extend(text)
        digest.update(f"{name}\0{len(text)}\0".encode())
    for part in parts:
        digest.update(part)

    def place(token: int) -> Place:
        file = bisect_right(starts, token) - 1
        return names[file], token - starts[file]

    train, held_out = (Tokens([Segment(np.frombuffer(part, np.uint8))]) for part in parts)
    return Corpus(
        train=train,
        held_out=held_out,
        seq_len=seq_len,
        vocab_size=256,
        digest=digest.hexdigest(),
        text=Bytes(),
        place=place,
        origin=f"the .py files under {root}",
    )


def _source_files(root: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)
