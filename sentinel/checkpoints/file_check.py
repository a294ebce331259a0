"""One file of a checkpoint, compared with its manifest's line: read whole, in samples, or not at all where it is remembered."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sentinel.checkpoints.files import NAME_CHARS_MAX, is_damage, shown
from sentinel.checkpoints.manifest import ListedFile
from sentinel.checkpoints.memory import STRETCH_BYTES, FileMemory, Stamp, draw_stretches
from sentinel.checkpoints.ranged_file import RangedFile, SharedRanges
from sentinel.checkpoints.recall import Recall
from sentinel.checkpoints.tensors.counting import Counting
from sentinel.checkpoints.tensors.stretches import Count
from sentinel.client.checkpoint_files import leads_out
from sentinel.client.file_digest import BLOCK_BYTES, TREE, new_hasher
from sentinel.client.regular_file import regular


class Checked(NamedTuple):
    """One file, looked at. `problem`: what is wrong with it, empty where nothing is. `values`: counted, where they are. `was`:
    what was remembered of it, where that was enough; `now`: what is to be remembered of one that was read whole."""

    problem: str
    values: Count | None = None
    read_bytes: int = 0
    was: FileMemory | None = None
    now: FileMemory | None = None


class FileCheck:
    """Of the files of the checkpoint at `path`; several threads may use it at once. `ranges`: where those that have no file of
    their own find something to read."""

    def __init__(self, path: Path, counting: Counting | None, recall: Recall, ranges: SharedRanges) -> None:
        self._path = path
        self._counting = counting
        self._recall = recall
        self._ranges = ranges

    def check(self, file: ListedFile, progressed: Callable[[], None]) -> Checked:
        """What is wrong with one file. Its name is a trainer's, or what a sick disk made of it: no terminal takes a command from
        it. Raises OSError for what says nothing about it."""
        name = file.name
        place = f"{self._path}/{name if name.isprintable() and len(name) <= NAME_CHARS_MAX else shown(name)}"
        try:
            if target := leads_out(self._path, name):
                return Checked(f"{place}: is a link out of the checkpoint, to {shown(target)}")
            with open(self._path / name, "rb", opener=regular) as opened:
                stamp, began_s = Stamp.of(os.fstat(opened.fileno())), self._recall.looks_at_s()
                if stamp.size != file.size:
                    return Checked(f"{place}: {stamp.size} bytes, the manifest says {file.size}")
                was = self._recall.known(name, file.digest.text, stamp, with_values=self._counting is not None)
                if was is not None and self._recall.how == "remembered":
                    return Checked("", was=was)
                if was is not None and (sampled := self._sample(opened, name, was, progressed)) is not None:
                    return Checked("", read_bytes=sampled, was=was)
                digest, count, crcs = self._digest(opened, file, progressed)
                is_same = Stamp.of(os.fstat(opened.fileno())) == stamp
        except ValueError:  # a surrogate, or a NUL: no call was made
            return Checked(f"{place}: is no name of a file")
        except OSError as error:
            if not is_damage(error):
                raise
            return Checked(f"{place}: cannot be read ({error.strerror})")
        if digest != file.digest.hex:
            return Checked(f"{place}: {file.digest.algorithm} is {digest[:12]}…, the manifest says {file.digest.hex[:12]}…")
        now = self._recall.fresh(stamp, file.digest.text, crcs, began_s) if is_same else None
        return Checked("", count, file.size, now=now)

    def _sample(self, opened: BinaryIO, name: str, was: FileMemory, progressed: Callable[[], None]) -> int | None:
        """Bytes of the drawn stretches, all of which are as they were; None where one is not: then it has to be read whole."""
        read = 0
        for number in draw_stretches(was.stamp.size, f"{self._recall.seed} {name}"):
            opened.seek(number * STRETCH_BYTES)
            crc, left = 0, STRETCH_BYTES
            while left and (block := opened.read(min(BLOCK_BYTES, left))):
                progressed()
                crc, left = zlib.crc32(block, crc), left - len(block)
            read += STRETCH_BYTES - left
            if crc != was.crcs[number]:
                opened.seek(0)
                return None
        return read

    def _digest(
        self, opened: BinaryIO, file: ListedFile, progressed: Callable[[], None]
    ) -> tuple[str, Count | None, tuple[int, ...]]:
        """The digest of an open file, whose values are counted as they are read, and the CRC of each stretch where it is to be
        remembered."""
        count = None if self._counting is None else self._counting.begin(file.name, file.size)
        if file.digest.algorithm == TREE:
            ranged = RangedFile(opened.fileno(), file.size, count, self._recall.remembers)
            return self._ranges.read(ranged, progressed)
        digest, offset, crcs = new_hasher(file.digest.algorithm), 0, list[int]()
        while block := opened.read(BLOCK_BYTES):
            progressed()
            digest.update(block)
            if count is not None:
                count.feed(offset, block)
            if self._recall.remembers:
                if offset % STRETCH_BYTES == 0:
                    crcs.append(0)
                crcs[-1] = zlib.crc32(block, crcs[-1])
            offset += len(block)
        return digest.hexdigest(), count, tuple(crcs)
