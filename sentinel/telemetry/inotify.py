"""Directories watched through inotify: the only importer of the watchdog library. Raises ImportError where there is no inotify.

Of the library only its doors to the kernel's calls are used, and one thread for all directories reads what the kernel says. The
library's observers have two threads a directory and pass each event on through two queues, which was a third of what a supervisor
cost beside two ranks at 20 steps/s (`make bench-watching`, 2026-11-26). They may also hold a rename back for half a second while
they wait for its other half: measured among eight busy writers, 7 of 300 waited up to 0.53 s. Its plain reader makes an object of
each event and takes four locks: 115 us of the processor an event, where the read itself takes 50 (LOG.md).
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
import select
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue

from watchdog.utils import UnsupportedLibcError

try:
    from watchdog.observers.inotify_c import (
        InotifyConstants,
        Mask,
        WatchDescriptor,
        inotify_add_watch,
        inotify_init,
        inotify_rm_watch,
    )
except UnsupportedLibcError as error:
    raise ImportError(f"no inotify on this system ({error})") from None

logging.getLogger("watchdog").addHandler(logging.NullHandler())  # what it says would land on the terminal

# Content that was written or moved into place, and new directories; nothing about what leaves.
_ARRIVALS = Mask(
    InotifyConstants.IN_MODIFY | InotifyConstants.IN_CREATE | InotifyConstants.IN_MOVED_TO | InotifyConstants.IN_DELETE_SELF
)
_LEFT_OUT, _IGNORED = int(InotifyConstants.IN_Q_OVERFLOW), int(InotifyConstants.IN_IGNORED)
_EVENT = struct.Struct("iIII")  # descriptor, mask, cookie, bytes of the name behind it, which is filled up with zeros
_READ_BYTES = 64 * 1024
_NOT_NOW = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)  # gone between the look and the watch, or not ours to read; perhaps later
_LIMITS = {errno.ENOSPC: "inotify watch limit reached", errno.EMFILE: "inotify instance limit reached"}

Ring = Callable[[str], None]


class DirectoryWatch:
    """Calls `ring` with the name, from a thread of its own, when a matching name appears or changes in one of the directories;
    with an empty name when events were lost. Raises OSError when the system gives no inotify."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._inotify = inotify_init()
        if self._inotify < 0:
            raise _refused()
        self._stopping, self._stop = os.pipe()
        self._lock = threading.Lock()
        self._watches: dict[Path, tuple[int, int]] = {}  # the directory's inode, and the kernel's number of the watch
        self._names: dict[int, re.Pattern[str]] = {}  # by that number; read by the thread
        self._gone: SimpleQueue[int] = SimpleQueue()
        self._thread = threading.Thread(target=self._listen, name="sentinel-hears", daemon=True)
        self._thread.start()

    def ensure(self, wanted: Mapping[Path, re.Pattern[str]]) -> None:
        """Watch exactly these, as far as they exist. Raises OSError when the system refuses a watch."""
        while not self._gone.empty():
            number = self._gone.get()
            self._watches = {path: watch for path, watch in self._watches.items() if watch[1] != number}
            self._names.pop(number, None)
        for path in [path for path, (inode, _) in self._watches.items() if path not in wanted or inode != _inode(path)]:
            _, number = self._watches.pop(path)
            inotify_rm_watch(self._inotify, WatchDescriptor(number))  # refused where the directory is gone: then so is the watch
            self._names.pop(number, None)
        for path, names in wanted.items():
            if path in self._watches or (inode := _inode(path)) is None:
                continue
            with self._lock:  # what the new watch hears is not looked up before it has its names
                number = inotify_add_watch(self._inotify, os.fsencode(path), _ARRIVALS)
                if number >= 0:
                    self._watches[path], self._names[number] = (inode, number), names
                elif ctypes.get_errno() not in _NOT_NOW:
                    raise _refused()

    def close(self) -> None:
        os.write(self._stop, b"!")
        self._thread.join()
        for handle in (self._inotify, self._stopping, self._stop):
            os.close(handle)

    def _listen(self) -> None:
        handles = select.poll()
        handles.register(self._inotify, select.POLLIN)
        handles.register(self._stopping, select.POLLIN)
        while all(handle != self._stopping for handle, _ in handles.poll()):
            self._hear(os.read(self._inotify, _READ_BYTES))

    def _hear(self, events: bytes) -> None:
        """Ring for the names that matter. A directory that went is watched no more: one that is made anew under its name may
        have its inode, so that only the kernel's word tells. Where the kernel left events out, anything may have happened."""
        at = 0
        while at < len(events):
            number, mask, _, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size + length
            if mask & _LEFT_OUT:
                self._ring("")
            elif mask & _IGNORED:
                self._gone.put(number)
            else:
                with self._lock:
                    names = self._names.get(number)
                name = events[at - length : at].rstrip(b"\0").decode("utf-8", "replace")
                if names is not None and names.fullmatch(name):
                    self._ring(name)


def _refused() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, _LIMITS.get(number, os.strerror(number)))


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
