"""What the follower of a trainer says before there is a stream to say it in: `attempts/N/remarks.jsonl`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import loads
from sentinel.model.readings import SourceReading
from sentinel.run_files.attempt_files import AttemptFiles

BYTES_MAX = 64 << 10
SOURCE = "trainer"


class FollowerRemarks:
    """Of one attempt; each line once. Never raises: what cannot be read is looked at again when it changes."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._path = AttemptFiles.of(run_dir, attempt).remarks
        self._size = 0
        self._taken = 0  # lines

    def poll(self) -> list[SourceReading]:
        found: list[SourceReading] = []
        with suppress(OSError):
            size = os.stat(self._path).st_size
            if size == self._size:
                return []
            lines = read_regular(self._path)[:BYTES_MAX].split(b"\n")[:-1]
            self._size = size
            for line in lines[self._taken :]:
                with suppress(ValueError, KeyError, TypeError):
                    found.append(SourceReading(SOURCE, True, str(loads(line)["reason"]), remark=True))
            self._taken = max(self._taken, len(lines))
        return found
