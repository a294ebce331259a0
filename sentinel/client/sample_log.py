"""samples.jsonl of an inspection: what rank 0 writes of each sample it was asked to look at (PROTOCOL.md 'Inspection').

    log = SampleLog(session)
    log.start(resume_step=1000, resume_digest="…")
    log.sample(51200, loss=2.31, grad_norm=0.8, shard="books-017.bin", offset=88_342_528)
    log.end()

The file counts only with its end line, so a replay that dies half-way proves nothing about what it did not come to.
"""

from __future__ import annotations

import os
import time
from typing import Any

from sentinel.client.atomic_file import ensure_directory, write_fully
from sentinel.client.closed_files import open_closed
from sentinel.client.run_layout import samples_path
from sentinel.client.session import Session
from sentinel.client.strict_json import dumps


class SampleLog:
    """Of one inspection. A file from an earlier try of the same attempt is written anew. Raises OSError."""

    def __init__(self, session: Session) -> None:
        self.path = samples_path(session.run_dir, session.attempt)
        self._attempt = session.attempt
        self._count = 0
        ensure_directory(self.path.parent)
        self._file = open_closed(self.path, os.O_WRONLY | os.O_TRUNC | os.O_APPEND)

    def start(self, *, resume_step: int, resume_digest: str | None, **more: Any) -> None:
        """From which weights the samples are seen."""
        line = {"kind": "inspection", "v": 1, "attempt": self._attempt, "time_s": time.time(), "resume_step": resume_step}
        self._append(line | {"resume_digest": resume_digest} | more)

    def sample(
        self, index: int, *, loss: float, grad_norm: float | None = None, shard: str = "", offset: int | None = None
    ) -> None:
        """`grad_norm`: L2 of this one sample's gradient, None where it was not computed. `shard` and `offset` (bytes or
        tokens, as the trainer counts) say where a person finds its text."""
        self._count += 1
        self._append({"kind": "sample", "index": index, "loss": loss, "grad_norm": grad_norm, "shard": shard, "offset": offset})

    def end(self) -> None:
        """Everything was looked at; the file is synced."""
        self._append({"kind": "end", "samples": self._count})
        os.fsync(self._file)
        os.close(self._file)

    def _append(self, line: dict[str, Any]) -> None:
        write_fully(self._file, dumps(line).encode() + b"\n")
