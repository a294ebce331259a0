"""What a follower has to say to whoever watches the run: in the stream once it has begun, before that in a file beside it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from sentinel.client.closed_files import closed
from sentinel.client.stream import Stream
from sentinel.client.strict_json import dumps
from sentinel.run_files.attempt_files import AttemptFiles


class FollowerNotes:
    """Each sentence once. A stream begins with its receipt, and where no row comes that never stands there."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        self._path = AttemptFiles.of(run_dir, attempt).remarks
        self._sentences: list[str] = []
        self._sent = self._noted = 0  # of them, in the stream and in the file

    def add(self, sentence: str) -> None:
        if sentence not in self._sentences:
            self._sentences.append(sentence)
            print(sentence, file=sys.stderr, flush=True)  # `sentinel doctor` reads it

    def send(self, stream: Stream) -> None:
        while stream.is_begun and self._sent < len(self._sentences):
            stream.event("remark", reason=self._sentences[self._sent])
            self._sent += 1
        while not stream.is_begun and self._noted < len(self._sentences):
            line = dumps({"reason": self._sentences[self._noted]}).encode() + b"\n"
            self._noted += 1
            with suppress(OSError), open(self._path, "ab", opener=closed) as file:
                file.write(line)
