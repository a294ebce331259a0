"""The corpus: the text of this machine's Python standard library as bytes, and the batches cut from it.

Nothing is downloaded and nothing is tokenized. Every twentieth file is held out for evaluation.
"""

from __future__ import annotations

import os
import sysconfig
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import torch

from trainer.exits import DataError
from trainer.order import Position, mix, permuted

CORPUS_BYTES_MAX = 4_000_000  # ~30k sequences of 128: three epochs of the demonstration's 600 steps fit in one
HELD_OUT_EVERY = 20
LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3", "turtledemo"}

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets, int64, (sequences of this rank, seq_len)


@dataclass(frozen=True)
class Corpus:
    """`train` and `held_out` are 1-D uint8 tensors; sequence i is the `seq_len` bytes from i·seq_len and the byte after them.
    `files`: where in `train` each source file begins, and its path below the corpus' root."""

    train: torch.Tensor
    held_out: torch.Tensor
    seq_len: int
    files: tuple[tuple[int, str], ...] = ()

    @property
    def size(self) -> int:
        """Sequences in one epoch."""
        return (len(self.train) - 1) // self.seq_len

    def sequence(self, number: int) -> torch.Tensor:
        """uint8, (seq_len + 1,)."""
        return self.train[number * self.seq_len : (number + 1) * self.seq_len + 1]

    def place_of(self, number: int) -> tuple[str, int]:
        """File and byte offset where a sequence begins; it may go on into the file after it."""
        first = number * self.seq_len
        start, name = self.files[bisect_right(self.files, first, key=lambda file: file[0]) - 1]
        return name, first - start


def read_corpus(seq_len: int, root: Path | None = None) -> Corpus:
    """Read the standard library's sources in sorted order, up to CORPUS_BYTES_MAX. Raises DataError."""
    root = Path(sysconfig.get_path("stdlib")) if root is None else root
    train, held_out = bytearray(), bytearray()
    files: list[tuple[int, str]] = []
    for number, path in enumerate(_source_files(root)):
        if len(train) >= CORPUS_BYTES_MAX:
            break
        is_held_out = number % HELD_OUT_EVERY == 7
        if not is_held_out:
            files.append((len(train), path.relative_to(root).as_posix()))
        try:
            (held_out if is_held_out else train).extend(path.read_bytes())
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); the corpus is the .py files under {root}") from None
    if min(len(train), len(held_out)) <= seq_len:
        raise DataError(f"{root}: only {len(train)} bytes of .py text; data.seq_len {seq_len} needs more of them")
    return Corpus(_as_tensor(train[:CORPUS_BYTES_MAX]), _as_tensor(held_out), seq_len, tuple(files))


class Loader:
    """Cuts this rank's share of a step's sequences, poisoned ones replaced."""

    def __init__(
        self, corpus: Corpus, original: Position, poisoned: list[tuple[int, int, float]], device: torch.device | None
    ) -> None:
        """`poisoned`: (first, behind, share of the bytes) per fault."""
        self.corpus = corpus
        self.device = device
        # A fault names indices of the original order; what it spoils is the sequences, in whatever order they come later.
        self._poisoned: dict[int, float] = {}
        for start, end, share in poisoned:
            for index in range(start, min(end, start + 2 * corpus.size)):  # two epochs hold every sequence
                self._poisoned[original.sequence_of(index, corpus.size)] = share

    def batch(self, indices: tuple[int, ...], position: Position, rank: int, world_size: int) -> Batch:
        """This rank's share of a step's sample indices, which must divide by the number of ranks."""
        share = len(indices) // world_size
        mine = indices[rank * share : (rank + 1) * share]
        return self._cut([self._training_sequence(position.sequence_of(index, self.corpus.size)) for index in mine])

    def sample(self, index: int, position: Position) -> Batch:
        """One sample as it is trained on, poison and all: a batch of one."""
        return self._cut([self._training_sequence(position.sequence_of(index, self.corpus.size))])

    def text_of(self, index: int, position: Position) -> tuple[bytes, bool]:
        """The bytes a sample is trained on, and whether a fault has replaced some of them."""
        number = position.sequence_of(index, self.corpus.size)
        return bytes(self._training_sequence(number).tolist()), number in self._poisoned

    def evaluation_batch(self, number: int, count: int, rank: int, world_size: int) -> Batch:
        """This rank's share of a held-out batch: always the same sequences, spread over the whole held-out text."""
        length, text = self.corpus.seq_len, self.corpus.held_out
        total = (len(text) - 1) // length
        share = count // world_size
        places = [permuted((number * count + rank * share + i) % total, total, 0, 0) * length for i in range(share)]
        return self._cut([text[place : place + length + 1] for place in places])

    def _training_sequence(self, number: int) -> torch.Tensor:
        clean = self.corpus.sequence(number)
        share = self._poisoned.get(number)
        if share is None:
            return clean
        generator = torch.Generator().manual_seed(mix(number) >> 1)
        noise = torch.randint(0, 256, clean.shape, dtype=torch.uint8, generator=generator)
        return noise if share >= 1.0 else torch.where(torch.rand(clean.shape, generator=generator) < share, noise, clean)

    def _cut(self, sequences: list[torch.Tensor]) -> Batch:
        block = torch.stack(sequences).to(self.device, torch.int64, non_blocking=True)
        return block[:, :-1], block[:, 1:]


def _source_files(root: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


def _as_tensor(text: bytearray) -> torch.Tensor:
    return torch.frombuffer(text, dtype=torch.uint8)
