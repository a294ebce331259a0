"""Directories watched through inotify: the only importer of the watchdog library. Raises ImportError where there is no inotify.

Of the library only the reader of the kernel's queue is used, with one thread for all directories. Its observers have two threads
a directory and pass each event on through two queues, which was a third of what a supervisor cost beside two ranks at 20 steps/s
(`make bench-watching`, 2026-11-26). They may also hold a rename back for half a second while they wait for its other
half: measured among eight busy writers, 7 of 300 waited up to 0.53 s.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from watchdog.utils import UnsupportedLibcError

try:
    from watchdog.observers.inotify_c import (
        CallbackId,
        InotifyConstants,
        InotifyEvent,
        InotifyFD,
        Mask,
        WatchDescriptor,
    )
except UnsupportedLibcError as error:
    raise ImportError(f"no inotify on this system ({error})") from None

logging.getLogger("watchdog").addHandler(logging.NullHandler())  # what it says while closing would land on the terminal

# Content that was written or moved into place, and new directories; nothing about what leaves.
_ARRIVALS = Mask(
    InotifyConstants.IN_MODIFY | InotifyConstants.IN_CREATE | InotifyConstants.IN_MOVED_TO | InotifyConstants.IN_DELETE_SELF
)

Ring = Callable[[str], None]


class _Names:
    """What the reader calls for one directory: rings for the names that matter."""

    def __init__(self, names: re.Pattern[str], ring: Ring, gone: SimpleQueue[WatchDescriptor]) -> None:
        self._names = names
        self._ring = ring
        self._gone = gone

    def on_event(self, event: InotifyEvent) -> None:
        name = os.fsdecode(event.name)
        if self._names.fullmatch(name):
            self._ring(name)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """The directory went. One that is made anew under its name may have its inode, so that only the kernel's word tells."""
        self._gone.put(wd)

    def on_queue_overflow(self) -> None:
        """The kernel left events out: anything may have happened."""
        self._ring("")


class DirectoryWatch:
    """Calls `ring` with the name, from a thread of its own, when a matching name appears or changes in one of the directories;
    with an empty name when events were lost."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._reader = InotifyFD()
        self._reader.start()
        self._ids = count(1)
        self._gone: SimpleQueue[WatchDescriptor] = SimpleQueue()
        self._watches: dict[Path, tuple[int, WatchDescriptor, CallbackId]] = {}  # with the directory's inode

    def ensure(self, wanted: Mapping[Path, re.Pattern[str]]) -> None:
        """Watch exactly these, as far as they exist. Raises OSError when the system refuses a watch."""
        while not self._gone.empty():
            descriptor = self._gone.get()
            self._watches = {path: watch for path, watch in self._watches.items() if watch[1] != descriptor}
        for path in [path for path, (inode, *_) in self._watches.items() if path not in wanted or inode != _inode(path)]:
            self._reader.remove_callbacks([self._watches.pop(path)[1:]])
        for path, names in wanted.items():
            inode = _inode(path)
            if path in self._watches or inode is None:
                continue
            number = CallbackId(next(self._ids))
            try:
                called = _Names(names, self._ring, self._gone)
                descriptor = self._reader.add_callback(os.fsencode(path), _ARRIVALS, called, number)
            except FileNotFoundError:
                continue  # gone between the look and the watch
            if descriptor < 0:
                continue  # not ours to read, as the library says it; perhaps later
            self._watches[path] = (inode, descriptor, number)

    def close(self) -> None:
        self._reader.stop()
        self._reader.join()


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
