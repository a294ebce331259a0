"""The store behind the words that a person wrote: a directory, or an address."""

from __future__ import annotations

from pathlib import Path

from sentinel.errors import UsageError
from sentinel.mirrors.fsspec_store import FsspecStore, check_scheme
from sentinel.mirrors.local_store import LocalStore
from sentinel.mirrors.settings import is_address
from sentinel.mirrors.stores import Store


def check_place(to: str) -> None:
    """Without going there. Raises UsageError for what can never be a mirror's place."""
    if is_address(to):
        check_scheme(to)
    elif file := next((str(above) for above in (Path(to), *Path(to).parents) if above.is_file()), ""):
        raise UsageError(f"{to}: {file} is a file; a mirror needs a directory")


def open_store(to: str, *more: str) -> Store:
    """`to`: a directory or an address; `more`: folders below it. Raises UsageError as `check_place`, MirrorError."""
    check_place(to)
    return FsspecStore.of("/".join([to.rstrip("/"), *more])) if is_address(to) else LocalStore(Path(to, *more))
