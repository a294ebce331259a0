"""What `restore` and `save` do where the program gives them no function: model, optimizers, what is named beside them, random
numbers.

state.pt is rank 0's, for models that are whole on every rank (one process, DDP). Random numbers are each rank's own. Files are
loaded as data alone (`weights_only=True`). So what is saved is first tried that way, with its tensors emptied: a state that could
be written and not be read would be found out at the relaunch, when it is too late.
"""

from __future__ import annotations

import io
import pickle
import random
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sentinel.client.torch.tuning import AttachError, NoCheckpoint

STATE, RANDOM = "state.pt", "random-{rank:05d}.pt"
OWN_FUNCTIONS = "give run.restore and run.save functions of your own"


def check_extra_state(extra_state: Mapping[str, Any] | None) -> dict[str, Any]:
    """Names and objects whose state a checkpoint holds as well. Raises AttachError."""
    parts = {} if extra_state is None else extra_state
    if not isinstance(parts, Mapping) or not all(isinstance(name, str) for name in parts):
        raise AttachError(f'attach(extra_state={extra_state!r}): give a dict of names and objects: {{"schedule": schedule}}')
    for name, part in parts.items():
        if not (callable(getattr(part, "state_dict", None)) and callable(getattr(part, "load_state_dict", None))):
            raise AttachError(
                f"attach(extra_state=…): {name!r} ({type(part).__name__}) has no state_dict and load_state_dict; leave it "
                f"out and {OWN_FUNCTIONS}"
            )
    return dict(parts)


class WholeState:
    """Of one rank. Every rank makes the same calls."""

    def __init__(
        self, model: Any, optimizers: Sequence[Any], extra: Mapping[str, Any], rank: int, size: int, shares: int
    ) -> None:
        """`size`: of all ranks; `shares`: among how many of them a batch is divided."""
        self._model, self._optimizers, self._extra, self._rank = model, optimizers, extra, rank
        # FSDP1: each rank would wait for the others.
        if any(type(part).__name__ == "FullyShardedDataParallel" for part in model.modules()):
            raise AttachError(f"run.restore(): the model is sharded by FSDP1, and one file cannot hold it; {OWN_FUNCTIONS}")
        sharded = next((name for name, one in model.named_parameters() if hasattr(one, "to_local")), None)
        if sharded is not None:
            raise AttachError(
                f"run.restore(): {sharded} is sharded over the ranks (DTensor), and one file cannot hold it; {OWN_FUNCTIONS}"
            )
        if shares != size:
            raise AttachError(
                f"run.restore(): {shares} of {size} ranks share a batch, so ranks hold parts of the model; {OWN_FUNCTIONS}"
            )

    def check(self) -> None:
        """Raises AttachError where a state could be written and not be read as data alone."""
        for name, part in self._parts().items():
            try:
                state = part.state_dict()
            except RuntimeError as error:  # an optimizer whose state is on several ranks
                raise AttachError(f"run.restore(): the state of {name} cannot be taken: {error}; {OWN_FUNCTIONS}") from error
            _try(name, state)

    def save(self, place: str) -> None:
        state = {name: part.state_dict() for name, part in self._parts().items()} if self._rank == 0 else {}
        for name, one in state.items():
            _try(name, one)
        if self._rank == 0:
            torch.save(state, Path(place, STATE))
        torch.save(_random_numbers(), Path(place, RANDOM.format(rank=self._rank)))

    def load(self, place: str) -> None:
        """Raises NoCheckpoint where it is another program's. A rank that was not there then keeps the random numbers it has."""
        path = Path(place, STATE)
        if not path.is_file():
            raise NoCheckpoint(
                f"{place}: has no {STATE}: it was saved by a function of the program; give run.restore the one that loads it"
            )
        state = torch.load(path, map_location="cpu", weights_only=True)
        parts = self._parts()
        if not isinstance(state, dict) or set(state) != set(parts):
            there = ", ".join(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise NoCheckpoint(
                f"{path}: holds {there}; this program has {', '.join(parts)}: name the same in attach(extra_state=…)"
            )
        for name, part in parts.items():
            part.load_state_dict(state[name])
        own = Path(place, RANDOM.format(rank=self._rank))
        if own.is_file():
            _restore_random_numbers(torch.load(own, map_location="cpu", weights_only=True))

    def _parts(self) -> dict[str, Any]:
        """The words of the file. Those of the program cannot be taken for ours: they have a prefix."""
        own = {"model": self._model} | {f"optimizer {number}": one for number, one in enumerate(self._optimizers)}
        return own | {f"extra {name}": part for name, part in self._extra.items()}


def _try(name: str, state: Any) -> None:
    held = io.BytesIO()
    try:
        torch.save(_emptied(state), held)
        torch.load(io.BytesIO(held.getvalue()), weights_only=True)
    except (pickle.PickleError, AttributeError, TypeError) as error:
        first = str(error).strip().splitlines()[0]
        raise AttachError(
            f"run.save(): the state of {name} is more than tensors, numbers, texts and containers, so it cannot be loaded as "
            f"data alone ({first}); leave it out of extra_state, or {OWN_FUNCTIONS}"
        ) from error


def _emptied(state: Any) -> Any:
    """Kinds of its own stay as they are: whether they can be loaded is the question."""
    if type(state) in (torch.Tensor, torch.nn.Parameter):
        return torch.empty(0, dtype=state.dtype)
    if type(state) in (dict, OrderedDict):
        return {key: _emptied(value) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(_emptied(value) for value in state)
    return state


def _random_numbers() -> dict[str, Any]:
    """Of torch, of this rank's CUDA device, of Python, and of numpy where the program has it."""
    found: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state()
    if (numpy := sys.modules.get("numpy")) is not None:
        kind, keys, *rest = numpy.random.get_state()
        found["numpy"] = [kind, keys.tolist(), *rest]
    return found


def _restore_random_numbers(found: Mapping[str, Any]) -> None:
    torch.set_rng_state(found["torch"])
    random.setstate(found["python"])
    if "cuda" in found and torch.cuda.is_available():
        torch.cuda.set_rng_state(found["cuda"])
    if "numpy" in found and (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.set_state(tuple(found["numpy"]))
