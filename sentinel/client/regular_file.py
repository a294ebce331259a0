"""Reading files that somebody else put where they lie. Standard library only.

A FIFO, a device or a socket under the name of a file never answers, or never ends: whoever opens it waits for ever, and a
supervisor that waits repairs nothing. So every file of a run directory or of a checkpoint is opened through here.

    with open(path, "rb", opener=regular) as file: ...
    text = read_regular(path)
"""

from __future__ import annotations

import errno
import os
import stat

READ_BYTES_MAX = 64 << 20  # of a small file that is read whole; what is larger is none


class NotRegular(OSError):
    """It is there, and is no file that could be read."""


def regular(path: str, flags: int) -> int:
    """An `opener` for `open`. Raises NotRegular for what is neither a regular file nor a directory. A link is followed."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)  # a regular file is never non-blocking
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise NotRegular(0, f"is {kind_of_file(mode)}, not a regular file", path)


def kind_of_file(mode: int) -> str:
    """In words, by `st_mode`."""
    kinds = ((stat.S_ISREG, "a file"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
    return next((words for is_kind, words in kinds if is_kind(mode)), "a device")


def read_regular(path: str | os.PathLike[str], bytes_max: int = READ_BYTES_MAX) -> bytes:
    """The whole file. Raises OSError; NotRegular also for one larger than `bytes_max`, of which nothing is read."""
    with open(path, "rb", opener=regular) as file:
        size = os.fstat(file.fileno()).st_size  # 0 in /proc
        data = file.read(bytes_max + 1) if size <= bytes_max else b""
    if max(size, len(data)) > bytes_max:
        raise NotRegular(0, f"is larger than {bytes_max} bytes", os.fspath(path))
    return data
