"""A living run's new checkpoints, read behind training by a process of its own: a disk that hangs hangs that process alone.

A Source for the loop. What the process found of a checkpoint becomes a reading; what else it has to say becomes a remark.
"""

from __future__ import annotations

import os
from pathlib import Path

from sentinel.model.readings import Reading
from sentinel.model.saved import How
from sentinel.remarks import Remarks
from sentinel.telemetry.lasting_helper import LastingHelper
from sentinel.telemetry.reading_behind import read_line

SOURCE = "verification"
CLOSE_S = 1.0
LINE_CHARS_MAX = 256 << 10


class VerifiedBehind(Remarks):
    """With `how` full it does nothing: a resume reads every byte anyway."""

    def __init__(self, run_dir: Path, how: How) -> None:
        super().__init__()
        words = ("checkpoints", "remember", os.fspath(run_dir))
        self._helper = None if how == "full" else LastingHelper(SOURCE, words, LINE_CHARS_MAX)

    def poll(self, now_s: float) -> list[Reading]:
        found: list[Reading] = []
        for line in self._helper.turn(now_s) if self._helper is not None else ():
            try:
                found.append(read_line(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                self.say(SOURCE, line[:500])
        return [*found, *super().poll(now_s)]

    def close(self) -> None:
        """What it has read so far is kept."""
        if self._helper is not None:
            self._helper.finish(CLOSE_S)
        self._helper = None
