"""The values of a whole checkpoint that are NaN or infinite, counted while every byte of its files is read for their digests.

    counting = Counting(folder)
    counting.expect(names)                  # of all files
    count = counting.begin(name, size)      # before the file is read: where its tensors lie
    count.feed(offset, block)               # each block, in order
    counting.end(name, count)               # what this file holds
    counting.add(values)                    # of a file that is known from before, and was not read
    counting.found()                        # of all

A file whose numbers cannot be counted is told with the reason. It is never damage by itself: its digest says that.
"""

from __future__ import annotations

import re
import threading
from bisect import insort
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from sentinel.checkpoints.tensors.archives import MAGIC, ArchiveWindow
from sentinel.checkpoints.tensors.pickles import PICKLE_BYTES_MAX
from sentinel.checkpoints.tensors.safetensors_file import read_safetensors
from sentinel.checkpoints.tensors.sharded import Layout, read_layout, read_sharded
from sentinel.checkpoints.tensors.stretches import Count, Stretch, StretchCount, UncountableNumbers, begin_count, shown
from sentinel.checkpoints.tensors.torch_zip import read_torch_zip
from sentinel.client.regular_file import regular
from sentinel.model.saved import BadTensor, SavedValues

METADATA = ".metadata"
BEFORE_1_6 = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # torch's legacy magic number, pickled
BAD_MAX, REASONS_MAX = 100, 20
BEGINNING = 4096
RANDOM = re.compile(r"rng[-_.]")  # the state of a random generator is whole numbers, in whatever format
# Bytes with which text does not go on: control characters but tab, line feed, carriage return and form feed.
NOT_TEXT = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f")


class Counting:
    """Files may begin in several threads at once; they end one after the other."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()  # of the reasons, and of reading a folder's layout once
        self._folder, self._names = folder, frozenset[str]()
        self._layouts: dict[PurePosixPath, Layout | str] = {}
        self._values = self._files = 0
        self._bad: list[BadTensor] = []
        self._more_bad = 0
        self._why: list[str] = []
        self._more_why = 0
        self._why_of: dict[str, list[str]] = {}  # by file, the same reasons
        self._unsure: set[str] = set()

    def expect(self, names: Iterable[str]) -> None:
        """The files that the manifest lists: no other is opened."""
        self._names = frozenset(names)

    def begin(self, name: str, size: int) -> Count:
        """Where the numbers of a file lie; an empty count where there are none or where they cannot be found. Never raises."""
        try:
            with open(self._folder / name, "rb", opener=regular) as file:
                stretches, why = self._stretches(PurePosixPath(name), file, size)
                count = begin_count(stretches, size)
        except UncountableNumbers as error:
            self._note(name, str(error))
            return Count(())
        except (OSError, ValueError, MemoryError) as error:
            self._unsure.add(name)
            self._note(name, f"it cannot be read ({getattr(error, 'strerror', None) or type(error).__name__})")
            return Count(())
        for reason in why:
            self._note(name, reason)
        return count

    def end(self, name: str, count: Count) -> SavedValues:
        """What this file holds, by itself."""
        bad: list[BadTensor] = []
        if count.stretches and not count.is_whole:
            self._unsure.add(name)
            self._note(name, "it changed while it was read")
        for tally in count.bad:
            if tally.stretch.is_exact:
                bad.append(_bad(name, tally))
            else:
                self._note(name, f"{tally.stretch.name}: a view with gaps, around which values are not finite")
        with self._lock:
            unread = tuple(self._why_of.pop(name, ()))
        files = 1 if count.stretches else 0
        bad.sort(key=lambda one: not one.nan)
        own = SavedValues(files, count.values if files else 0, tuple(bad[:BAD_MAX]), max(0, len(bad) - BAD_MAX), unread)
        self._take(own)
        return own

    def add(self, known: SavedValues) -> None:
        """Of a file that is not read this time."""
        self._take(known)
        for reason in known.unread:
            self._keep(reason)

    def is_sure(self, name: str) -> bool:
        """Whether what was counted of the file will be the same the next time: no call failed on the way."""
        return name not in self._unsure

    def _take(self, own: SavedValues) -> None:
        self._files += own.files
        self._values += own.values
        self._more_bad += own.more_bad
        for bad in own.bad:
            if len(self._bad) < BAD_MAX or bad.nan:
                self._bad.append(bad)
            else:
                self._more_bad += 1
        if len(self._bad) > 2 * BAD_MAX:
            self._trim()

    def found(self) -> SavedValues:
        self._trim()
        why = tuple(self._why) + ((f"{self._more_why} more",) if self._more_why else ())
        return SavedValues(self._files, self._values, tuple(self._bad), self._more_bad, why)

    def _trim(self) -> None:
        """Those with NaN first: they are what decides."""
        self._bad.sort(key=lambda bad: not bad.nan)
        self._more_bad += max(0, len(self._bad) - BAD_MAX)
        del self._bad[BAD_MAX:]

    def _note(self, name: str, reason: str) -> None:
        self._keep(words := f"{shown(name)}: {reason}")
        with self._lock:
            own = self._why_of.setdefault(name, [])
            if len(own) < REASONS_MAX:
                own.append(words)

    def _keep(self, words: str) -> None:
        """The first REASONS_MAX in the order of their words are kept, whichever file was read first."""
        with self._lock:
            insort(self._why, words)
            if len(self._why) > REASONS_MAX:
                self._why.pop()
                self._more_why += 1

    def _stretches(self, name: PurePosixPath, file: BinaryIO, size: int) -> tuple[list[Stretch], list[str]]:
        if name.name == METADATA:
            return [], []
        if name.suffix == ".safetensors":
            return read_safetensors(file, size), []
        if name.suffix == ".distcp":
            return read_sharded(file, size, self._layout(name.parent).files.get(name.name, []))
        beginning = file.read(BEGINNING)
        if beginning.startswith(MAGIC):
            return read_torch_zip(ArchiveWindow(file, 0, size))
        if is_text(beginning) or RANDOM.match(name.name):
            return [], []
        if beginning.startswith(BEFORE_1_6):
            raise UncountableNumbers("torch wrote it in its format of before version 1.6, which is not read")
        raise UncountableNumbers("its format is not known")

    def _layout(self, folder: PurePosixPath) -> Layout:
        """Of a folder's `.metadata`, which is read once. Raises UncountableNumbers."""
        with self._lock:
            known = self._layouts.get(folder)
            if known is None:
                known = self._layouts[folder] = self._read_layout(folder / METADATA)
        if isinstance(known, str):
            raise UncountableNumbers(known)
        return known

    def _read_layout(self, name: PurePosixPath) -> Layout | str:
        if str(name) not in self._names:
            return "the manifest lists no .metadata beside it"
        try:
            with open(self._folder / name, "rb", opener=regular) as file:
                return read_layout(file.read(PICKLE_BYTES_MAX + 1))
        except UncountableNumbers as error:
            return str(error)
        except OSError as error:
            return f"its .metadata cannot be read ({error.strerror})"


def is_text(beginning: bytes) -> bool:
    """Whether a file begins as text does, or is empty: an index, a configuration, a log."""
    if len(beginning.translate(None, NOT_TEXT)) < len(beginning):
        return False
    try:
        beginning.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(beginning) - 3 and len(beginning) == BEGINNING  # a character that the block ends in
    return True


def _bad(name: str, tally: StretchCount) -> BadTensor:
    return BadTensor(shown(name), tally.stretch.name, tally.values, tally.nan, tally.infinite, tally.has_number)
