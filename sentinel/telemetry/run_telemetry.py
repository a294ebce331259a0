"""Every source of the current attempt as one, in the order things happened.

The launcher is asked before the stream is read and its word on the exit is given after: once an exit was seen, everything the
trainer ever wrote is in the file, so reading the stream, the heartbeats and the checkpoints to their end first loses nothing.
The ends of its logs are read then, too, and given just before the exit.

Checkpoints come before the steps: a supervisor that was away finds hours of both, and a rollback can only be decided when the
checkpoints are known.

    telemetry = RunTelemetry(run_dir, launcher)
    telemetry.follow(3)
    for reading in telemetry.poll(now_s): ...      # and again at once while telemetry.has_more
"""

from __future__ import annotations

import os
from pathlib import Path

from sentinel.launcher.contract import Launcher
from sentinel.model.attempts import Exited
from sentinel.model.readings import LauncherReading, Reading
from sentinel.telemetry.checkpoints import CheckpointSource
from sentinel.telemetry.hardware import Hardware
from sentinel.telemetry.heartbeats import Heartbeats
from sentinel.telemetry.inbox import Inbox
from sentinel.telemetry.launcher_watch import LauncherWatch
from sentinel.telemetry.log_tail import read_log_tails, read_oom_kills
from sentinel.telemetry.metrics_jsonl import MetricsStream
from sentinel.telemetry.silent_ranks import SilentRanks
from sentinel.telemetry.source import Source, SourceHealth


class RunTelemetry:
    """A `Source` over the sources of one run. Nothing of an attempt is read before `follow` names it; operator requests are."""

    def __init__(self, run_dir: Path, launcher: Launcher, hardware: Hardware | None = None, *others: Source) -> None:
        """`hardware` belongs to whoever opened it, and is asked only while an attempt is followed; so do `others`."""
        self.run_dir = Path(os.path.realpath(run_dir))
        self.attempt: int | None = None
        self._launcher = launcher
        self._hardware = hardware
        self._others = others
        self._stream_health, self._heartbeat_health = SourceHealth("metrics"), SourceHealth("heartbeats")
        self._launcher_health = SourceHealth("launcher")
        self._checkpoints = CheckpointSource(self.run_dir)
        self._inbox = Inbox(self.run_dir)
        self._stream: MetricsStream | None = None
        self._beats: Heartbeats | None = None
        self._silent: SilentRanks | None = None
        self._watch: LauncherWatch | None = None
        self._exit: Exited | None = None
        self._oom_kills: int | None = None

    @property
    def has_more(self) -> bool:
        """True when there is more to read at once. The exit of an attempt is held back until then."""
        return (self._stream is not None and self._stream.has_more) or self._checkpoints.has_more

    def follow(self, attempt: int) -> None:
        """Look at this attempt from now on, from the beginning of its files. Following it already changes nothing."""
        if attempt == self.attempt:
            return
        self.close()
        self.attempt = attempt
        self._stream = MetricsStream(self.run_dir, attempt, self._stream_health)
        self._beats = Heartbeats(self.run_dir, attempt, self._heartbeat_health)
        self._silent = SilentRanks(self.run_dir, attempt)
        self._watch = LauncherWatch(self._launcher, self.run_dir, attempt, self._launcher_health)
        self._checkpoints.look_again()
        self._oom_kills = read_oom_kills()

    def poll(self, now_s: float) -> list[Reading]:
        """What is new, oldest first, bounded: requests, life, checkpoints, receipt, steps, beats, hardware, logs, exit."""
        out = self._inbox.poll(now_s)
        if self._stream is None or self._beats is None or self._watch is None:
            return out
        for reading in self._watch.poll(now_s):
            if isinstance(reading, LauncherReading) and isinstance(reading.view, Exited):
                self._exit = reading.view
                self._stream.look_again()
                self._checkpoints.look_again()
            else:
                out.append(reading)
        out += self._checkpoints.poll(now_s)
        if self._checkpoints.has_more:
            return out
        out += self._stream.poll(now_s)
        if self._exit is not None and not self._stream.has_more:
            out += self._stream.finish()
        out += self._beats.poll(now_s)
        if self._silent is not None and self._exit is None:
            out += self._silent.poll(now_s, self._beats.lives)
        if self._hardware is not None:
            out += self._hardware.poll(now_s)  # before the exit that it may explain
        for other in self._others:
            out += other.poll(now_s)
        if self._exit is not None and not self.has_more:
            out += read_log_tails(self.run_dir, self._exit.attempt, self._exit.report, self._oom_kills)
            out.append(LauncherReading(self._exit))
            self._exit = None
        return out

    def close(self) -> None:
        """Give back the open file. Another `follow` starts afresh."""
        if self._stream is not None:
            self._stream.close()
        if self._silent is not None:
            self._silent.close()
        self.attempt = self._stream = self._beats = self._silent = self._watch = self._exit = None
