"""metrics.jsonl as it is written: a receipt, a line for each optimizer step, events, an end.

    stream = Stream(Path("out/metrics.jsonl"), attempt=0)
    stream.start(resume_step=0, resume_digest=None, world_size=1, params=10, tokens_per_step=64, effective={}, overrides={})
    stream.step(1, loss=11.0)

`Session` has one for the run directory; a run that nobody supervises may keep the same lines wherever it likes. One thread at a
time writes a stream: every line is one write, but their order is that of the calls. A disk that is full, or
fails, ends no run: step lines are lost and counted, and told of when there is room again (`line_file.py`); receipts and events
wait. A value that is no number ends none either: it is left out, which a `remark` and stderr say once for its name.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentinel.client.line_file import LineFile
from sentinel.client.logged import TAKEN, LeftOut, NoNumber, split_fields, split_numbers, whole_number, whole_ranges

END_REASONS = ("finished", "stopped_on_request", "failed")


class Stream:
    """Appends to `path`; the file and its folder are made with the first line. Raises OSError where that fails for another reason
    than a disk's, such as missing permission. `raises`: for a writer that can write its lines again; raises every OSError."""

    def __init__(self, path: Path, attempt: int, raises: bool = False) -> None:
        self.path = path
        self._attempt = attempt
        self._file = LineFile(path, raises)
        self._left_out = LeftOut()

    @property
    def is_begun(self) -> bool:
        """Has this process begun to write it? True also where there was no room yet."""
        return self._file.is_begun

    @property
    def is_whole(self) -> bool:
        """Whether every line so far was written, and what was lost before was told."""
        return self._file.is_whole

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
        self._file.append(line | more, step=resume_step, waits=True)

    def step(self, /, step: int, *, samples: Sequence[Sequence[int]] | None = None, **metrics: Any) -> None:
        """One optimizer step is done."""
        step = whole_number(step)
        line: dict[str, Any] = {"kind": "step", "step": step, "time_s": time.time()}
        numbers, left_out = split_numbers(metrics)
        if samples is not None:
            try:
                line["samples"] = whole_ranges(samples)
            except NoNumber as error:
                left_out["samples"] = str(error)
        if "kind" in metrics:
            numbers.pop("kind", None)
            left_out["kind"] = TAKEN
        line.update(numbers)
        self._file.append(line, step=step, is_step=True)
        for name, reason in left_out.items():
            self.leave_out(step, name, reason)

    def event(self, /, event: str, *, step: int | None = None, **fields: Any) -> None:
        """Something worth a line happened."""
        self.event_of(event, step, fields)

    def event_of(self, event: str, step: int | None, fields: Mapping[str, Any]) -> None:
        """The same, with fields of any name."""
        step = whole_number(step)
        kept, left_out = split_fields(fields)
        line = {"kind": "event", "event": event, "step": step, "time_s": time.time()}
        self._file.append(line | kept, step=step, waits=True)
        for name, reason in left_out.items():
            self.leave_out(step, name, reason, of=f"the event {event}")

    def leave_out(self, step: int | None, name: str, reason: str, of: str = "the metrics") -> None:
        """Say once that a value is left out, where Sentinel's reader and a person look. `reason`: `is None`."""
        if not self._left_out.is_new(name):
            return
        words = f"{name} of {of} {reason}; it is left out, and this is said once"
        self._file.append(
            {"kind": "event", "event": "remark", "step": step, "time_s": time.time(), "reason": words}, step=step, waits=True
        )
        with contextlib.suppress(OSError, ValueError):
            print(f"sentinel: step {step}: {words}; training goes on", file=sys.stderr, flush=True)

    def end(self, step: int, reason: str) -> None:
        """The last line; it is synced to disk. `reason`: one of END_REASONS."""
        assert reason in END_REASONS, f"{reason!r} is no reason to end; use one of {END_REASONS}"
        step = whole_number(step)
        self._file.append({"kind": "end", "step": step, "time_s": time.time(), "reason": reason}, step=step, waits=True)
        self._file.sync()
