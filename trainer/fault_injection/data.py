"""Poisoned data: `bad_data` replaces tokens of a range of samples, whenever they are trained on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from ..data import Corpus, Loader
from ..data.text import Bytes
from ..data_order import Position, mix
from ..faults import Fault


class PoisonedLoader(Loader):
    """A loader that gives seeded random tokens in place of the samples that `faults` name.

    A fault names sample indices of the `original` data order. It spoils the sequences behind them, so a reordered run
    meets the same bad text.
    """

    def __init__(self, corpus: Corpus, original: Position, faults: Iterable[Fault], device: torch.device | None) -> None:
        super().__init__(corpus, device)
        self._poisoned: dict[int, float] = {}  # sequence → share of its tokens
        for fault in faults:
            if fault.samples is not None:
                start, end = fault.samples
                for index in range(start, min(end, start + 2 * corpus.size)):  # two epochs hold every sequence
                    self._poisoned[original.sequence_of(index, corpus.size)] = fault.number("share")

    def is_poisoned(self, index: int, position: Position) -> bool:
        return position.sequence_of(index, self.corpus.size) in self._poisoned

    def _training_sequence(self, number: int) -> np.ndarray:
        clean = super()._training_sequence(number)
        share = self._poisoned.get(number)
        if share is None:
            return clean
        generator = torch.Generator().manual_seed(mix(number) >> 1)
        kind = torch.uint8 if isinstance(self.corpus.text, Bytes) else torch.int64
        noise = torch.randint(0, self.corpus.vocab_size, clean.shape, dtype=kind, generator=generator).numpy()
        return noise if share >= 1.0 else np.where(torch.rand(clean.shape, generator=generator).numpy() < share, noise, clean)
