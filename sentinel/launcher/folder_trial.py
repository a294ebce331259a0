"""Whether a run directory's filesystem is shared as it must be: the part of whoever asks (`sentinel preflight`).

    with FolderTrial(run_dir) as trial:
        replies = reach.run(nodes, [… "--shared", str(trial.folder)], timeout_s)     # sentinel.client.folder_trial on each node
        seen = trial.seen(name, numbers)                                            # what was seen here of one of them
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from sentinel.client.closed_files import open_closed
from sentinel.client.folder_trial import EVERY_S, LOCKS, AskersNumber, Stillness, beat_name, lines_name, number_bytes, read_number
from sentinel.client.regular_file import read_regular
from sentinel.plan.shared_folder import SeenOfNode

LAST_S = 3.0  # for the last lines of a node to be seen here
LINES_BYTES_MAX = 1 << 20


class FolderTrial:
    """Of a new folder in the nearest folder that is there; it is removed at the end. Raises OSError where none can be made."""

    def __init__(self, run_dir: Path) -> None:
        self._above = next(place for place in (run_dir.absolute(), *run_dir.absolute().parents) if place.is_dir())
        self._stop = threading.Event()
        self._beats: dict[str, Stillness] = {}
        self._locks: list[int] = []
        self._thread = threading.Thread(target=self._work, name="sentinel-folder-trial", daemon=True)

    def __enter__(self) -> FolderTrial:
        self.folder = Path(tempfile.mkdtemp(prefix=".sentinel-preflight-", dir=self._above))
        try:
            for name, lock in LOCKS.items():
                self._locks.append(open_closed(self.folder / name, os.O_RDWR))
                lock(self._locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            self._leave()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LAST_S)
        self._leave()

    def seen(self, name: str, numbers: int) -> SeenOfNode:
        """What was seen here of a node that has written so many numbers and lines. Its last ones are waited for."""
        beat, lines = self.folder / beat_name(name), self.folder / lines_name(name)
        end_s = time.monotonic() + LAST_S
        while True:
            found = self._beats.get(name)
            seen = SeenOfNode(None if found is None else found.longest_s, read_number(beat) or 0, count_whole_lines(lines))
            if (seen.number >= numbers and seen.lines >= numbers) or time.monotonic() >= end_s:
                return seen
            time.sleep(EVERY_S)

    def _work(self) -> None:
        own = AskersNumber(self.folder)
        while not self._stop.wait(EVERY_S):
            own.turn()
            with suppress(OSError):
                for path in self.folder.glob(beat_name("*")):
                    beat = self._beats.setdefault(path.name.removesuffix(beat_name("")), Stillness())
                    beat.see(read_number(path), time.monotonic())

    def _leave(self) -> None:
        for lock in self._locks:
            os.close(lock)
        shutil.rmtree(self.folder, ignore_errors=True)


def count_whole_lines(path: Path) -> int:
    """How many numbers stand there whole and in order, from the first on."""
    try:
        found = read_regular(path, LINES_BYTES_MAX).splitlines(keepends=True)
    except OSError:
        return 0
    return next((count for count, line in enumerate(found) if line != number_bytes(count + 1)), len(found))
