"""Batches: this rank's share of a step's sequences, on its device. No random number is drawn from anybody's generator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from ..data_order import Order, Position, permuted
from ..exits import DataError
from .corpus import Corpus

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets, int64, (sequences of this rank, seq_len)


class Loader:
    """Cuts this rank's share of a step's sequences.

    Every batch is checked on the host, where it is in the cache anyway: a token without an embedding is a DataError here, and
    would be an assertion without a name on a GPU.
    """

    def __init__(self, corpus: Corpus, device: torch.device | None) -> None:
        self.corpus = corpus
        self.device = device
        self._looked_up: tuple[tuple[int, ...], tuple[Order, ...], list[int]] = (), (), []

    def batch(
        self, indices: tuple[int, ...], position: Position, rank: int, world_size: int, seq_len: int | None = None
    ) -> Batch:
        """This rank's share of a step's sample indices, which must divide by the number of ranks.

        With `seq_len` only so many tokens from the beginning of each sequence (a sequence-length curriculum, Li et al. 2021).
        """
        return self._cut(self._numbers(_share(indices, rank, world_size), position), seq_len)

    def prefetch(self, indices: tuple[int, ...], position: Position, rank: int, world_size: int) -> None:
        """Look up a later batch, and let the disk begin to read it. Only a hint: the next batch may be another one.

        The kernel reads ahead by itself, so no thread holds tokens that an override would have to take away again.
        """
        share = _share(indices, rank, world_size)
        self._looked_up = share, position.orders, self._numbers(share, position)
        for number in self._looked_up[2]:
            self.corpus.train.prefetch(*self.corpus.span(number))

    def sample(self, index: int, position: Position) -> Batch:
        """One sample as it is trained on: a batch of one."""
        return self._cut([position.sequence_of(index, self.corpus.size)])

    def text_of(self, index: int, position: Position) -> bytes:
        """The text that a sample is trained on."""
        return self.corpus.text.decode(self._training_sequence(position.sequence_of(index, self.corpus.size)))

    def evaluation_batch(self, number: int, count: int, rank: int, world_size: int) -> Batch:
        """This rank's share of a held-out batch: always the same sequences, spread over the whole held-out text."""
        total = self.corpus.held_out_size
        share = count // world_size
        numbers = [permuted((number * count + rank * share + i) % total, total, 0, 0) for i in range(share)]
        return self._on_device(self._checked([self.corpus.held_out_sequence(number) for number in numbers], None))

    def _numbers(self, indices: tuple[int, ...], position: Position) -> list[int]:
        """The corpus' sequences behind sample indices."""
        known, orders, numbers = self._looked_up
        if known == indices and orders == position.orders:
            return numbers
        return [position.sequence_of(index, self.corpus.size) for index in indices]

    def _cut(self, numbers: Sequence[int], seq_len: int | None = None) -> Batch:
        length = self.corpus.seq_len if seq_len is None else seq_len
        return self._on_device(self._checked((self._training_sequence(number)[: length + 1] for number in numbers), numbers))

    def _training_sequence(self, number: int) -> np.ndarray:
        """(seq_len + 1,) as it is trained on."""
        return self.corpus.sequence(number)

    def _checked(self, sequences: Iterable[np.ndarray], numbers: Sequence[int] | None) -> np.ndarray:
        """int64, (sequences, tokens); `numbers` of those trained on, None for held-out ones. Raises DataError."""
        block = np.stack(list(sequences)).astype(np.int64)
        if block.min() < 0 or block.max() >= self.corpus.vocab_size:
            raise DataError(self._bad_token(block, numbers))
        return block

    def _bad_token(self, block: np.ndarray, numbers: Sequence[int] | None) -> str:
        row, column = map(int, np.argwhere((block < 0) | (block >= self.corpus.vocab_size))[0])
        where = "a held-out sequence"
        if numbers is not None:
            name, offset = self.corpus.place_of(numbers[row])
            where = f"{name}, token {offset + column}"
        return (
            f"{self.corpus.origin}: {where}: token {block[row, column]} is not below the vocabulary of {self.corpus.vocab_size}; "
            f"the data is damaged (python -m {__package__} verify) or was made with another tokenizer (--set model.vocab_size=N)"
        )

    def _on_device(self, block: np.ndarray) -> Batch:
        """From pinned memory to a GPU, so that the host need not wait; torch keeps that memory until the copy is done."""
        tokens = torch.from_numpy(block)
        if self.device is not None and self.device.type == "cuda":
            tokens = tokens.pin_memory().to(self.device, non_blocking=True)
        return tokens[:, :-1], tokens[:, 1:]


def _share(indices: tuple[int, ...], rank: int, world_size: int) -> tuple[int, ...]:
    share = len(indices) // world_size
    return indices[rank * share : (rank + 1) * share]
