"""TensorBoard event files: a file, or a directory with several of one run, read in the order of their time stamps.

The stock loader stops silently at a flipped byte; here a damaged record is left out and counted, and where its length cannot be
believed the next record whose length checks out is looked for. Appends to older files are not lost: every file keeps its place.
Scalars of one step are put together to one reading; a step is given out when later ones have come. Tags of both of Megatron's
generations are known (see `metric_names`); its `... vs samples` duplicates (`vs tokens`, ...) are ignored, their step is none.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sentinel.client.regular_file import regular
from sentinel.model.readings import StepReading
from sentinel.run_files.stream_lines import LARGEST_INT
from sentinel.telemetry.event_records import (
    DOUBLE,
    FLOAT,
    FOOTER,
    HEADER,
    MASK_DELTA,
    FastScalars,
    Scalar,
    crc32c,
    masked,
    read_scalars,
)
from sentinel.telemetry.log_reader import ATTEMPT, NotedLog
from sentinel.telemetry.metric_names import canonical

BLOCK_BYTES = 1 << 20
RECORD_MAX_BYTES = 256 * 1024  # larger records are pictures and histograms: passed over unread
OPEN_STEPS = 4  # steps that wait for their last tags
TAGS_MAX = 65536
LENGTHS_MAX = 65536
VS = " vs "  # Megatron and its forks draw each curve over samples, tokens and gigaflops as well: no steps
OURS = "sentinel/"  # what our own boards mark and tell beside the metrics
_STAMP = re.compile(r"tfevents\.(\d+)")


def event_files(place: Path) -> list[Path]:
    """The event files in this directory (not below it), oldest first; the file itself when it is one."""
    if not place.is_dir():
        return [place]
    names = [entry.name for entry in os.scandir(place) if "tfevents" in entry.name and entry.is_file()]
    return [place / name for name in sorted(names, key=_age)]


def _age(name: str) -> tuple[int, str]:
    found = _STAMP.search(name)
    return (int(found[1]) if found else 0), name


def looks_like_events(head: bytes) -> bool:
    """Does it begin with a length whose checksum is right?"""
    return len(head) >= HEADER.size and masked(crc32c(head[:8])) == HEADER.unpack_from(head)[1]


class EventFile:
    """One file: its place, and the scalars of whole records behind it."""

    def __init__(self, path: Path, fast: FastScalars) -> None:
        self.path = path
        self.damage, self.has_more = list[str](), False  # damage since it was last looked at
        self._fast = fast
        self._offset = 0
        self._size = 0
        self._lost = False  # looking for the next record that can be believed
        self._good_lengths: dict[int, int] = {}

    def poll(self) -> list[Scalar]:
        """The scalars of the next block. OSError when the file cannot be read."""
        with open(self.path, "rb", opener=regular) as file:
            size = os.fstat(file.fileno()).st_size
            if size < self._size:
                self._offset, self._lost = 0, False
            self._size = size
            file.seek(self._offset)
            block = file.read(BLOCK_BYTES)
        out: list[Scalar] = []
        taken = self._scan(block, out)
        self._offset += taken
        self.has_more = taken > 0 and self._offset < size
        return out

    def finish(self) -> None:
        """Nothing more will be written: what stands behind the last whole record is lost."""
        if self._size != self._offset:
            self.damage.append(f"{self.path.name}: the last record, at byte {min(self._offset, self._size)}, is not whole")
            self._offset = self._size

    def _scan(self, block: bytes, out: list[Scalar]) -> int:
        """Take whole records; returns how many bytes were used up."""
        place, end = 0, len(block)
        header, footer, lengths, read = HEADER.unpack_from, FOOTER.unpack_from, self._good_lengths, self._fast.read
        while True:
            if self._lost:
                place = self._seek(block, place)
            if self._lost or place + 12 > end:
                return place
            size, check = header(block, place)
            if lengths.get(size) != check and not self._believes(block, place, size, check):
                place += 1
                continue
            start, stop = place + 12, place + 12 + size
            if size > RECORD_MAX_BYTES:
                place = stop + 4  # a picture: go on behind it, and behind the block if it ends there
                continue
            if stop + 4 > end:
                return place
            data = block[start:stop]
            crc = crc32c(data)
            if ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF != footer(block, stop)[0]:  # as `masked`, without a call
                self._note(place, "its checksum is wrong")
            elif (known := read(data)) is None:
                self._slowly(data, place, out)
            elif known[1]:
                out.append((known[0], DOUBLE.unpack_from(data, 1)[0], known[1], FLOAT.unpack_from(data, size - 4)[0]))
            place = stop + 4

    def _believes(self, block: bytes, place: int, size: int, check: int) -> bool:
        """Is the length's checksum right? Otherwise the way is lost."""
        if masked(crc32c(block[place : place + 8])) == check:
            if len(self._good_lengths) < LENGTHS_MAX:
                self._good_lengths[size] = check
            return True
        self._note(place, "the checksum of its length is wrong")
        self._lost = True
        return False

    def _seek(self, block: bytes, place: int) -> int:
        """The place of the next record that can be believed, else as far as was searched. Lengths below 2**24 are looked for:
        five zero bytes in a row begin the search."""
        end = len(block)
        while True:
            zeros = block.find(b"\0\0\0\0\0", place + 3)
            if zeros < 0 or zeros + 9 > end:
                return max(place, end - 12)
            for start in range(max(place, zeros - 3), min(zeros + 1, end - 11)):
                if masked(crc32c(block[start : start + 8])) == HEADER.unpack_from(block, start)[1]:
                    self._lost = False
                    return start
            place = zeros - 2

    def _slowly(self, data: bytes, place: int, out: list[Scalar]) -> None:
        try:
            scalars = read_scalars(data)
        except (ValueError, IndexError) as error:
            return self._note(place, f"it is no event ({error})")
        if len(scalars) == 1:
            tag = scalars[0][2]
            self._fast.learn(data, tag, "" if VS in tag or tag.startswith(OURS) else tag)
        out += scalars
        return None

    def _note(self, place: int, what: str) -> None:
        self.damage.append(f"{self.path.name}: the record at byte {self._offset + place}: {what}")


