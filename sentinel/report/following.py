"""A run looked at again and again from outside: how it stands, what has happened, its curves. A refresh reads what is new.

For whatever shows a run while it goes on (the metrics, the page in the browser, `sentinel top`), in the supervisor's own process
or in any other on a machine that sees the run directory. Nothing is written and nobody is blocked.

    run = FollowedRun(Path("runs/demo"))
    snapshot = run.refresh()
    run.entries(after=snapshot.seq)       # what has been written down since
    while run.draw(): ...              # the curves, piece by piece

One thread at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path

from sentinel.clock import SystemClock
from sentinel.errors import JournalError, UsageError
from sentinel.filesystem import is_full
from sentinel.journal.standbys import read_standbys
from sentinel.model.facts import Entry
from sentinel.report.drawn import DrawnAttempt
from sentinel.report.journal_fold import JournalFold
from sentinel.report.reading import is_attempt_alive, read_heartbeat, read_steps_of_run, read_supervisor
from sentinel.report.run_dirs import check_run_dir
from sentinel.report.snapshot import RunSnapshot, are_ranks_asked
from sentinel.run_files.detector_standings import read_standings
from sentinel.run_files.heartbeats import read_ranks
from sentinel.run_files.mirror_standing import read_mirror_lags
from sentinel.run_files.stall import stall_of
from sentinel.run_files.stream import read_newest_metrics

__all__ = ["FollowedRun", "RunSnapshot"]

ENTRIES_KEPT = 4096
ATTEMPTS_DRAWN = 64  # of a run relaunched more often the oldest are shown no more
BUCKETS_KEPT = 1 << 18  # of all attempts before the newest, some 40 MB; beyond that they are drawn coarser

NewestLine = tuple[int | None, Mapping[str, float]]
NO_LINE: NewestLine = (None, {})


class FollowedRun:
    """Made of what is not the directory of a run it raises UsageError. Afterwards it never raises, and `RunSnapshot.trouble` says
    what could not be read."""

    def __init__(self, run_dir: Path, newest_steps: int | None = None) -> None:
        """`newest_steps`: the curves need only so many of the newest steps, whichever attempts they are of."""
        check_run_dir(run_dir)
        self.run_dir = run_dir
        self.attempts: dict[int, DrawnAttempt] = {}  # by number, the newest ATTEMPTS_DRAWN
        self.journal = JournalFold(run_dir)
        self._newest_steps = newest_steps
        self._entries: deque[Entry] = deque(maxlen=ENTRIES_KEPT)
        self._total: tuple[int, int | None] = (0, None)

    def refresh(self) -> RunSnapshot:
        """What is new since the last refresh, and how everything stands now. Draws one piece of the newest attempt's curves."""
        trouble = self._read_journal()
        state = self.journal.state
        newest = state.attempt
        drawn = None
        step, metrics = NO_LINE
        if newest is not None:
            self._know_attempts()
            drawn = self.attempts[newest.attempt]
            step, metrics = self._newest_line(drawn, has_more=drawn.advance(newest.is_over))
        senses = read_standings(self.run_dir)
        stall, supervisor = stall_of(state, self.journal.now_s, senses), read_supervisor(self.run_dir)
        are_asked = are_ranks_asked(state, stall, supervisor)
        return RunSnapshot(
            run_dir=self.run_dir,
            state=state,
            now_s=self.journal.now_s,
            seq=self.journal.seq,
            last_s=self.journal.last_s,
            step=step,
            total_steps=self._total_steps(),
            newest=metrics,
            last=dict(drawn.last) if drawn is not None else {},
            supervisor=supervisor,
            attempt_alive=is_attempt_alive(self.run_dir, state),
            senses=senses,
            is_disk_full=supervisor == "stuck" and is_full(self.run_dir),
            ranks=read_ranks(self.run_dir, newest.attempt) if newest is not None and are_asked else (),
            trouble=trouble,
            heartbeat_s=read_heartbeat(self.run_dir),
            mirror_lag_s=read_mirror_lags(self.run_dir, SystemClock().wall_s()),
            tally=self.journal.tally.copy(),
            standbys=() if state.ended else read_standbys(self.run_dir, SystemClock().wall_s()),
            losses=self.journal.losses.of_incidents(state, self.journal.until_s, stall.since_s if stall else None),
        )

    def entries(self, after: int = 0) -> list[Entry]:
        """Those kept that were written behind `after`, oldest first."""
        found: list[Entry] = []
        for entry in reversed(self._entries):
            if entry.seq <= after:
                break
            found.append(entry)
        return found[::-1]

    def draw(self) -> bool:
        """What is new of every attempt, up to one piece of the newest that is not drawn to its end; whether there is more to
        draw at once."""
        over = {attempt.attempt: attempt.is_over for attempt in self.journal.state.attempts}
        has_more, steps = False, 0
        for number in sorted(self.attempts, reverse=True):
            drawn = self.attempts[number]
            has_more = drawn.advance(over.get(number, True))
            steps += drawn.steps
            if has_more or (self._newest_steps is not None and steps >= self._newest_steps):
                break
        self._coarsen()
        return has_more

    def _coarsen(self) -> None:
        """Many attempts of a run with many metrics are drawn coarser, the finest and oldest first, so that all have their place.
        The newest attempt is what people look at; it has the bounds of its own."""
        kept = {number: drawn.buckets for number, drawn in self.attempts.items() if number != max(self.attempts)}
        while sum(kept.values()) > BUCKETS_KEPT:
            finest = max(sorted(kept), key=kept.__getitem__)
            self.attempts[finest].coarsen()
            kept[finest] = self.attempts[finest].buckets

    def _newest_line(self, drawn: DrawnAttempt, has_more: bool) -> NewestLine:
        """While a long stream is being drawn its newest line is read from its end."""
        found = read_newest_metrics(self.run_dir, drawn.attempt) if has_more else None
        return found if found is not None else (drawn.newest_step, drawn.newest)

    def _know_attempts(self) -> None:
        numbers = [attempt.attempt for attempt in self.journal.state.attempts[-ATTEMPTS_DRAWN:]]
        for number in numbers:
            if number not in self.attempts:
                self.attempts[number] = DrawnAttempt(self.run_dir, number, self._newest_steps)
        for number in [number for number in self.attempts if number < numbers[0]]:
            del self.attempts[number]

    def _total_steps(self) -> int | None:
        attempt = self.journal.state.attempt
        if attempt is None:
            return None
        if self._total[0] != attempt.attempt or self._total[1] is None:
            self._total = (attempt.attempt, read_steps_of_run(self.run_dir, self.journal.state))
        return self._total[1]

    def _read_journal(self) -> str:
        """Why it could not be read; empty otherwise."""
        try:
            for entry, _ in self.journal.read():
                self._entries.append(entry)
        except (JournalError, UsageError, OSError) as error:
            return str(error)
        return ""
