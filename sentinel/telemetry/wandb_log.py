"""The file that a Weights & Biases run keeps of itself, `wandb/*run-*/run-ID.wandb`, offline and online alike.

Seven bytes (`:W&B`, the number 0xBEE1, a version), then records in blocks of 32 KiB as LevelDB's log has them (log_format.md of
LevelDB): checksum (4 bytes), length (2), kind (1: whole, 2: first, 3: middle, 4: last), data; a record never begins in the last
six bytes of a block. The checksum is a plain CRC-32 of kind and data. A whole record is a protobuf message, and a row is its
field 2: items (field 1) with a name (2 for each level of it, or 1) and a value in JSON (16). Read off files of wandb 0.31.0,
2026-11.

W&B writes whole blocks: of a run that goes on, the newest hundred rows or so are not in the file yet.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.client.strict_json import as_float
from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import whole_number
from sentinel.telemetry.joined_steps import JoinedSteps
from sentinel.telemetry.log_reader import NotedLog
from sentinel.telemetry.metric_names import canonical
from sentinel.telemetry.protobuf import read_fields

MAGIC = b":W&B"
HEAD_BYTES = 7
BLOCK_BYTES = 32 << 10
READ_BYTES = 1 << 20
RECORD_MAX_BYTES = 1 << 20  # longer ones hold tables and pictures, and no row of numbers
VALUE_MAX_BYTES = 64  # a number is no longer
RECORD = struct.Struct("<IHB")
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4
HISTORY, ITEM, KEY, NESTED_KEY, VALUE_JSON = 2, 1, 1, 2, 16
OWN_STEP = "_step"  # how often something was logged, unless the trainer says which step it is


def looks_like_wandb(head: bytes) -> bool:
    return head.startswith(MAGIC)


def wandb_files(folder: Path) -> list[Path]:
    """Of the folder of one run."""
    return sorted(folder.glob("run-*.wandb"))


class WandbLog(NotedLog):
    """The rows of one run."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._offset = HEAD_BYTES
        self._parts: list[bytes] | None = None  # of the record that is being read; None: passed over up to its end
        self._steps = JoinedSteps()

    def poll(self, now_s: float) -> list[StepReading]:
        del now_s
        with open(self.path, "rb", opener=regular) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(self._offset)
            data = file.read(READ_BYTES)
        out: list[StepReading] = []
        taken = self._scan(data, out)
        self._offset += taken
        self.has_more = taken > 0 and self._offset < size
        return out

    def finish(self) -> list[StepReading]:
        size = os.stat(self.path).st_size
        if self._offset < size:
            self._note(f"{self.path.name}: the last record, at byte {self._offset}, is not whole")
            self._offset = size
        return self._steps.finish()

    def _scan(self, data: bytes, out: list[StepReading]) -> int:
        """Take whole parts of records; returns how many bytes were used up."""
        place, end = 0, len(data)
        while True:
            left = BLOCK_BYTES - (self._offset + place) % BLOCK_BYTES
            if left < RECORD.size:
                if place + left > end:
                    return place
                place += left
                continue
            if place + RECORD.size > end:
                return place
            check, size, kind = RECORD.unpack_from(data, place)
            begin, stop = place + RECORD.size, place + RECORD.size + size
            if stop > end and RECORD.size + size <= left:
                return place
            if RECORD.size + size > left or check != zlib.crc32(data[place + 6 : stop]):
                if place + left > end:  # W&B may be about to write it
                    return place
                if check or size or kind:  # a block may end in zeros
                    self._note(f"{self.path.name}: the record at byte {self._offset + place}: its checksum is wrong")
                place, self._parts = place + left, None
                continue
            self._take(kind, data[begin:stop], out)
            place = stop

    def _take(self, kind: int, data: bytes, out: list[StepReading]) -> None:
        if kind in (WHOLE, FIRST):
            self._parts = []
        if self._parts is None:
            return
        self._parts.append(data)
        if sum(map(len, self._parts)) > RECORD_MAX_BYTES:
            self._parts = None
        elif kind in (WHOLE, LAST):
            message, self._parts = b"".join(self._parts), None
            try:
                for number, value in read_fields(message):
                    if number == HISTORY and isinstance(value, bytes):
                        out += self._row(value)
            except (ValueError, IndexError) as error:
                self._note(f"{self.path.name}: a record before byte {self._offset + len(message)}: {error}")

    def _row(self, history: bytes) -> list[StepReading]:
        own, step, time_s = -1, -1, 0.0
        metrics: dict[str, float] = {}
        for number, item in read_fields(history):
            if number != ITEM or not isinstance(item, bytes):
                continue
            name, text = _item(item)
            if len(text) > VALUE_MAX_BYTES:
                continue
            with suppress(ValueError):
                value = json.loads(text)
                known = canonical(name)
                if name == OWN_STEP:
                    own = whole_number(value, -1)
                elif known == "step":
                    step = whole_number(value, -1)
                elif known == "time_s":
                    time_s = as_float(value)
                elif not name.startswith("_"):  # W&B's own: _runtime, _wandb
                    metrics.setdefault(known, as_float(value))
        at = step if step >= 0 else own
        return self._steps.add(at, time_s, metrics) if at >= 0 and metrics else []


def _item(data: bytes) -> tuple[str, bytes]:
    """The name, its levels with a slash between them, and the value in JSON."""
    levels: list[str] = []
    text = b""
    for number, value in read_fields(data):
        if number in (KEY, NESTED_KEY) and isinstance(value, bytes):
            levels.append(value.decode(errors="replace"))
        elif number == VALUE_JSON and isinstance(value, bytes):
            text = value
    return "/".join(levels), text