class EventLog(NotedLog):
    """All event files of one place as one log of step readings."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._fast = FastScalars()
        self._files: dict[Path, EventFile] = {}
        self._names: dict[str, str] = {}
        self._open: dict[int, tuple[float, dict[str, float]]] = {}  # by step, in the order they came

    def poll(self, now_s: float) -> list[StepReading]:
        del now_s
        out: list[StepReading] = []
        if not self.has_more:
            for path in event_files(self.path):
                if path not in self._files:
                    self._files[path] = EventFile(path, self._fast)
        for file in tuple(self._files.values()):
            try:
                scalars = file.poll()
            except FileNotFoundError:
                if len(self._files) == 1:
                    raise
                del self._files[file.path]  # removed by somebody; the others go on
                continue
            self._note_damage(file)
            self._gather(scalars, out)
            if file.has_more:
                break
        self.has_more = any(file.has_more for file in self._files.values())
        if not self.has_more:
            self._give_out(1, out)  # the newest may still be missing a tag
        return out

    def finish(self) -> list[StepReading]:
        out: list[StepReading] = []
        for file in self._files.values():
            file.finish()
            self._note_damage(file)
        self._give_out(0, out)
        return out

    def _gather(self, scalars: list[Scalar], out: list[StepReading]) -> None:
        waiting, names = self._open, self._names
        newest = -1
        metrics: dict[str, float] = {}
        for step, wall_s, tag, value in scalars:
            name = names.get(tag)
            if name is None:
                name = self._name(tag)
            if not name or step >= LARGEST_INT:
                continue
            if step != newest:
                newest = step
                found = waiting.get(step)
                if found is None:
                    self._give_out(0 if waiting and step < min(waiting) else OPEN_STEPS - 1, out)
                    found = waiting[step] = (wall_s, {})
                metrics = found[1]
            if name not in metrics:
                metrics[name] = value

    def _give_out(self, keep: int, out: list[StepReading]) -> None:
        waiting = self._open
        while len(waiting) > keep:
            step = min(waiting)
            wall_s, metrics = waiting.pop(step)
            out.append(StepReading(ATTEMPT, step, wall_s if wall_s - wall_s == 0.0 else 0.0, (), metrics))

    def _name(self, tag: str) -> str:
        """Empty for what is no metric of a step."""
        name = "" if VS in tag or tag.startswith(OURS) else canonical(tag)
        if name in ("step", "time_s"):
            name = ""
        if len(self._names) < TAGS_MAX:
            self._names[tag] = name
        return name

    def _note_damage(self, file: EventFile) -> None:
        for what in file.damage:
            self._note(what)
        file.damage.clear()
