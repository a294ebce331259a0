"""A mirror in a directory: another disk, or a filesystem that other machines mount. Its owner's alone, whatever lies above it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sentinel.client.atomic_file import fsync_directory, write_fully
from sentinel.client.regular_file import regular
from sentinel.mirrors.stores import BLOCK_BYTES, MirrorError, NotThere

FOLDER_MODE, FILE_MODE = 0o700, 0o600
PART = ".part"  # a file that is being written: `.NAME.part`


class LocalStore:
    """A `stores.Store`. A file is written aside, synced and renamed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def where(self) -> str:
        return str(self._root)

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        path = self._path(name)
        aside = path.with_name(f".{path.name}{PART}")
        with _mirror_errors(path, "cannot be written"):
            _make_folders(path.parent)
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
            try:
                for block in blocks:
                    write_fully(handle, block)
                os.fsync(handle)
            except BaseException:
                os.close(handle)
                aside.unlink(missing_ok=True)  # a full disk has room again
                raise
            os.close(handle)
            os.rename(aside, path)
            fsync_directory(path.parent)

    def read(self, name: str, offset: int = 0) -> Iterator[bytes]:
        path = self._path(name)
        with _mirror_errors(path, "cannot be read"), open(path, "rb", opener=regular) as file:
            file.seek(offset)
            while block := file.read(BLOCK_BYTES):
                yield block

    def size(self, name: str) -> int | None:
        try:
            with _mirror_errors(self._path(name), "cannot be seen"):
                return self._path(name).stat().st_size
        except NotThere:
            return None

    def names(self, folder: str = "") -> list[str]:
        path = self._path(folder) if folder else self._root
        try:
            with _mirror_errors(path, "cannot be listed"):
                return sorted(name for name in os.listdir(path) if not name.endswith(PART))
        except NotThere:
            return []

    def delete(self, name: str) -> None:
        path = self._path(name)
        try:
            with _mirror_errors(path, "cannot be deleted"):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        except NotThere:
            pass

    def _path(self, name: str) -> Path:
        return self._root / name


def _make_folders(path: Path) -> None:
    if path.is_dir():
        return
    _make_folders(path.parent)
    try:
        path.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        return
    path.chmod(FOLDER_MODE)  # whatever the umask, and a setgid folder above it, made of that
    fsync_directory(path.parent)


@contextmanager
def _mirror_errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotThere(f"{path}: is not there") from error
    except OSError as error:
        remedy = "; it is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise MirrorError(f"{path}: {what}: {error.strerror or error}{remedy}") from error
