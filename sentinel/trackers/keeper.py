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
from sentinel.run_files.attempt_files import ATTEMPT_VARIABLE, RUN_DIR_VARIABLE
from sentinel.telemetry.helper_process import HelperProcess
from sentinel.trackers.command import AGAIN_S
from sentinel.trackers.registry import Target, parse_target

SOURCE = "trackers"
CLOSE_S = 10.0
LINE_CHARS_MAX = 500


class TrackerKeeper(Remarks):
    """`close` waits CLOSE_S at most, all trackers together, and says what is not complete by then."""

    def __init__(self, run_dir: Path, targets: Sequence[Target]) -> None:
        super().__init__()
        self._run_dir = run_dir
        self._helpers = [_Helper(run_dir, target) for target in targets]

    def poll(self, now_s: float) -> list[Reading]:
        for helper in self._helpers:
            for words in helper.turn(now_s):
                self.say(SOURCE, words)
        return super().poll(now_s)

    def close(self) -> None:
        for helper in self._helpers:
            if not helper.finish(CLOSE_S / len(self._helpers)):
                remedy = f"`sentinel track --to {helper.target.text} {self._run_dir}` completes it"
                with suppress(OSError, ValueError):
                    print(f"{self._run_dir}: {helper.target.text} may not have all of it; {remedy}", file=sys.stderr)
        self._helpers = []


class _Helper:
    def __init__(self, run_dir: Path, target: Target) -> None:
        self.target = target
        words = ("track", "--to", target.text, "--follow", "--until-eof", os.fspath(run_dir))
        self._argv = (sys.executable, "-P", "-m", "sentinel", *words)  # -P: not a folder `sentinel` of where it is started
        self._environment = {name: os.environ[name] for name in os.environ if name not in (RUN_DIR_VARIABLE, ATTEMPT_VARIABLE)}
        self._process: HelperProcess | None = None
        self._again_s = float("-inf")
        self._is_done = False

    def turn(self, now_s: float) -> list[str]:
        """Start it where it is not running; what it has said since the last turn."""
        if self._is_done or (self._process is None and now_s < self._again_s):
            return []
        if self._process is None:
            try:
                self._process = HelperProcess(self._argv, self._environment)
            except OSError as error:
                self._again_s = now_s + AGAIN_S
                return [f"{self.target.text}: its process cannot be started: {error.strerror}; tried again in {AGAIN_S:g} s"]
        said = [line.decode(errors="replace")[:LINE_CHARS_MAX] for line in self._process.read_lines() if line.strip()]
        if self._process.is_over:
            said += [line.decode(errors="replace")[:LINE_CHARS_MAX] for line in self._process.read_lines() if line.strip()]
            code = self._process.exit_code
            self._process.close()
            self._process, self._again_s, self._is_done = None, now_s + AGAIN_S, code == 0
            if code != 0:
                said.append(f"{self.target.text}: its process ended with {code}; started again in {AGAIN_S:g} s")
        return said

    def finish(self, wait_s: float) -> bool:
        """Let it write what is left; whether it has, or had already."""
        if self._process is None:
            return self._is_done
        is_complete = self._process.finish(wait_s) and self._process.exit_code == 0
        if self._process.is_over:
            self._process.close()
        return is_complete  # one that is late goes on alone: its standard input is closed


def open_trackers(run_dir: Path, track: Sequence[str]) -> TrackerKeeper:
    """`track`: targets that were checked."""
    return TrackerKeeper(run_dir, [parse_target("--track", text) for text in track])
