"""`sentinel watch`: somebody else's run by its growing log, read-only, until interrupted. Nothing of theirs is touched.

The tail code of the live supervisor reads; a file that is not there yet, empty, or without a step so far is waited for, and one
that is removed or replaced is waited for and read again. What a log cannot show is not judged: a log that stops growing may be a
hang or a long evaluation, and without heartbeats nobody can tell.
It polls, and does not listen to inotify: other people's logs mostly lie on network file systems, where a write on another machine
wakes nobody, and half a second is less than a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from sentinel.clock import Clock
from sentinel.detectors.reference import Reference
from sentinel.policy.schema import Policy
from sentinel.replay.findings import ReplayFinding, ReplayResult
from sentinel.replay.many_logs import Log, find_logs
from sentinel.replay.one_log import Replay
from sentinel.signals import stop_event
from sentinel.telemetry.log_formats import EmptyLog, NoStepYet, UnreadableLog, open_log
from sentinel.telemetry.log_reader import LogReader
from sentinel.telemetry.source import describe_os_error

POLL_S = 0.5
FIND_LOGS_EVERY_POLLS = 20  # so often are directories walked anew
OPEN_LOGS_MAX = 200  # of more, none stays open between two polls

ReportFound = Callable[[ReplayResult, list[ReplayFinding]], None]
PrintSentence = Callable[[str], None]


class Followed:
    """One log: opened when there is something in it."""

    def __init__(self, log: Log, policy: Policy, format: str, say: PrintSentence, reference: Reference | None = None) -> None:
        self.log = log
        self.result = ReplayResult(log.file)
        self.is_hopeless = False  # it is there, and no log
        self._format = format
        self._say = say
        self._last_sentence = ""
        self._damage_reported = False
        self._remark = ""
        self._unrecognised_as: tuple[int, int] | None = None  # size and change of the file that was not recognised
        self._reader: LogReader | None = None
        self._replay = Replay(self.result, policy, reference)

    def poll(self, now_s: float) -> Iterator[list[ReplayFinding]]:
        """What is new, batch by batch. Never raises for what stands in the file."""
        try:
            if self._reader is None and not self._opened():
                return
            assert self._reader is not None
            while True:
                yield self._replay.read(self._reader.poll(now_s))
                if not self._reader.has_more:
                    break
            self._report_trouble("")
        except FileNotFoundError:
            self._report_trouble(f"{self.log.file}: not there; waiting for it")
        except OSError as error:
            self._report_trouble(describe_os_error(error, self.log.path))
        if self._reader is not None:
            self._report_damage(self._reader)

    def _opened(self) -> bool:
        """Is there something to read by now? Looked at again when the file has changed."""
        try:
            status = self.log.path.stat()
            if self._unrecognised_as == (status.st_size, status.st_mtime_ns):
                return False
            self.result.format, self._reader = open_log(self.log.path, self._format)
            self.is_hopeless, self._unrecognised_as = False, None
            return True
        except EmptyLog:
            return False
        except UnreadableLog as error:
            self._unrecognised_as = (status.st_size, status.st_mtime_ns)
            waits = isinstance(error, NoStepYet) and self.log.asked
            self.is_hopeless = not waits
            self._report_trouble(error.message + ("; waiting for one" if waits else ""))
            return False

    def _report_damage(self, reader: LogReader) -> None:
        if reader.damaged and not self._damage_reported:
            self._damage_reported = True
            self._say(f"{self.log.file}: damaged, left out: {reader.first_damage}")
        if reader.remark != self._remark:
            self._remark = reader.remark
            if reader.remark:
                self._say(f"{self.log.file}: {reader.remark}")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _report_trouble(self, sentence: str) -> None:
        """Said once when it begins."""
        if sentence and sentence != self._last_sentence:
            self._say(sentence)
        self._last_sentence = sentence


def follow_logs(
    paths: tuple[Path, ...],
    policy: Policy,
    format: str,
    clock: Clock,
    report: ReportFound,
    say: PrintSentence,
    reference: Reference | None = None,
) -> tuple[list[ReplayResult], bool]:
    """Until SIGINT or SIGTERM. What was followed, and False when there was nothing that could ever be."""
    followed: dict[Path, Followed] = {}
    with stop_event() as stop:
        polls = 0
        while not stop.is_set():
            if polls % FIND_LOGS_EVERY_POLLS == 0:
                _find_new_logs(followed, paths, lambda log: Followed(log, policy, format, say, reference))
            polls += 1
            for one in followed.values():
                for found in one.poll(clock.now_s()):
                    if found:
                        report(one.result, found)
                    if stop.is_set():
                        break
                if len(followed) > OPEN_LOGS_MAX:
                    one.close()
            if all(one.is_hopeless for one in followed.values()):
                return [one.result for one in followed.values()], False
            clock.wait(stop, POLL_S)
    for one in followed.values():
        one.close()
    return [one.result for one in followed.values()], True


def _find_new_logs(followed: dict[Path, Followed], paths: tuple[Path, ...], follow: Callable[[Log], Followed]) -> None:
    """Logs that are new. A directory that had none in it yet gives way to those that came."""
    for log in find_logs(paths):
        if log.path not in followed:
            followed[log.path] = follow(log)
