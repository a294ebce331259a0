"""The tensors of one checkpoint, whole, read by a single process however many ranks wrote them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from .reading import Reader, fill

PARAMETERS = "model."  # what the parameters' names begin with


class Contents:
    """Reads on demand, one tensor at a time: a model larger than a host's memory can still be compared."""

    def __init__(self, path: Path) -> None:
        """Raises DataError for an index that holds anything but tensors."""
        self._reader = Reader(path)
        self._shapes = self._reader.index.state_dict_metadata

    def parameters(self) -> Iterator[str]:
        """Names of the model's parameters, as the model itself calls them, in its order of naming."""
        return (name.removeprefix(PARAMETERS) for name in self._shapes if name.startswith(PARAMETERS))

    def __contains__(self, name: str) -> bool:
        """Whether there is a parameter of this name."""
        return PARAMETERS + name in self._shapes

    def shape(self, name: str) -> torch.Size:
        return self._shapes[PARAMETERS + name].size

    def parameter(self, name: str) -> torch.Tensor:
        return self.tensor(PARAMETERS + name)

    def tensor(self, name: str) -> torch.Tensor:
        """One whole tensor, on the CPU. KeyError where there is none of that name, DataError for a part that is no tensor."""
        entry = self._shapes[name]
        state = {name: torch.empty(entry.size, dtype=entry.properties.dtype)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that no_dist was asked for
            fill(state, self._reader, no_dist=True)
        return state[name]
