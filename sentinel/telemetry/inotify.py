"""Directories watched through inotify: the only importer of the watchdog library. Raises ImportError where there is no inotify.

The library's stock event mask asks for both halves of a rename and may then hold everything back for half a second while it
waits for the other half: its delayed queue sleeps on an unpaired one, and every heartbeat is a rename. Measured among eight busy
writers, 7 of 300 renames waited up to 0.53 s. The mask here asks for arrivals only, and a rename wakes in under a millisecond.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from watchdog.events import DirModifiedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.utils import UnsupportedLibcError

try:
    from watchdog.observers.inotify import InotifyEmitter
    from watchdog.observers.inotify_c import InotifyConstants, Mask
except UnsupportedLibcError as error:
    raise ImportError(f"no inotify on this system ({error})") from None

logging.getLogger("watchdog").addHandler(logging.NullHandler())  # what it says while closing would land on the terminal


class _Arrivals(InotifyEmitter):
    """Content that was written or moved into place, and new directories; nothing about what leaves."""

    def get_event_mask_from_filter(self) -> Mask:
        arrivals = InotifyConstants.IN_MODIFY | InotifyConstants.IN_CREATE | InotifyConstants.IN_MOVED_TO
        return Mask(arrivals | InotifyConstants.IN_DELETE_SELF)


class _ChangeHandler(FileSystemEventHandler):
    """Rings for the names that matter in one directory."""

    def __init__(self, names: re.Pattern[str], ring: Callable[[], None]) -> None:
        self._names = names
        self._ring = ring

    def dispatch(self, event: FileSystemEvent) -> None:
        name = os.path.basename(os.fsdecode(event.src_path))
        if not isinstance(event, DirModifiedEvent) and self._names.fullmatch(name):
            self._ring()


class DirectoryWatch:
    """Calls `ring`, from a thread of its own, when a matching name appears or changes in one of the directories."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._observer = BaseObserver(_Arrivals)
        self._observer.start()
        self._watches: dict[Path, tuple[int, ObservedWatch]] = {}  # with the directory's inode

    def ensure(self, wanted: Mapping[Path, re.Pattern[str]]) -> None:
        """Watch exactly these, as far as they exist. Raises OSError when the system refuses a watch."""
        for path in [path for path, (inode, _) in self._watches.items() if path not in wanted or inode != _inode(path)]:
            self._observer.unschedule(self._watches.pop(path)[1])
        for path, names in wanted.items():
            inode = _inode(path)
            if path in self._watches or inode is None:
                continue
            try:
                watch = self._observer.schedule(_ChangeHandler(names, self._ring), str(path))
            except FileNotFoundError:
                continue  # gone between the look and the watch
            self._watches[path] = (inode, watch)

    def close(self) -> None:
        self._observer.stop()
        self._observer.join()


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
