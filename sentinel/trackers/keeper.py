"""A living run's trackers, each kept by a process of its own: a network that hangs hangs that process, and nobody else.

A Source for the loop: what a process has to say becomes a remark, and one that died is started again after AGAIN_S.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sentinel.model.readings import Reading
from sentinel.remarks import Remarks
from sentinel.telemetry.lasting_helper import LastingHelper
from sentinel.trackers.registry import Target, parse_target

SOURCE = "trackers"
CLOSE_S = 10.0


class TrackerKeeper(Remarks):
    """`close` waits CLOSE_S at most, all trackers together, and says what is not complete by then."""

    def __init__(self, run_dir: Path, targets: Sequence[Target]) -> None:
        super().__init__()
        self._run_dir = run_dir
        self._helpers = [
            LastingHelper(one.text, ("track", "--to", one.text, "--follow", "--until-eof", os.fspath(run_dir))) for one in targets
        ]

    def poll(self, now_s: float) -> list[Reading]:
        for helper in self._helpers:
            for words in helper.turn(now_s):
                self.say(SOURCE, words)
        return super().poll(now_s)

    def close(self) -> None:
        for helper in self._helpers:
            if not helper.finish(CLOSE_S / len(self._helpers)):
                remedy = f"`sentinel track --to {helper.name} {self._run_dir}` completes it"
                with suppress(OSError, ValueError):
                    print(f"{self._run_dir}: {helper.name} may not have all of it; {remedy}", file=sys.stderr)
        self._helpers = []


def open_trackers(run_dir: Path, track: Sequence[str]) -> TrackerKeeper:
    """`track`: targets that were checked."""
    return TrackerKeeper(run_dir, [parse_target("--track", text) for text in track])
