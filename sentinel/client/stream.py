"""metrics.jsonl as it is written: a receipt, a line for each optimizer step, events, an end.

    stream = Stream(Path("out/metrics.jsonl"), attempt=0)
    stream.start(resume_step=0, resume_digest=None, world_size=1, params=10, tokens_per_step=64, effective={}, overrides={})
    stream.step(1, loss=11.0)

`Session` has one for the run directory; a run that nobody supervises may keep the same lines wherever it likes. One thread at a
time writes a stream: every line is one write, but their order is that of the calls.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import ensure_directory, write_fully
from sentinel.client.closed_files import open_closed
from sentinel.client.strict_json import dumps

END_REASONS = ("finished", "stopped_on_request", "failed")


class Stream:
    """Appends to `path`; the file and its folder are made with the first line. Raises OSError."""

    def __init__(self, path: Path, attempt: int) -> None:
        self.path = path
        self._attempt = attempt
        self._handle: int | None = None

    @property
    def is_begun(self) -> bool:
        """Has this process written a line?"""
        return self._handle is not None

    def start(
        self,
        *,
        resume_step: int,
        resume_digest: str | None,
        world_size: int,
        params: int,
        tokens_per_step: int | None,
        effective: Mapping[str, Any],
        overrides: Mapping[str, Any],
        **more: Any,
    ) -> None:
        """The receipt. `effective` must be read back from the live optimizer after the checkpoint was loaded."""
        line = {"kind": "start", "v": 1, "attempt": self._attempt, "time_s": time.time(), "resume_step": resume_step}
        line |= {"resume_digest": resume_digest, "world_size": world_size, "params": params}
        line |= {"tokens_per_step": tokens_per_step, "overrides": dict(overrides), "effective": dict(effective)}
        self._append(line | more)

    def step(self, step: int, *, samples: Sequence[Sequence[int]] | None = None, **metrics: Any) -> None:
        """One optimizer step is done."""
        line: dict[str, Any] = {"kind": "step", "step": step, "time_s": time.time()}
        if samples is not None:
            line["samples"] = [list(pair) for pair in samples]
        line.update(metrics)
        self._append(line)

    def event(self, event: str, *, step: int | None = None, **fields: Any) -> None:
        """Something worth a line happened."""
        self._append({"kind": "event", "event": event, "step": step, "time_s": time.time()} | fields)

    def end(self, step: int, reason: str) -> None:
        """The last line; it is synced to disk. `reason`: one of END_REASONS."""
        assert reason in END_REASONS, f"{reason!r} is no reason to end; use one of {END_REASONS}"
        self._append({"kind": "end", "step": step, "time_s": time.time(), "reason": reason})
        assert self._handle is not None
        os.fsync(self._handle)

    def _append(self, line: Mapping[str, Any]) -> None:
        data = dumps(line).encode() + b"\n"
        if self._handle is None:
            self._handle = self._open()
        write_fully(self._handle, data)  # one write: a reader, or a SIGKILL, finds whole lines

    def _open(self) -> int:
        ensure_directory(self.path.parent)
        handle = open_closed(self.path, os.O_RDWR | os.O_APPEND)
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":  # a torn last line must not swallow the next one
            write_fully(handle, b"\n")
        return handle
