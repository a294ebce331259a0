"""What is known of filesystems: whether a path lies on a disk of this machine, and whether an error can pass by waiting.

SQLite's write-ahead log needs shared memory, which no network filesystem gives. Judged by the mount table. A filesystem that is
not known to be local counts as shared: the slower journal mode is right everywhere, the faster one loses data where it does not
belong.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

SMALL_BYTES = 64 << 10
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "ramfs", "overlay", "overlayfs"})
_OCTAL = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))  # how /proc/mounts spells them

_ABOUT_THE_PATH = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ENOTDIR, errno.EISDIR})


def may_pass(error: OSError) -> bool:
    """Whether the same call may work later: a disk that fails, a stale handle, a file that is not written yet. False where the
    system says that no such path can be meant: waiting changes nothing, and whoever asks has the answer."""
    return error.errno not in _ABOUT_THE_PATH


def is_full(place: Path) -> bool:
    """Whether the filesystem that holds `place` is seen to have no room for a small file. One that cannot be asked is not known
    to be full."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < SMALL_BYTES or (found.f_files > 0 and found.f_favail == 0)


def is_local(path: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """True when `path` (which need not exist) lies on a filesystem known to be local."""
    return filesystem_of(path, mounts) in _LOCAL


def filesystem_of(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The type of the filesystem that holds `path`, such as "ext4" or "nfs4"; "unknown" without a mount table."""
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return "unknown"
    real = os.path.realpath(path)
    found, longest = "unknown", -1
    for line in table.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = words[1]
        for spelled, character in _OCTAL:
            point = point.replace(spelled, character)
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two mounts on one point the later one is seen
            found, longest = words[2], len(point)
    return found
