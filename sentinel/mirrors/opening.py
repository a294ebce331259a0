"""The store behind the words that a person wrote: a directory, or an address."""

from __future__ import annotations

import os
from pathlib import Path

from sentinel.errors import UsageError
from sentinel.filesystem import is_local
from sentinel.mirrors.fsspec_store import FsspecStore, check_scheme
from sentinel.mirrors.local_store import LocalStore
from sentinel.mirrors.settings import is_address
from sentinel.mirrors.stores import Store


def check_place(to: str, run_dir: Path | None = None) -> None:
    """Without going there. Raises UsageError for what can never be a mirror's place: of this run, where it is named."""
    if is_address(to):
        check_scheme(to)
    elif run_dir is not None and Path(os.path.realpath(to)).is_relative_to(os.path.realpath(run_dir)):
        raise UsageError(f"{to}: lies in the run directory, and would be lost with it; name a place on another machine or disk")
    elif file := next((str(above) for above in (Path(to), *Path(to).parents) if above.is_file()), ""):
        raise UsageError(f"{to}: {file} is a file; a mirror needs a directory")


def describe_shared_fate(to: str, run_dir: Path) -> str:
    """A sentence where both lie on the same disk of this machine; else empty, also where that cannot be told."""
    try:
        above = next(path for path in (Path(to), *Path(to).parents) if path.exists())
        is_same = not is_address(to) and above.stat().st_dev == run_dir.stat().st_dev and is_local(run_dir)
    except (OSError, StopIteration):
        return ""
    return f"{to}: lies on the same disk as the run, and a machine that is lost takes both" if is_same else ""


def open_store(to: str, *more: str) -> Store:
    """`to`: a directory or an address; `more`: folders below it. Raises UsageError as `check_place`, MirrorError."""
    check_place(to)
    return FsspecStore.of("/".join([to.rstrip("/"), *more])) if is_address(to) else LocalStore(Path(to, *more))
