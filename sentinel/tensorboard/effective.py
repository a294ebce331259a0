"""tensorboard/effective: the surviving lineage as one run.

Of each attempt's file it holds the beginning that survives, byte for byte: a rollback cuts files short and takes away those of
which nothing is left. So the files say the truth to every reader that begins to read them. TensorBoard with its usual loader,
open all the while, drops what it knows at or above a step that comes again; with `--load_fast=false` it shows both until it
is started again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.tensorboard.event_file import SHEET, copy_prefix, end_at, event_name, is_beginning, size_of

_NAME = re.compile(rf"{re.escape(SHEET)}\.(\d{{10}})\.sentinel")


@dataclass(frozen=True, slots=True)
class Cut:
    """Of a file of `whole` bytes the first `size` hold nothing above step `bound`."""

    bound: int
    whole: int
    size: int


@dataclass(slots=True)
class Effective:
    """`cuts`: where files were found to end, so that they are not searched again; it may be lost. Raises OSError."""

    folder: Path
    cuts: dict[int, Cut] = field(default_factory=dict)
    _trusted: set[int] = field(default_factory=set)  # looked at by this process: a beginning of their attempt's file
    _cut_before: tuple[int, int] | None = None

    def follow(self, files: Mapping[int, Path], bounds: Mapping[int, int | None]) -> None:
        """Make the folder what `bounds` say of the attempts' `files`, in the order of launch. First cuts, then what is new: a
        reader never sees a step of a new attempt beside one that it made void."""
        sizes = {attempt: self._surviving(attempt, files[attempt], bound) for attempt, bound in bounds.items()}
        earliest = min(bounds, default=0)
        for attempt, path in self._there().items():
            if attempt in sizes and sizes[attempt] > 0:
                self._shorten(attempt, path, files[attempt], sizes[attempt])
            elif attempt >= earliest:
                path.unlink(missing_ok=True)
        for attempt, size in sizes.items():
            path = self.folder / event_name(attempt)
            if size > size_of(path):
                copy_prefix(files[attempt], path, size)
                self._trusted.add(attempt)

    def cut_before(self, attempt: int, bound: int) -> None:
        """Cut what earlier attempts than `attempt` left here, of which nothing else is known any more."""
        if self._cut_before == (attempt, bound):
            return
        for number, path in self._there().items():
            if number < attempt:
                size = end_at(path, bound)
                if size == 0:
                    path.unlink(missing_ok=True)
                elif size < size_of(path):
                    os.truncate(path, size)
        self._cut_before = (attempt, bound)

    def _surviving(self, attempt: int, path: Path, bound: int | None) -> int:
        """How many bytes of the attempt's file survive."""
        whole = size_of(path)
        if bound is None or whole == 0:
            return whole
        cut = self.cuts.get(attempt)
        if cut is None or (cut.bound, cut.whole) != (bound, whole):
            cut = self.cuts[attempt] = Cut(bound, whole, end_at(path, bound))
        return cut.size

    def _shorten(self, attempt: int, path: Path, whole: Path, size: int) -> None:
        if attempt not in self._trusted and not is_beginning(path, whole):
            path.unlink(missing_ok=True)  # made from another file than the one that is there now
            return
        self._trusted.add(attempt)
        if size_of(path) > size:
            os.truncate(path, size)

    def _there(self) -> dict[int, Path]:
        """The attempts' files in the folder."""
        if not self.folder.is_dir():
            return {}
        found = ((match, path) for path in self.folder.iterdir() if (match := _NAME.fullmatch(path.name)))
        return {int(match[1]): path for match, path in sorted(found, key=lambda pair: pair[1].name)}
