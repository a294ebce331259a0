"""Which rank speaks where several print into one log: the first that named a step, until it has been silent for long.

Launchers put the rank in front of each line: torchrun (`[rank3]:`, `[default7]:`), srun -l (`3: `), mpirun (`[1,3]<stdout>:`).
"""

from __future__ import annotations

import re

SILENCE_LINES = 2048  # of others, before another rank is listened to: output comes in bursts where it is buffered
_RANK = re.compile(rb"\s*(?:\[(?:rank|default|trainer)?\s?(\d{1,6})\]:|\[\d+,(\d{1,6})\]<std\w+>:|(\d{1,6}): )")


class Speaker:
    """`passed_over` counts the lines of the others."""

    def __init__(self) -> None:
        self.passed_over = 0
        self._rank: bytes | None = None
        self._front = b""  # what stands in front of the lines of the one listened to
        self._silent = 0

    def is_other(self, line: bytes) -> bool:
        """Does this line of a step belong to another rank than the one listened to? Lines without a rank belong to all."""
        if self._front and line.startswith(self._front):
            self._silent = 0
            return False
        found = _RANK.match(line)
        if found is None:
            return False
        rank = found[1] or found[2] or found[3]
        if rank != self._rank and (self._rank is None or self._silent >= SILENCE_LINES):
            self._rank = rank
        if rank == self._rank:
            self._silent, self._front = 0, found[0]
            return False
        self._silent += 1
        self.passed_over += 1
        return True
