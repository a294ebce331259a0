"""Pickles out of checkpoint files, read without importing or calling anything that they name.

Python's unpickler imports and calls whatever a pickle names, so a planted file runs code when it is loaded. Here a class or
function becomes a stand-in, which only holds what it would be called with. A name that was not admitted ends the reading.

Not bounded: memory. A planted file can still make a process end for lack of it.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PICKLE_BYTES_MAX = 64 << 20
SHOWN_MAX = 120
_PICKLES_OF_LEGACY = 5  # before torch 1.6: magic number, protocol, system, the object, the keys of its storages
_OF_A_TENSOR = {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3"}


class Foreign(Exception):
    """A pickle names what was not admitted: `name`, as module.name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Inert:
    """Stands for a class or function: what it would be called with, and the state that the result would be given.

    It defines `__setstate__`, so that a pickle which gives a state to the class itself fails: without it, the unpickler sets the
    class' attributes.
    """

    __slots__ = ("arguments", "state")

    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> Inert:
        made = object.__new__(cls)
        made.arguments, made.state = arguments, None
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


def read_inert(data: bytes, admitted: Mapping[tuple[str, str], Any]) -> Any:
    """What a pickle builds of plain values and of what stands in `admitted` for (module, name).

    Give subclasses of Inert, or values that nothing can be done to. Raises Foreign for any other name, and ValueError, in words
    of our own, for what is no pickle, is damaged, or does with a stand-in what cannot be done.
    """
    try:
        return _Restricted(data, admitted).load()
    except Foreign:
        raise
    except Exception as error:  # noqa: BLE001  # the unpickler raises nearly every kind, by what the bytes happen to say
        raise ValueError(f"it is no pickle of plain values ({type(error).__name__})") from None


def foreign_name(data: bytes) -> str | None:
    """The first class or function in what torch.save wrote that no saved tensor needs. For telling; it guards nothing."""
    names: list[str] = []
    file = io.BytesIO(_inner_pickle(data))
    for _ in range(_PICKLES_OF_LEGACY):
        try:
            _Listing(file, names).load()
        except Exception:  # noqa: BLE001  # not a pickle from here on
            break
    return next((name for name in names if name not in _OF_A_TENSOR and not _is_storage(name)), None)


def refusal(checkpoint: Path, file: str, name: str) -> str:
    """What a person is told of a file that names what it must not. The name is the file's own text."""
    return (
        f"{checkpoint}: {shown(file)} names {shown(name)}, which no checkpoint needs: such a file is made to run code when it is "
        "loaded. Nothing of it was run. Find out who wrote it, move the checkpoint away, and continue from one that this run "
        "saved by itself"
    )


def shown(text: str) -> str:
    """A file's own text on one line, cut, with nothing in it that a terminal acts upon."""
    return ascii(text[:SHOWN_MAX])[1:-1] + ("…" if len(text) > SHOWN_MAX else "")


class _Restricted(pickle.Unpickler):
    def __init__(self, data: bytes, admitted: Mapping[tuple[str, str], Any]) -> None:
        super().__init__(io.BytesIO(data), fix_imports=False)
        self._admitted = admitted

    def find_class(self, module: str, name: str) -> Any:
        """Names are compared whole: Python's own way follows the dots in them, and `torch.serialization` has an `os.system`."""
        try:
            return self._admitted[module, name]
        except KeyError:
            raise Foreign(f"{module}.{name}") from None


class _Anything(Inert):
    """Takes whatever is put into it."""

    __slots__ = ()

    def ignore(self, *_: Any) -> None:
        pass

    __setitem__ = append = extend = add = ignore


class _Listing(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, names: list[str]) -> None:
        super().__init__(file, fix_imports=False, encoding="latin1")
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        self._names.append(f"{module}.{name}")
        return _Anything

    def persistent_load(self, _: Any) -> Any:
        return _Anything()


def _inner_pickle(data: bytes) -> bytes:
    """Of an archive, what torch.load would unpickle; anything else is taken for a pickle itself."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = next((entry for entry in archive.infolist() if entry.filename.endswith("data.pkl")), None)
            if found is None or found.file_size > PICKLE_BYTES_MAX:
                return b""
            return archive.read(found)
    except (zipfile.BadZipFile, NotImplementedError, OSError, RuntimeError, ValueError, EOFError):
        return data


def _is_storage(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return module in ("torch", "torch.storage", "torch.cuda") and last.endswith("Storage") and last.isidentifier()
