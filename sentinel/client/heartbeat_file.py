"""heartbeats/rank-N.json: one small record, written over in place.

A rename for each beat, four a step on every rank, would cost half a millisecond on ext4 (it flushes what replaces a file) and be
a storm of metadata on a cluster's filesystem. A reader that finds a beat half written looks again: see telemetry/heartbeats.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.closed_files import open_closed
from sentinel.client.strict_json import dumps

ROOM_BYTES = 256  # of a heartbeat; padded to with blanks, so that a shorter beat leaves nothing of a longer one behind it
ROOM_BYTES_MAX = 1 << 20  # of what a writer of before has left; more is no record


class HeartbeatFile:
    """Of one rank, or of the agent of a node. The file is made with the first record and stays open."""

    def __init__(self, path: Path, room_bytes: int = ROOM_BYTES) -> None:
        self.path = path
        self._handle: int | None = None
        self._room_bytes = room_bytes

    def write(self, beat: Mapping[str, Any]) -> None:
        """In one call to the system, not synced. Raises OSError; the next beat then opens the file anew, for a stale handle stays
        so."""
        self.write_line(dumps(beat).encode())

    def write_line(self, line: bytes) -> None:
        """A record as JSON; as `write`."""
        if self._handle is None:
            ensure_directory(self.path.parent)
            self._handle = open_closed(self.path, os.O_WRONLY | os.O_NONBLOCK)  # a FIFO that nobody reads must not hold training
            left_bytes = os.fstat(self._handle).st_size  # by a writer of before
            self._room_bytes = max(self._room_bytes, left_bytes if left_bytes <= ROOM_BYTES_MAX else 0)
        self._room_bytes = max(self._room_bytes, len(line))
        try:
            os.pwrite(self._handle, line.ljust(self._room_bytes), 0)
        except OSError:
            handle, self._handle = self._handle, None
            with contextlib.suppress(OSError):
                os.close(handle)
            raise
