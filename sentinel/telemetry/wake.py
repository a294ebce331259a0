"""Wakes the loop within milliseconds of a write to the run directory. Only a hint: a poll every second stays the truth.

Watched are the directories where a trainer speaks (the run directory itself, attempts/, the current attempt, checkpoints/) and
not what lies below or beside them: a checkpoint's gigabytes and the logs would flood the watch and mean nothing yet. Nor do
heartbeats wake: each rank writes four a step, and what they tell is judged in seconds. Names are picked too, so that the
supervisor's own journal and lease never wake it. Any number of writes between two looks are one wake.

A trainer of twenty steps a second would wake the loop for its step lines alone. Steps with finite numbers (`stream_glance.py`
tells) wait for the next whole look, half a second at most, or until there are `STEPS_WAIT_MAX` of them. What they show is judged
so much later; a NaN, and every other word, at once. `take` tells step lines from everything else, so that such a turn reads the
stream, after new checkpoints, and leaves the rest to the next whole look.

    wake = Wake(run_dir)
    wake.follow(attempt)
    while True:
        has_other_writes = wake.take()     # before the poll: what is written from here on sets the event again
        wake.rearm()                       # at every whole look
        ... telemetry.poll(now_s) ...
        clock.wait(wake.event, 1.0)        # without inotify (wake.trouble says why) this is the slow poll
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from sentinel.client.run_layout import CHECKPOINTS, INBOX, STREAM_NAME, attempt_folder
from sentinel.filesystem import filesystem_of
from sentinel.remarks import Remarks
from sentinel.telemetry.source import SourceHealth, describe_os_error
from sentinel.telemetry.stream_glance import StreamGlance
from sentinel.telemetry.timed_reads import HURRY_S, TimedReads

if TYPE_CHECKING:
    from sentinel.telemetry.inotify import DirectoryWatch

STEPS_WAIT_MAX = 12  # above what twenty steps a second make in half of one; a faster trainer is judged no more steps late
NETWORK_FILESYSTEMS = re.compile(
    "9p|afs|beegfs|ceph|cifs|coda|fhgfs|fuse.*|gfs2|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|panfs|pvfs2|smb3|smbfs|"
    "vboxsf|virtiofs|wekafs"
)
_IN_RUN_DIR = re.compile(r"overrides\.json|attempts|checkpoints|inbox")
_IN_ATTEMPT = re.compile(r"metrics\.jsonl|exit\.json|keeper\.json|heartbeats")
_IN_INBOX = re.compile(r"\d+-[0-9a-f]+\.json")
_IN_CHECKPOINTS = re.compile(r"step-\d+")


class Wake(Remarks):
    """`event` is set when a trainer may have said something. `trouble` says why it never will be, None when all is well; as a
    `Source` it remarks it, once."""

    def __init__(self, run_dir: Path, mounts: Path = Path("/proc/mounts")) -> None:
        super().__init__()
        self.event = threading.Event()
        self.trouble: str | None = None
        self._run_dir = Path(os.path.realpath(run_dir))
        self._attempt: int | None = None
        self._wanted: dict[Path, re.Pattern[str]] = {}
        self._other_writes = threading.Event()
        self._watch: DirectoryWatch | None = None
        self._reads = TimedReads(SourceHealth("inotify"))
        self._glance = StreamGlance(self._run_dir)
        self._steps_waiting = 0  # written since the last turn began
        kind = filesystem_of(self._run_dir, mounts)
        if NETWORK_FILESYSTEMS.fullmatch(kind):
            self._note_trouble(f"{self._run_dir} is on {kind}, where a write from another machine wakes nobody")

    def follow(self, attempt: int) -> None:
        """Listen to this attempt instead of the one before, from the next `rearm` on. Following it already changes nothing."""
        if attempt == self._attempt:
            return
        self._attempt = attempt
        folder = attempt_folder(self._run_dir, attempt)
        self._wanted = {
            self._run_dir: _IN_RUN_DIR,
            folder.parent: re.compile(folder.name),
            folder: _IN_ATTEMPT,
            self._run_dir / CHECKPOINTS: _IN_CHECKPOINTS,
            self._run_dir / INBOX: _IN_INBOX,
        }

    def take(self) -> bool:
        """Forget what has been said so far. Call it before a poll, not after.

        Returns:
            Whether something else than step lines was heard. Only a word of a directory counts: whoever sets `event` himself
            has his own way to say why.
        """
        self.event.clear()
        self._steps_waiting = 0
        has_other_writes = self._other_writes.is_set()
        if has_other_writes:
            self._other_writes.clear()
        return has_other_writes

    def rearm(self) -> None:
        """See that every directory is watched. What had been said is forgotten."""
        self.take()
        if self.trouble is None:
            self._reads.ask(0.0, self._listen, HURRY_S)  # a directory that does not answer wakes nobody, and holds up nobody

    def _listen(self) -> tuple[()]:
        try:
            if self._watch is None:
                from sentinel.telemetry.inotify import DirectoryWatch  # fails where there is none

                self._watch = DirectoryWatch(self._ring)
            self._watch.ensure(self._wanted)
        except ImportError as error:
            self._note_trouble(str(error))
        except OSError as error:
            self._note_trouble(f"inotify: {describe_os_error(error)}")
            self._stop_listening()
        return ()

    def _note_trouble(self, why: str) -> None:
        self.trouble = why
        self.say("inotify", f"no write wakes the supervisor, which looks twice a second: {why}")

    def _ring(self, name: str) -> None:
        """Called in the thread that listens. The other word first: whoever sees the event must see it, too."""
        if name != STREAM_NAME:
            self._other_writes.set()
        elif self._can_wait():
            return
        self.event.set()

    def _can_wait(self) -> bool:
        """Whether nothing but a few steps with finite numbers came since the last turn. Asked at every word of the stream: a
        glance goes on where the one before it ended."""
        steps = 0 if self._attempt is None else self._glance.count_finite_steps(self._attempt)
        self._steps_waiting += steps
        return steps > 0 and self._steps_waiting < STEPS_WAIT_MAX

    def close(self) -> None:
        """Stop listening."""
        self._reads.close(self._stop_listening)

    def _stop_listening(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
            self._glance.close()
