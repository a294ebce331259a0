"""A corpus: tokens to train on, tokens held out, and where they come from. In what files they lie does not matter here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..exits import DataError
from .text import Bytes, Ids, JsonTokenizer
from .tokens import Tokens

Place = tuple[str, int]  # a source's name, and the token in it


@dataclass(frozen=True)
class Corpus:
    """Sequence i is the `seq_len` tokens of `train` from i·seq_len and the token after them.

    `vocab_size`: every token should be below it (the loader checks). `digest`: hex, identifies this data.
    `place`: source of a training token. `origin`: what to call the data in a message.
    """

    train: Tokens
    held_out: Tokens
    seq_len: int
    vocab_size: int
    digest: str
    text: Bytes | JsonTokenizer | Ids
    place: Callable[[int], Place]
    origin: str

    def __post_init__(self) -> None:
        """Raises DataError where either part is too short for one sequence."""
        for part, tokens in (("training", self.train), ("held-out", self.held_out)):
            if len(tokens) <= self.seq_len:
                raise DataError(
                    f"{self.origin}: only {len(tokens)} {part} {self.text.unit}s, and one sequence takes {self.seq_len + 1} "
                    f"(data.seq_len {self.seq_len}); give it more data or a smaller data.seq_len"
                )

    @property
    def size(self) -> int:
        """Sequences in one epoch."""
        return (len(self.train) - 1) // self.seq_len

    @property
    def held_out_size(self) -> int:
        """Sequences held out."""
        return (len(self.held_out) - 1) // self.seq_len

    def sequence(self, number: int) -> np.ndarray:
        """(seq_len + 1,) in the dtype they are stored in."""
        return self.train.cut(*self.span(number))

    def held_out_sequence(self, number: int) -> np.ndarray:
        """(seq_len + 1,), as `sequence`."""
        return self.held_out.cut(*self.span(number))

    def span(self, number: int) -> tuple[int, int]:
        """Half-open, of the tokens of a sequence."""
        return number * self.seq_len, (number + 1) * self.seq_len + 1

    def place_of(self, number: int) -> Place:
        """Source and token offset in it where a training sequence begins; it may go on into the source after it."""
        return self.place(number * self.seq_len)
