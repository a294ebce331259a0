"""Hugging Face's trainer_state.json: the `log_history` of a Trainer, read entry by entry without holding the document.

Entries of one step (a training one and an evaluation) become one reading. Names are the Trainer's (`loss`, `grad_norm`,
`learning_rate`, `eval_loss`, ...). The file is written anew at every save: following it reads
it again and gives out what is new. A document that ends too soon is damage; what stood before the end is given out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from json import JSONDecodeError
from typing import IO, Any

from sentinel.client.regular_file import regular
from sentinel.client.strict_json import as_float
from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import whole_number
from sentinel.telemetry.log_reader import ATTEMPT, RewrittenLog
from sentinel.telemetry.metric_names import canonical

CHUNK_CHARS = 1 << 16
ENTRY_CHARS_MAX = 1 << 20
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_HEAD = re.compile(rb'^\s*\{.*"(?:log_history|global_step|trial_name)"\s*:', re.DOTALL)
_NO_METRIC = frozenset({"step", "time_s"})


def looks_like_trainer_state(head: bytes) -> bool:
    """An object with the Trainer's keys, over several lines or with a history; a line of metrics has a step and no history."""
    return _HEAD.search(head) is not None and (b'"log_history"' in head or b'"is_world_process_zero"' in head)


class TrainerStateLog(RewrittenLog):
    """The history as readings."""

    _given = -1  # newest step given out

    def _read(self) -> Iterator[StepReading]:
        for reading in self._readings():
            if reading.step > self._given:
                self._given = reading.step
                yield reading

    def _readings(self) -> Iterator[StepReading]:
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
        with open(self.path, encoding="utf-8", errors="replace", opener=regular) as file:
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


def _metrics(entry: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, value in entry.items():
        name = canonical(key)
        if name in _NO_METRIC:
            continue
        with suppress(ValueError):
            found[name] = as_float(value)
    return found
