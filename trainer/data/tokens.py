"""Tokens in memory or in mapped files, cut in slices: nothing is read before it is used, and the kernel keeps what was."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from ..exits import DataError


@dataclass(frozen=True)
class Segment:
    """`array`: 1-D. Of a mapped file also its mapping, and the byte in it where the array begins."""

    array: np.ndarray
    memory: mmap.mmap | None = None
    first_byte: int = 0

    def part(self, start: int, stop: int) -> Segment:
        return Segment(self.array[start:stop], self.memory, self.first_byte + start * self.array.itemsize)


def mapped(path: Path, dtype: np.dtype) -> Segment:
    """A whole file as an array, mapped read-only; its size must divide by the dtype's. Raises DataError."""
    try:
        with path.open("rb") as file:
            if not file.seek(0, 2):
                return Segment(np.empty(0, dtype))
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise DataError(f"{path}: is missing; copy it here again, or prepare the data anew") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be mapped ({error}); look at its permissions and its file system") from None
    if len(memory) % dtype.itemsize:
        raise DataError(f"{path}: {len(memory)} bytes are no whole number of {dtype.name} tokens; copy the file again")
    return Segment(np.frombuffer(memory, dtype), memory)


class Tokens:
    """A 1-D run of tokens over one or several pieces."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._ends = list(accumulate(len(segment.array) for segment in segments))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def cut(self, start: int, stop: int) -> np.ndarray:
        """Tokens start..stop in their own dtype, (stop - start,); a view where they lie in one piece."""
        parts = [part.array for part in self._parts(start, stop)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def prefetch(self, start: int, stop: int) -> None:
        """Let the kernel begin to read these from the disk; returns at once, and does nothing where they are in memory."""
        for part in self._parts(start, stop):
            if part.memory is not None:
                page = part.first_byte - part.first_byte % mmap.PAGESIZE
                part.memory.madvise(mmap.MADV_WILLNEED, page, part.first_byte + part.array.nbytes - page)

    def _parts(self, start: int, stop: int) -> list[Segment]:
        assert 0 <= start < stop <= len(self)
        number, parts = bisect_right(self._ends, start), []
        while start < stop:
            segment, end = self._segments[number], self._ends[number]
            begin = end - len(segment.array)
            parts.append(segment.part(start - begin, min(stop, end) - begin))
            start, number = min(stop, end), number + 1
        return [part for part in parts if len(part.array)]
