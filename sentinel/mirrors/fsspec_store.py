"""A mirror at an address: s3://, sftp://, gs:// and whatever else fsspec has a library for. The one place that imports it.

A part of an object that was cut off may stay under its name: whoever reads it knows size and digest from elsewhere.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sentinel.errors import UsageError
from sentinel.mirrors.stores import BLOCK_BYTES, MirrorError, NotThere
from sentinel.policy.problems import did_you_mean

EXTRA = "pip install 'training-sentinel[mirror]'"
MESSAGE_CHARS_MAX = 300


def check_scheme(address: str) -> None:
    """Raises UsageError where fsspec, the scheme, or the scheme's own library is missing. Goes nowhere."""
    scheme = address.partition("://")[0]
    if importlib.util.find_spec("fsspec") is None:
        raise UsageError(f"{address}: needs the library fsspec, which is not installed beside sentinel; {EXTRA}")
    fsspec = importlib.import_module("fsspec")
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        raise UsageError(f"{address}: {scheme}:// needs another library beside fsspec: {error}") from None
    except ValueError:
        known = did_you_mean(scheme, tuple(fsspec.available_protocols()), "schemes")
        raise UsageError(f"{address}: fsspec knows no scheme {scheme}://; {known}") from None


class FsspecStore:
    """A `stores.Store`."""

    def __init__(self, files: Any, root: str, where: str) -> None:
        """`files`: a filesystem of fsspec."""
        self._files, self._root, self._where = files, root.rstrip("/"), where.rstrip("/")

    @staticmethod
    def of(address: str) -> FsspecStore:
        """Raises UsageError as `check_scheme`; MirrorError where it does not answer."""
        check_scheme(address)
        fsspec = importlib.import_module("fsspec")
        is_shared = address.startswith("memory:")
        try:
            files, root = fsspec.core.url_to_fs(address, skip_instance_cache=not is_shared, use_listings_cache=False)
        except Exception as error:  # each service's library has errors of its own
            raise MirrorError(_sentence(address, "cannot be reached", error)) from error
        return FsspecStore(files, root, address)

    @property
    def where(self) -> str:
        return self._where

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        path = self._path(name)
        with self._mirror_errors(name, "cannot be written"):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            file = self._files.open(path, "wb")
            try:
                for block in blocks:
                    file.write(block)
            except BaseException:
                _abandon(file)
                raise
            file.close()

    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        with self._mirror_errors(name, "cannot be read"), self._files.open(self._path(name), "rb") as file:
            if offset:
                file.seek(offset)
            while block := file.read(BLOCK_BYTES):
                yield block

    def size(self, name: str) -> int | None:
        try:
            with self._mirror_errors(name, "cannot be seen"):
                self._files.invalidate_cache()
                found = self._files.info(self._path(name))
        except NotThere:
            return None
        return int(found["size"]) if found.get("type") != "directory" else None

    def names(self, folder: str = "") -> list[str]:
        try:
            with self._mirror_errors(folder, "cannot be listed"):
                self._files.invalidate_cache()
                found = self._files.ls(self._path(folder), detail=False)
        except NotThere:
            return []
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in found} - {""})

    def delete(self, name: str) -> None:
        with suppress(NotThere), self._mirror_errors(name, "cannot be deleted"):
            self._files.rm(self._path(name), recursive=True)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextmanager
    def _mirror_errors(self, name: str, what: str) -> Iterator[None]:
        place = f"{self._where}/{name}" if name else self._where
        try:
            yield
        except FileNotFoundError as error:
            raise NotThere(f"{place}: is not there") from error
        except (MirrorError, GeneratorExit):
            raise
        except Exception as error:  # each service's library has errors of its own
            raise MirrorError(_sentence(place, what, error)) from error


def _abandon(file: Any) -> None:
    """An upload in parts that is closed, as Python does with what nobody holds any more, would become an object."""
    with suppress(Exception):
        file.discard()
    with suppress(Exception):
        file.closed = True


def _sentence(place: str, what: str, error: Exception) -> str:
    words = " ".join(str(error).split())[:MESSAGE_CHARS_MAX] or type(error).__name__
    return f"{place}: {what}: {words}"
