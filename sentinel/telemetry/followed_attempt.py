"""The sources of one attempt. `run_telemetry` says in which order they are asked, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sentinel.launcher.contract import Launcher
from sentinel.model.attempts import Exited
from sentinel.model.readings import Reading, Receipt, StepReading
from sentinel.telemetry.follower_remarks import FollowerRemarks
from sentinel.telemetry.heartbeats import Heartbeats
from sentinel.telemetry.launcher_watch import LauncherWatch
from sentinel.telemetry.log_patterns import LogPatterns, Patterns
from sentinel.telemetry.metrics_jsonl import MetricsStream
from sentinel.telemetry.silent_ranks import SilentRanks
from sentinel.telemetry.source import SourceHealth, describe_os_error
from sentinel.telemetry.timed_reads import TimedReads

OF_ATTEMPT = ("launcher", "metrics", "heartbeats", "silent ranks", "log patterns", "logs")


class FollowedAttempt:
    """The sources of one attempt, each with the thread it reads in. `exit` is held back until the stream was read to its end."""

    def __init__(
        self,
        run_dir: Path,
        attempt: int,
        launcher: Launcher,
        healths: dict[str, SourceHealth],
        patterns: Patterns = (),
        named_logs: Sequence[str] = (),
    ) -> None:
        self.attempt = attempt
        self.exit: Exited | None = None
        self.oom_kills: int | None = None
        self.reopens_stream = False
        self.is_read_out = False
        self.stream = MetricsStream(run_dir, attempt, healths["metrics"])
        self.follower = FollowerRemarks(run_dir, attempt)
        self.has_lines = False  # of the stream; from then on the follower writes there what it has to say
        self.beats = Heartbeats(run_dir, attempt, healths["heartbeats"])
        self.silent = SilentRanks(run_dir, attempt)
        self.printed = LogPatterns(run_dir, attempt, patterns, named_logs if patterns else ())
        self.is_searched_out = False  # all that it printed was searched, its end included
        self.watch = LauncherWatch(launcher, run_dir, attempt, healths["launcher"])
        self.has_patterns = bool(patterns)
        self._patterns_health = healths["log patterns"]
        self.reads = {name: TimedReads(healths[name]) for name in OF_ATTEMPT}

    @property
    def has_more_printed(self) -> bool:
        return self.printed.has_more and not self.reads["log patterns"].is_late

    @property
    def has_more_steps(self) -> bool:
        return self.stream.has_more and not self.reads["metrics"].is_late

    def search_logs(self, now_s: float) -> Sequence[Reading]:
        """Lines in which the policy's patterns were found; behind an exit to the very end."""
        is_over, health = self.exit is not None, self._patterns_health
        try:
            out: list[Reading] = [*self.printed.poll(now_s, is_over=is_over)]
        except OSError as error:
            self.is_searched_out = is_over
            return health.lost(describe_os_error(error))
        self.is_searched_out = is_over and not self.printed.has_more
        if trouble := self.printed.trouble:
            return [*out, *health.lost(trouble)]
        return [*health.regained(), *out] if health.is_blind else out

    def read_stream(self, now_s: float) -> Sequence[Reading]:
        """The next rows; behind an exit also a last line that was never finished."""
        if self.reopens_stream:
            self.reopens_stream = False
            self.stream.look_again()
        out = self.stream.poll(now_s)
        if not self.has_lines:
            self.has_lines = any(isinstance(reading, (Receipt, StepReading)) for reading in out)
            out += self.follower.poll()
        if self.exit is not None and not self.stream.has_more:
            out += self.stream.finish()
            self.is_read_out = True
        return out

    def close(self) -> None:
        for name, last in (("metrics", self.stream.close), ("silent ranks", self.silent.close)):
            self.reads.pop(name).close(last)
        for reads in self.reads.values():
            reads.close()
