"""Reads each new checkpoint whole, once, behind training: `sentinel checkpoints remember RUN_DIR`, a process of its own.

It runs only while nothing else wants the processor or (with the same class) the disk, reads one file at a time, and keeps what it
found where a resume looks for it. One line of JSON says what it found of each checkpoint; any other line is for people.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sentinel.checkpoints.files import (
    CheckpointFound,
    list_entries,
    read_checkpoint,
    read_committed,
    read_numbers,
    step_of_name,
)
from sentinel.checkpoints.manifest import NotACheckpoint
from sentinel.checkpoints.memory import YOUNG_S, forget_gone, values_from_json, values_to_json
from sentinel.checkpoints.recall import Recall
from sentinel.client.strict_json import as_float, dumps, loads
from sentinel.clock import Clock, SystemClock
from sentinel.errors import GiveUp
from sentinel.model.amounts import time_words
from sentinel.model.readings import CheckpointRead
from sentinel.model.saved import ReadBack, SavedNumbers, SavedValues
from sentinel.telemetry.saved_numbers import check_bytes

NEWEST = 2  # a resume takes the newest, or the one before it; what lies further back was read when it was the newest
LOOK_S = 2.0
AGAIN_S = 60.0  # after a checkpoint could not be read
NAMED_BAD_MAX = 20  # tensors that are named in a line


class ReadingStopped(Exception):
    """Nobody wants to know any more."""


def run_behind() -> None:
    """This process gets the processor that nobody else wants. The kernel gives its reads the class of idle ones by that too."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 19)


class BehindReader:
    """Looks for new checkpoints of one run, and reads them. `say` gets each line."""

    def __init__(
        self, run_dir: Path, say: Callable[[str], None], stop: threading.Event, clock: Clock | None = None
    ) -> None:
        self._run_dir, self._say, self._stop = run_dir, say, stop
        self._clock = clock or SystemClock()
        self._done: set[tuple[str, str]] = set()  # name and digest of those that were told
        self._again_s: dict[str, float] = {}
        self._last_remark = ""

    def follow(self) -> None:
        """Until it is stopped."""
        while not self._stop.is_set():
            with suppress(ReadingStopped):
                self.look()
            self._clock.wait(self._stop, LOOK_S)

    def look(self) -> None:
        """Read what is new, the newest first. Raises Stopped."""
        try:
            names = [name for name in list_entries(self._run_dir) if step_of_name(name) is not None]
            forget_gone(self._run_dir)
        except OSError as error:
            self._remark(f"{self._run_dir}: its checkpoints cannot be listed ({error.strerror})")
            return
        newest = sorted(names, key=lambda name: step_of_name(name) or 0)[-NEWEST:]
        self._done = {(name, digest) for name, digest in self._done if name in newest}
        for name in reversed(newest):
            found = read_checkpoint(self._run_dir, name)
            if found is not None and (name, found.digest) not in self._done and self._is_due(name):
                self._read(name, found)
                return

    def _is_due(self, name: str) -> bool:
        """What was only just written would not be remembered."""
        if self._clock.now_s() < self._again_s.get(name, 0.0):
            return False
        with suppress(OSError):
            folder = self._run_dir / "checkpoints" / name
            changed_s = max((path.stat().st_ctime for path in folder.rglob("*")), default=0.0)
            return not 0.0 <= self._clock.wall_s() - changed_s <= YOUNG_S
        return False

    def _read(self, name: str, found: CheckpointFound) -> None:
        recall = Recall(self._run_dir, name, "remembered")
        try:
            saved = check_bytes(self._run_dir / found.path, recall, self._progressed, readers=1)
        except GiveUp as damage:
            if not self._is_still(name, found):
                return
            result: dict[str, Any] = {"saved": None, "damage": str(damage)}
        except OSError as error:
            self._again_s[name] = self._clock.now_s() + AGAIN_S
            self._remark(f"{found.path} cannot be read behind training ({error.strerror}): tried again in {time_words(AGAIN_S)}")
            return
        else:
            result = {"saved": _saved_to_json(saved, read_numbers(self._run_dir / found.path)), "damage": ""}
        self._done.add((name, found.digest))
        if recall.trouble:
            self._remark(recall.trouble)
        self._say(dumps({"step": found.step, "digest": found.digest, **result}))

    def _is_still(self, name: str, found: CheckpointFound) -> bool:
        """What is moved aside or deleted while it is read looks damaged."""
        try:
            return read_committed(self._run_dir, name).digest == found.digest
        except (OSError, NotACheckpoint):
            return False

    def _progressed(self) -> None:
        if self._stop.is_set():
            raise ReadingStopped

    def _remark(self, words: str) -> None:
        if words != self._last_remark:
            self._last_remark = words
            self._say(words)


def read_line(line: str) -> CheckpointRead:
    """What a line tells. Raises ValueError, KeyError, TypeError, AttributeError for one that is for people."""
    document = loads(line)
    saved = None if document["saved"] is None else _saved_from_json(document["saved"])
    return CheckpointRead(int(document["step"]), str(document["digest"]), saved, str(document["damage"]))


def _saved_to_json(saved: SavedNumbers, numbers: dict[str, float]) -> dict[str, Any]:
    assert saved.read is not None
    assert saved.values is not None
    bad = saved.values.bad
    few = replace(saved.values, bad=bad[:NAMED_BAD_MAX], more_bad=saved.values.more_bad + len(bad[NAMED_BAD_MAX:]))
    return {
        "digest": saved.digest,
        "checked": saved.checked,
        "numbers": list(numbers.items()),
        "values": values_to_json(few),
        "read": asdict(saved.read),
    }


def _saved_from_json(document: dict[str, Any]) -> SavedNumbers:
    numbers = tuple((str(name), as_float(value)) for name, value in document["numbers"])
    values: SavedValues = values_from_json(document["values"])
    read = ReadBack(**document["read"])
    return SavedNumbers(str(document["digest"]), str(document["checked"]), numbers, values=values, read=read)
