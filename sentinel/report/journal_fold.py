"""A run's journal read from outside, once: every entry is folded into the run's state, counters, lineage and schedule.

The journal is opened read-only and for each reading anew, so that one restored from a copy, or a mount that came back, is seen.
Nothing is written and nobody is blocked. What was read is not read again: a later reading goes on behind the newest entry.

    fold = JournalFold(Path("runs/demo"))
    fold.catch_up()
    fold.state.label, fold.tally.steps_lost, fold.lineage.branches()
    for entry, state in fold.read():    # what came since, each with the state it leads to
        ...

One thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.clock import SystemClock
from sentinel.engine import evolve
from sentinel.journal.codec import UNKNOWN_FACT
from sentinel.journal.store import Journal
from sentinel.model.facts import Entry, Noted
from sentinel.model.state import RunState
from sentinel.report.lineage import Lineage
from sentinel.report.losses import Losses
from sentinel.report.run_dirs import check_run_dir
from sentinel.report.schedule import SettingsHistory
from sentinel.report.tally import Tally


class JournalFold:
    """Attributes: state; tally; lineage; schedule; losses; seq and last_s, of the newest entry, 0 before there is one."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.state = RunState()
        self.tally = Tally()
        self.lineage = Lineage()
        self.schedule = SettingsHistory()
        self.losses = Losses()
        self.seq, self.last_s = 0, 0.0
        self._clock = SystemClock()
        self._unknown = 0
        self._first_unknown = ""

    @property
    def now_s(self) -> float:
        """Session time: never before the newest entry."""
        if self.last_s > self._clock.now_s():
            self._clock = SystemClock(self.last_s)
        return self._clock.now_s()

    @property
    def until_s(self) -> float:
        """Until when what is still open goes on: now, or the newest entry of a run that has ended."""
        return self.last_s if self.state.ended else self.now_s

    @property
    def warning(self) -> str:
        """A sentence for the operator; empty when every fact was understood."""
        if not self._unknown:
            return ""
        facts = "1 fact" if self._unknown == 1 else f"{self._unknown} facts"
        return f"{facts} of the journal not understood and passed over, the first is {self._first_unknown}"

    def catch_up(self) -> None:
        """Read what is new. Raises as `read`."""
        for _ in self.read():
            pass

    def read(self) -> Iterator[tuple[Entry, RunState]]:
        """The entries that are new, oldest first, each with the state it leads to. An entry is folded when it is taken from here.

        Raises UsageError for what is no run; JournalError for a damaged entry, behind all that could be read.
        """
        if not self.seq:
            check_run_dir(self.run_dir)
        with Journal.open(self.run_dir / JOURNAL_NAME, read_only=True) as journal:
            yield from self.fold(journal.read_entries(self.seq))

    def fold(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, RunState]]:
        """As `read`, of these entries."""
        for entry in entries:
            self._take(entry)
            yield entry, self.state

    def _take(self, entry: Entry) -> None:
        assert entry.seq > self.seq, f"entry {entry.seq} after entry {self.seq}"
        fact = entry.fact
        self.tally.take(self.state, entry)
        self.state = evolve(self.state, entry.at_s, fact)
        self.losses.take(self.state, entry)
        self.lineage.take(fact)
        self.schedule.take(fact)
        self.seq, self.last_s = entry.seq, entry.at_s
        if isinstance(fact, Noted) and fact.about == UNKNOWN_FACT:
            self._unknown += 1
            self._first_unknown = self._first_unknown or f"entry {entry.seq}: {fact.reason}"
