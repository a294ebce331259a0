"""Hugging Face's trainer_state.json: the `log_history` of a Trainer, read entry by entry without holding the document.

Entries of one step (a training one and an evaluation) become one reading. Names are the Trainer's (`loss`, `grad_norm`,
`learning_rate`, `eval_loss`, ...). The file is written anew at every save: following it reads
it again and gives out what is new. A document that ends too soon is damage; what stood before the end is given out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from json import JSONDecodeError
from pathlib import Path
from typing import IO, Any

from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import whole_number
from sentinel.telemetry.log_reader import ATTEMPT
from sentinel.telemetry.metric_names import canonical

CHUNK_CHARS = 1 << 16
ENTRY_CHARS_MAX = 1 << 20
ENTRIES_PER_POLL = 5000
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_HEAD = re.compile(rb'^\s*\{.*"(?:log_history|global_step|trial_name)"\s*:', re.DOTALL)
_NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_NO_METRIC = frozenset({"step", "time_s"})


def looks_like_trainer_state(head: bytes) -> bool:
    """An object with the Trainer's keys, over several lines or with a history; a line of metrics has a step and no history."""
    return _HEAD.search(head) is not None and (b'"log_history"' in head or b'"is_world_process_zero"' in head)


class TrainerStateLog:
    """The history as readings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self.first_damage = ""
        self.remark = ""
        self.has_more = False
        self._entries: Iterator[StepReading] | None = None
        self._given = -1  # newest step given out
        self._version: tuple[int, int] | None = None

    def poll(self, now_s: float) -> list[StepReading]:
        del now_s
        if self._entries is None:
            status = os.stat(self.path)
            version = (status.st_mtime_ns, status.st_size)
            if version == self._version:
                return []
            self._version = version
            self._entries = self._read()
        out: list[StepReading] = []
        self.has_more = True
        for reading in self._entries:
            if reading.step > self._given:
                self._given = reading.step
                out.append(reading)
                if len(out) >= ENTRIES_PER_POLL:
                    return out
        self._entries, self.has_more = None, False
        return out

    def finish(self) -> list[StepReading]:
        return []

    def close(self) -> None:
        self._entries = None

    def _read(self) -> Iterator[StepReading]:
        step = -1
        metrics: dict[str, float] = {}
        for entry in self._objects():
            at = whole_number(entry.get("step"), -1)
            if at < 0:
                self._note("an entry without a step")
                continue
            if at != step and step >= 0:
                yield StepReading(ATTEMPT, step, 0.0, (), metrics)
                metrics = {}
            step = at
            for name, value in _metrics(entry).items():
                metrics.setdefault(name, value)
        if step >= 0:
            yield StepReading(ATTEMPT, step, 0.0, (), metrics)

    def _objects(self) -> Iterator[dict[str, Any]]:
        """The objects of the history, one by one."""
        with self.path.open(encoding="utf-8", errors="replace") as file:
            text = self._find_history(file)
            if text is None:
                return self._note("no log_history in it")
            decode, place = json.JSONDecoder().raw_decode, 0
            while True:
                begins = _BETWEEN.match(text, place)
                assert begins is not None
                place = begins.end()
                if text.startswith("]", place):
                    return None
                try:
                    value, end = decode(text, place)
                except (JSONDecodeError, RecursionError):
                    value, end = None, len(text)
                    if end - place >= ENTRY_CHARS_MAX:
                        return self._note("an entry of its history is no JSON, or longer than any entry may be")
                if isinstance(value, dict):
                    yield value
                elif end < len(text):
                    self._note("an entry that is no object")
                else:  # cut off where the chunk ends, or nothing there yet
                    more = file.read(CHUNK_CHARS)
                    if not more:
                        return self._note("the document ends inside its history, or is no JSON there")
                    text, place = text[place:] + more, 0
                    continue
                place = end

    def _find_history(self, file: IO[str]) -> str | None:
        """The text behind the opening bracket."""
        text = ""
        while more := file.read(CHUNK_CHARS):
            text += more
            found = _HISTORY.search(text)
            if found is not None:
                return text[found.end() :]
            text = text[-100:]
        return None

    def _note(self, what: str) -> None:
        self.damaged += 1
        self.first_damage = self.first_damage or what


def _metrics(entry: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, value in entry.items():
        name = canonical(key)
        if name in _NO_METRIC:
            continue
        if isinstance(value, str) and value in _NON_FINITE:
            found[name] = _NON_FINITE[value]
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                found[name] = float(value)
            except OverflowError:
                continue
    return found
