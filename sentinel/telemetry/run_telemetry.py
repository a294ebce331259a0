"""Every source of the current attempt as one, in the order things happened.

The launcher is asked before the stream is read and its word on the exit is given after: once an exit was seen, everything the
trainer ever wrote is in the file, so reading the stream, the heartbeats and the checkpoints to their end first loses nothing.
The ends of its logs are read then, too, and given just before the exit.

Every source reads in a thread of its own (`timed_reads`), one after the other all the same. One that does not answer in time is
blind, and the others are heard.

Checkpoints come before the steps: a supervisor that was away finds hours of both, and a rollback can only be decided when the
checkpoints are known.

    telemetry = RunTelemetry(run_dir, launcher)
    telemetry.follow(3)
    for reading in telemetry.poll(now_s): ...      # and again at once while telemetry.has_more
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sentinel.launcher.contract import Launcher
from sentinel.model.attempts import Exited
from sentinel.model.readings import LauncherReading, Reading
from sentinel.telemetry.agents import Agents
from sentinel.telemetry.checkpoints import CheckpointSource
from sentinel.telemetry.followed_attempt import OF_ATTEMPT, FollowedAttempt
from sentinel.telemetry.hardware import Hardware
from sentinel.telemetry.inbox import Inbox
from sentinel.telemetry.log_patterns import Patterns
from sentinel.telemetry.log_tail import read_log_tails, read_oom_kills
from sentinel.telemetry.source import Source, SourceHealth
from sentinel.telemetry.timed_reads import ANSWER_S, HURRY_S, Read, TimedReads

EXIT_WAITS_S = 60.0  # for a stream or checkpoints that do not answer; after that the exit is told without their last word


class RunTelemetry:
    """A `Source` over the sources of one run. Nothing of an attempt is read before `follow` names it; operator requests are."""

    def __init__(
        self, run_dir: Path, launcher: Launcher, hardware: Hardware | None = None, *others: Source, agents: Agents | None = None
    ) -> None:
        """`hardware` belongs to whoever opened it, and is asked only while an attempt is followed; so do `others`, which must
        answer at once. `agents` are closed with this."""
        self.run_dir = Path(os.path.realpath(run_dir))
        self._launcher = launcher
        self._hardware = hardware
        self._others = others
        self._agents = agents
        self._patterns: Patterns = ()
        self._named_logs: Sequence[str] = ()
        names = ("inbox", "checkpoints", "hardware", *OF_ATTEMPT)
        self._healths = {name: SourceHealth(name) for name in names}  # they outlive the attempts
        self._reads = {name: TimedReads(self._healths[name]) for name in ("inbox", "checkpoints", "hardware")}
        self._checkpoints = CheckpointSource(self.run_dir, self._healths["checkpoints"])
        self._inbox = Inbox(self.run_dir, self._healths["inbox"])
        self._followed: FollowedAttempt | None = None

    @property
    def attempt(self) -> int | None:
        """The one that is followed."""
        return None if self._followed is None else self._followed.attempt

    @property
    def has_more(self) -> bool:
        """True when there is more to read at once. The exit of an attempt is held back until then."""
        return self._has_more_written or (self._agents is not None and self._agents.has_more)

    @property
    def _has_more_written(self) -> bool:
        """By the trainer."""
        followed = self._followed
        return (followed is not None and (followed.has_more_steps or followed.has_more_printed)) or self._has_more_checkpoints

    def look_for(self, patterns: Patterns, named_logs: Sequence[str] = ()) -> None:
        """These, of the policy, in what attempts print that are followed from now on, and in the files of `named_logs`: absolute
        paths and patterns."""
        self._patterns, self._named_logs = patterns, named_logs

    def follow(self, attempt: int) -> None:
        """Look at this attempt from now on, from the beginning of its files. Following it already changes nothing."""
        if attempt == self.attempt:
            return
        self._leave()
        self._followed = FollowedAttempt(self.run_dir, attempt, self._launcher, self._healths, self._patterns, self._named_logs)
        self._followed.oom_kills = read_oom_kills()
        self._checkpoints.look_again()

    def poll(self, now_s: float) -> list[Reading]:
        """What is new, oldest first, bounded: requests, life, checkpoints, receipt, steps, beats, hardware, logs, exit."""
        out = self._ask("inbox", now_s, lambda: self._inbox.poll(now_s))
        followed = self._followed
        if followed is None:
            return out
        for reading in self._ask("launcher", now_s, lambda: followed.watch.poll(now_s)):
            if isinstance(reading, LauncherReading) and isinstance(reading.view, Exited):
                followed.exit = reading.view
                followed.reopens_stream = True
                self._checkpoints.look_again()
            else:
                out.append(reading)
        out += self._ask("checkpoints", now_s, lambda: self._checkpoints.poll(now_s))
        if self._has_more_checkpoints:
            return out
        out += self._ask("metrics", now_s, lambda: followed.read_stream(now_s))
        out += self._beats(followed, now_s)
        agents = self._agents
        is_behind = agents is not None and agents.has_more  # whose report waits to be heard is not silent
        if followed.exit is None and not followed.reads["heartbeats"].is_late and not is_behind:
            lives = dict(followed.beats.lives)
            out += self._ask("silent ranks", now_s, lambda: followed.silent.poll(now_s, lives, agents))
        if followed.has_patterns:
            out += self._ask("log patterns", now_s, lambda: followed.search_logs(now_s))
        if (hardware := self._hardware) is not None:
            out += self._ask("hardware", now_s, lambda: hardware.poll(now_s))  # before the exit that it may explain
        for other in self._others:
            out += other.poll(now_s)
        return out + self._exit_of(followed, now_s)

    def _beats(self, followed: FollowedAttempt, now_s: float) -> list[Reading]:
        """Heartbeats, by agents first. Those of ranks that no agent tells of are read from their files."""
        agents, beats = self._agents, followed.beats
        if agents is None or followed.reads["heartbeats"].is_late:  # its thread may be at the same books
            return self._ask("heartbeats", now_s, lambda: beats.poll(now_s))
        out = agents.poll(now_s, followed.attempt, beats.lives)
        out += beats.hear(agents.reports, now_s)
        covered = agents.covered(now_s)
        return out + self._ask("heartbeats", now_s, lambda: beats.poll(now_s, covered))

    def poll_steps(self, now_s: float) -> list[Reading]:
        """The new checkpoints and the new rows, and nothing else: for a loop that took a whole look a moment ago, and was woken
        by step lines alone. Checkpoints, because not every commit is heard (a manifest written in place, a folder on another
        filesystem), and a row must not be judged before what was saved before it. A whole look where an exit is to be told.
        """
        followed = self._followed
        if followed is None or followed.exit is not None:
            return self.poll(now_s)
        out = self._ask("checkpoints", now_s, lambda: self._checkpoints.poll(now_s))
        if self._has_more_checkpoints:
            return out
        return out + self._ask("metrics", now_s, lambda: followed.read_stream(now_s))

    def close(self) -> None:
        """Give back the open file and the threads. Another `follow` starts afresh."""
        self._leave()
        for reads in self._reads.values():
            reads.close()
        if self._agents is not None:
            self._agents.close()

    def _leave(self) -> None:
        followed, self._followed = self._followed, None
        if followed is not None:
            followed.close()

    @property
    def _has_more_checkpoints(self) -> bool:
        return self._checkpoints.has_more and not self._reads["checkpoints"].is_late

    def _exit_of(self, followed: FollowedAttempt, now_s: float) -> list[Reading]:
        """The word on the exit, behind everything that was written before it and the ends of the logs."""
        if followed.exit is None or self._has_more_written:
            return []
        asked = followed.reads["metrics"], followed.reads["log patterns"], self._reads["checkpoints"]
        late = [reads.late_since_s for reads in asked if reads.late_since_s is not None]
        is_read_out = followed.is_read_out and (followed.is_searched_out or not followed.has_patterns)
        if (late or not is_read_out) and not any(now_s - since_s >= EXIT_WAITS_S for since_s in late):
            return []
        exited, followed.exit = followed.exit, None
        tails = self._ask(
            "logs", now_s, lambda: read_log_tails(self.run_dir, exited.attempt, exited.report, followed.oom_kills)
        )
        return [*tails, LauncherReading(exited)]

    def _ask(self, name: str, now_s: float, read: Read) -> list[Reading]:
        reads = {**self._reads, **({} if self._followed is None else self._followed.reads)}
        hurries = any(one.is_late for one in reads.values())
        return reads[name].ask(now_s, read, HURRY_S if hurries else ANSWER_S)
