"""Which errors of the system are a disk's, or its server's: nobody's mistake, and they may pass. The one list.

Whatever only tells of a run (its lines, its heartbeats, what it prints) is given up where one of these comes; the run goes on.
Standard library only.
"""

from __future__ import annotations

import errno
import os

_NAMES = (
    "ENOSPC", "EDQUOT", "EFBIG",  # no room: on the disk, for this user, for this file
    "EROFS", "EIO", "ENODEV", "ENXIO", "ENOMEDIUM",  # the disk fails, or was taken away
    "ESTALE", "EREMOTEIO", "ETIMEDOUT", "ENOTCONN", "ECONNREFUSED", "ECONNRESET", "ESHUTDOWN", "EHOSTDOWN", "EHOSTUNREACH",
    "ENETDOWN", "ENETUNREACH",  # its server does not answer, or knows the file no more
    "EAGAIN", "EBUSY", "ENOMEM", "EMFILE", "ENFILE",  # this machine has no room for one more file
)  # fmt: skip
DISK_ERRNOS = frozenset(getattr(errno, name) for name in _NAMES if hasattr(errno, name))


def is_of_disk(error: OSError) -> bool:
    """Whether the same call may succeed later, without anybody changing the program."""
    return error.errno in DISK_ERRNOS


def errno_name(error: OSError) -> str:
    """ENOSPC; an error without a number has its class's name."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def in_words(error: OSError) -> str:
    """`No space left on device`."""
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error))
