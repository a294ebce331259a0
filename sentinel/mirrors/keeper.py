"""A living run's mirror, pushed by a process of its own: a target that is slow or away holds up that process, and nobody else.

A Source for the loop. What the process says becomes a remark. How far the mirror is becomes readings, by the loop's own clock: a
process that says nothing has not pushed anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sentinel.client.strict_json import loads
from sentinel.clock import SystemClock
from sentinel.mirrors.opening import check_place
from sentinel.mirrors.settings import MirrorSettings
from sentinel.model.readings import MirrorReading, Reading
from sentinel.remarks import Remarks
from sentinel.run_files.mirror_standing import MirrorStanding, Part, PartStanding
from sentinel.telemetry.lasting_helper import LastingHelper

SOURCE = "mirror"
CLOSE_S = 10.0
TELL_S = 10.0
LINE_CHARS_MAX = 64 << 10


class MirrorKeeper(Remarks):
    """Without settings it does nothing. `close` waits CLOSE_S at most, and says what is not complete by then."""

    def __init__(self, run_dir: Path, settings: MirrorSettings | None) -> None:
        super().__init__()
        self._run_dir, self._settings = run_dir, settings
        self._clock = SystemClock()
        self._reported_s = float("-inf")
        self._parts: dict[Part, PartStanding] = {}
        self._until_s: dict[Part, float] = {}  # by part, when the mirror was last known to hold all that was due, session clock
        if settings is not None:
            self._parts["journal"] = PartStanding(every_s=settings.journal_s)
            self._parts["streams"] = PartStanding(every_s=settings.streams_s)
        words = ("mirror", "push", "--follow", "--until-eof", os.fspath(run_dir))
        self._helper = None if settings is None else LastingHelper("mirror", words, LINE_CHARS_MAX)

    def poll(self, now_s: float) -> list[Reading]:
        if self._helper is None or self._settings is None:
            return []
        for words in self._helper.turn(now_s):
            self._hear(words, now_s)
        out = super().poll(now_s)
        if now_s - self._reported_s >= TELL_S:
            self._reported_s = now_s
            out += self._readings(self._settings, now_s)
        return out

    def _hear(self, words: str, now_s: float) -> None:
        """The process tells by wall time; a clock that is set later moves nothing that was heard before."""
        try:
            standing = MirrorStanding.of(loads(words))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.say(SOURCE, words)
            return
        for part, one in standing.parts.items():
            before = self._parts.get(part)
            if one.since_s is not None and (before is None or before.since_s != one.since_s):
                self._until_s[part] = now_s - max(0.0, self._clock.wall_s() - one.since_s)
            self._parts[part] = one

    def _readings(self, settings: MirrorSettings, now_s: float) -> list[Reading]:
        found: list[Reading] = []
        for part, one in self._parts.items():
            behind_s = max(0.0, now_s - self._until_s.setdefault(part, now_s))
            found.append(MirrorReading(part, settings.to, behind_s, one.every_s, one.error))
        return found

    def close(self) -> None:
        if self._helper is not None and not self._helper.finish(CLOSE_S):
            with suppress(OSError, ValueError):
                words = f"{self._run_dir}: the mirror may not have all of it; `sentinel mirror push {self._run_dir}` completes it"
                print(words, file=sys.stderr)
        self._helper = None


def check_mirror(texts: Mapping[str, str], run_dir: Path) -> None:
    """Raises UsageError for what can never be a mirror. One that is only away now is none of that: it is tried again."""
    if texts:
        check_place(MirrorSettings.of("--mirror", texts).to, run_dir)


def open_mirror(run_dir: Path, texts: Mapping[str, str]) -> MirrorKeeper:
    """`texts`: of run.json; empty: the run has no mirror."""
    return MirrorKeeper(run_dir, MirrorSettings.of("--mirror", texts) if texts else None)
