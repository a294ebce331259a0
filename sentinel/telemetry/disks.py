"""The room on the disks of a run, asked by a helper process that may hang for ever without holding anybody up.

    healthy     a look every EVERY_S; each becomes readings
    failed      the filesystem answers with an error: blind until it answers with numbers
    silent      for SILENT_S: a call does not return, as on a dead network filesystem. Killed; blind
    gone        started again after 30 s, then twice as long each time, up to 10 min; never while the killed one is still there

Blind means that nothing is known of the room: never that there is some, and never that there is none.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentinel.clock import SystemClock
from sentinel.detectors.disk_full import DiskFullSettings
from sentinel.model.amounts import time_words
from sentinel.model.disks import DiskReading, SavedCheckpoint
from sentinel.model.readings import Reading
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE
from sentinel.telemetry.helper_process import HelperProcess
from sentinel.telemetry.source import SourceHealth, describe_os_error

EVERY_S = 30.0
SILENT_S = 90.0
RETRY_S, RETRY_MAX_S = 30.0, 600.0
DISKS_MAX = 8
REASON_CHARS = 300
HELPER = (sys.executable, "-P", "-m", "sentinel.telemetry.disk_helper")  # -P: not a folder `sentinel` of where it is started
SOURCE = "disks"


class DiskSource:
    """A `Source`. `roots`: folders outside of the run directory that the trainer saves to."""

    def __init__(
        self,
        run_dir: Path,
        roots: Iterable[Path] = (),
        argv: Sequence[str] = HELPER,
        environment: Mapping[str, str] | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self.disks: tuple[DiskReading, ...] = ()  # as last seen; empty while nothing is
        self._argv = (*argv, str(run_dir.absolute()), f"{every_s:g}", *(str(root) for root in roots))
        variables = os.environ if environment is None else environment
        self._environment = {name: variables[name] for name in variables if name not in (RUN_DIR_VARIABLE, ATTEMPT_VARIABLE)}
        self._silent_s = SILENT_S + every_s
        self._health = SourceHealth(SOURCE)
        self._helper: HelperProcess | None = None
        self._is_dying = False
        self._last_report_s = self._retry_at_s = float("-inf")
        self._retry_s = RETRY_S

    @property
    def has_more(self) -> bool:
        return False

    def poll(self, now_s: float) -> list[Reading]:
        """What the helper said since the last poll, the newest look of it. Never waits for it."""
        if self._helper is None:
            return self._start(now_s) if now_s >= self._retry_at_s else []
        if self._is_dying:
            if self._helper.is_over:
                self._let_go(now_s)
            return []
        lines = self._helper.read_lines()
        if lines:
            self._last_report_s = now_s
            return self._take(lines[-1])
        pid = self._helper.pid
        if self._helper.is_silent:
            return self._lost(f"the helper that looks at the disks (pid {pid}) is gone")
        silence_s = now_s - self._last_report_s
        if silence_s > self._silent_s:
            return self._lost(f"no answer for {time_words(silence_s)}: a filesystem of the run hangs (pid {pid} asks it)")
        return []

    def close(self) -> None:
        """End the helper; the source can be polled again and then starts another."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None
        self._is_dying = False

    def _start(self, now_s: float) -> list[Reading]:
        try:
            self._helper = HelperProcess(self._argv, self._environment)
        except OSError as error:
            self._wait(now_s)
            return [*self._health.lost(f"the helper that looks at the disks cannot be started: {describe_os_error(error)}")]
        self._last_report_s = now_s
        return []

    def _take(self, line: bytes) -> list[Reading]:
        try:
            message = json.loads(line)
            if message["kind"] != "disks":
                return self._unseen(str(message["reason"])[:REASON_CHARS])
            self.disks = tuple(_disk(one) for one in message["disks"][:DISKS_MAX])
        except (ValueError, TypeError, KeyError, AttributeError):
            return self._unseen("the helper that looks at the disks said what cannot be read")
        self._retry_s = RETRY_S
        return [*self._health.regained("they answer"), *self.disks]

    def _unseen(self, reason: str) -> list[Reading]:
        self.disks = ()
        return [*self._health.lost(reason)]

    def _lost(self, reason: str) -> list[Reading]:
        assert self._helper is not None, "there is a helper to lose"
        self._helper.kill()
        self._is_dying = True
        return self._unseen(reason)

    def _let_go(self, now_s: float) -> None:
        assert self._helper is not None, "there is a helper to let go"
        self._helper.close()
        self._helper, self._is_dying = None, False
        self._wait(now_s)

    def _wait(self, now_s: float) -> None:
        self._retry_at_s = now_s + self._retry_s
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)


class NoDisks:
    """The `Source` that looks at none."""

    disks: tuple[DiskReading, ...] = ()
    has_more = False

    def poll(self, now_s: float) -> list[Reading]:  # noqa: ARG002 - a Source
        return []

    def close(self) -> None: ...


def open_disks(run_dir: Path, settings: DiskFullSettings, roots: Iterable[Path] = ()) -> DiskSource | NoDisks:
    """What the policy's `detectors.disk_full` asks for; nothing is started before the first poll."""
    return DiskSource(run_dir, roots) if settings.enabled else NoDisks()


def look_once(run_dir: Path, roots: Iterable[Path] = (), wait_s: float = 10.0) -> tuple[DiskReading, ...]:
    """The disks as they are now; empty where they do not answer within `wait_s`: then nothing is known of them."""
    clock, source, never = SystemClock(), DiskSource(run_dir, roots), threading.Event()
    end_s = clock.now_s() + wait_s
    try:
        while not source.disks and clock.now_s() < end_s:
            if any(isinstance(reading, DiskReading) for reading in source.poll(clock.now_s())):
                break
            clock.wait(never, 0.02)
        return source.disks
    finally:
        source.close()


def _disk(one: Mapping[str, Any]) -> DiskReading:
    """Raises ValueError, TypeError or KeyError for what is no such thing."""
    saves = tuple(
        SavedCheckpoint(int(save["step"]), int(save["bytes"]), int(save["files"]), float(save["age_s"])) for save in one["saves"]
    )
    inodes, count = one["free_inodes"], one["count"]
    return DiskReading(
        _plain(str(one["place"])), _plain(str(one["mount"])), int(one["free_bytes"]), int(one["total_bytes"]),
        None if inodes is None else int(inodes), saves, None if count is None else int(count),
    )  # fmt: skip


def _plain(name: str) -> str:
    """A mount point that no terminal takes a command from."""
    return name if name.isprintable() else ascii(name)
