"""One run that the site shows: as it was at the last refresh, with every document made once for all who ask.

`refresh` and `draw` belong to the thread of `runs.Runs`; everything else may be called from any thread.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import JOURNAL_NAME, LEASE_NAME
from sentinel.clock import SystemClock
from sentinel.errors import UsageError
from sentinel.model.facts import Entry
from sentinel.policy.schema import Policy
from sentinel.report.drawn import DrawnAttempt
from sentinel.report.following import FollowedRun, RunSnapshot
from sentinel.report.lineage import branch_document
from sentinel.report.run_policy import read_policy
from sentinel.run_files.heartbeats import RankBeats, RankSeen
from sentinel.run_files.stream import read_recent, read_tokens_per_sample, read_tokens_per_step
from sentinel.streams.curve import Curve
from sentinel.web.answers import RefusedRequest, encode
from sentinel.web.fleet import RECENT_ROWS

POLICY_S = 10.0  # it is small, and seldom another one
LOCK_S = 1.0  # a refresh takes milliseconds, but for one at a disk that hangs
DOCUMENTS_KEPT = 64  # of one refresh
DOCUMENT_BYTES_KEPT = 16 << 20  # of these together: whoever makes up cursors must not fill the memory
_clock = SystemClock()
_server = f"{round(_clock.wall_s() * 1e3):x}"  # a cursor of another process is none of this one's
_serial = itertools.count(1)


@dataclass(frozen=True, slots=True)
class History:
    """What the whole journal amounts to, as documents. `snapshot`: that of the look they were made after."""

    snapshot: RunSnapshot
    lineage: list[dict[str, Any]]
    schedule: dict[str, Any]


class ServedRun:
    """Attributes: snapshot, None before the first refresh that read anything; refreshes, how many there were; asked_s and
    refreshed_s, when somebody asked for this run, and when it was last read; trouble, why there is no snapshot."""

    def __init__(self, name: str, run_dir: Path, is_own: bool = False) -> None:
        self.name = name
        self.run_dir = run_dir
        self.is_own = is_own
        self.snapshot: RunSnapshot | None = None
        self.trouble = ""
        self.refreshes = 0
        self.asked_s = self.refreshed_s = float("-inf")
        self.has_more = False  # of its curves, to be drawn
        self._lock = threading.Lock()
        self._followed: FollowedRun | None = None
        self._documents: dict[object, bytes] = {}
        self._curves: dict[int, dict[str, Curve]] = {}  # whose identity tells that a stream was drawn anew
        self._drawing = 0
        self._history: History | None = None
        self._seen: object = None
        self._recent: tuple[object, tuple[float, ...]] = (None, ())
        self._beats, self._beats_lock = RankBeats(run_dir), threading.Lock()
        self._tokens: tuple[int, int | None] = (0, None)
        self._policy: tuple[float, Policy | None] = (float("-inf"), None)

    @property
    def began(self) -> int | None:
        """In which second, which tells it from runs of the same name; None while nothing of it was read."""
        return int(self.snapshot.state.created_s) if self.snapshot is not None else None

    # -- the watching thread -------------------------------------------------------------------------------------------

    def refresh(self, now_s: float) -> None:
        with self._lock:
            self._seen = self._signature()
            try:
                if self._followed is None:
                    self._followed = FollowedRun(self.run_dir)
                snapshot = self._followed.refresh()
                self.snapshot = snapshot if snapshot.seq else None
                self.trouble = snapshot.trouble or f"{self.run_dir}: nothing is recorded yet; look again in a moment"
            except UsageError as error:
                self.trouble = str(error)
            self._documents = {}
            self.has_more = self._followed is not None
        self.note_refresh(now_s)

    def note_refresh(self, now_s: float) -> None:
        """Also where there was nothing new to see."""
        self.refreshed_s = now_s
        self.refreshes += 1

    def note_failed_refresh(self, now_s: float, bug: Exception) -> None:
        """What is known stays, with the reason why it is old."""
        self.trouble = f"{self.run_dir}: an error of the page itself: {type(bug).__name__}"
        if self.snapshot is not None:
            self.snapshot = replace(self.snapshot, trouble=self.trouble)
        self._documents, self.has_more = {}, False
        self.note_refresh(now_s)

    def draw(self) -> bool:
        """A piece of its curves; whether there may be more."""
        with self._lock:
            self.has_more = False  # also when it raises: the other runs have their turn
            if self._followed is None or self.snapshot is None:
                return False
            self.has_more = self._followed.draw()
            return self.has_more

    def forget(self) -> None:
        """Its curves: they are drawn anew when somebody asks."""
        with self._lock:
            if self._followed is not None:
                self._followed.attempts.clear()

    @property
    def is_drawn(self) -> bool:
        return self._followed is not None and bool(self._followed.attempts)

    def may_have_changed(self) -> bool:
        """False for a run that nobody supervises and of which nothing lives, as long as nothing is written."""
        snapshot = self.snapshot
        if snapshot is None or snapshot.trouble or snapshot.supervisor != "gone" or snapshot.attempt_alive is not False:
            return True
        return self._signature() != self._seen

    def _signature(self) -> object:
        seen = []
        for name in (JOURNAL_NAME, f"{JOURNAL_NAME}-wal", LEASE_NAME):
            try:
                status = (self.run_dir / name).stat()
                seen.append((status.st_mtime_ns, status.st_size))
            except OSError:
                seen.append((0, 0))
        return tuple(seen)

    # -- whoever asks --------------------------------------------------------------------------------------------------

    def seen(self) -> RunSnapshot:
        """How it stands. Raises RefusedRequest before that is known."""
        snapshot = self.snapshot
        if snapshot is None:
            raise RefusedRequest(503, self.trouble or f"{self.run_dir}: is being read; ask again in a moment", Retry_After="1")
        return snapshot

    def recent_losses(self) -> tuple[float, ...]:
        """The newest of its newest attempt, read again when there is a newer step."""
        snapshot = self.seen()
        attempt = snapshot.state.attempt
        if attempt is None:
            return ()
        known = (attempt.attempt, snapshot.step)
        if self._recent[0] != known:
            self._recent = (known, tuple(read_recent(self.run_dir, attempt.attempt, "loss", RECENT_ROWS)))
        return self._recent[1]

    def tokens_per_step(self) -> int | None:
        """Of its newest attempt; None where that does not say. Asked again until it does."""
        attempt = self.seen().state.attempt
        if attempt is None:
            return None
        if self._tokens[0] != attempt.attempt or self._tokens[1] is None:
            self._tokens = (attempt.attempt, read_tokens_per_step(self.run_dir, attempt.attempt))
        return self._tokens[1]

    def ranks(self) -> tuple[RankSeen, ...]:
        """Of its newest attempt, each as it beat last."""
        attempt = self.seen().state.attempt
        if attempt is None:
            return ()
        with self._beats_lock:
            return self._beats.refresh(attempt.attempt, _clock.wall_s())

    def policy(self) -> Policy | None:
        """What the run is supervised by; None where it cannot be read. Read again after POLICY_S."""
        now_s = _clock.now_s()
        if now_s - self._policy[0] > POLICY_S:
            self._policy = (now_s, read_policy(self.run_dir)[0])
        return self._policy[1]

    def document(self, key: object, build: Callable[[], object]) -> bytes:
        """As it was made for the first who asked since the last refresh."""
        documents = self._documents
        if key not in documents:
            body = encode(build())
            kept = sum(map(len, list(documents.values())))
            if len(documents) >= DOCUMENTS_KEPT or kept + len(body) > DOCUMENT_BYTES_KEPT:
                return body
            documents[key] = body
        return documents[key]

    @contextmanager
    def drawings(self) -> Iterator[tuple[dict[int, DrawnAttempt], str]]:
        """The attempts as far as they are drawn, and the stamp of these drawings. Nothing is drawn meanwhile."""
        with self._followed_run() as followed:
            for number, drawn in followed.attempts.items():
                if self._curves.get(number) is not drawn.curves:
                    if number in self._curves:
                        self._drawing = next(_serial)
                    self._curves[number] = drawn.curves
            for number in [number for number in self._curves if number not in followed.attempts]:
                del self._curves[number]
                self._drawing = next(_serial)
            yield followed.attempts, f"{_server}.{self._drawing}"

    def entries(self, after: int) -> list[Entry]:
        with self._followed_run() as followed:
            return followed.entries(after)

    def history(self) -> History:
        """Made for the first who asks after a refresh. Who cannot have the run within LOCK_S gets what was made before. Raises
        RefusedRequest where there is nothing yet."""
        snapshot, known = self.seen(), self._history
        if known is not None and known.snapshot is snapshot:
            return known
        attempt = snapshot.state.attempt
        tokens = read_tokens_per_sample(self.run_dir, attempt.attempt) if attempt is not None else None
        try:
            with self._followed_run() as followed:
                branches = followed.journal.lineage.branches(snapshot.step)
                schedule = followed.journal.schedule.document(branches, tokens)
        except RefusedRequest:
            if known is None:
                raise
            return known
        self._history = History(snapshot, [branch_document(branch) for branch in branches], schedule)
        return self._history

    @contextmanager
    def _followed_run(self) -> Iterator[FollowedRun]:
        if not self._lock.acquire(timeout=LOCK_S):
            raise RefusedRequest(503, f"{self.run_dir}: does not answer; a disk may hang", Retry_After="2")
        try:
            if self._followed is None:
                raise RefusedRequest(
                    503, self.trouble or f"{self.run_dir}: is being read; ask again in a moment", Retry_After="1"
                )
            yield self._followed
        finally:
            self._lock.release()
