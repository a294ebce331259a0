"""What the journal says about a run, gathered in one pass: how it stands, its lineage, and of each incident what belongs to it
and what it cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from sentinel.model import facts as f
from sentinel.model.attempts import SettingsInForce
from sentinel.model.facts import Entry, Fact
from sentinel.model.findings import Finding
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState
from sentinel.report.events import incident_of
from sentinel.report.journal_fold import JournalFold
from sentinel.report.lineage import Branch
from sentinel.report.losses import IncidentLoss
from sentinel.report.reading import refuse_empty
from sentinel.run_files.detector_standings import read_standings
from sentinel.run_files.stream import read_newest_step

FIRST_KEPT, NEWEST_KEPT = 200, 400  # entries of one incident


@dataclass(slots=True)
class IncidentStretch:
    """What belongs to one incident. `loss`: what it cost in time. `left_out`: entries in the middle that were not kept."""

    loss: IncidentLoss | None = None
    settings_before: SettingsInForce = field(default_factory=SettingsInForce)
    settings_after: SettingsInForce | None = None
    finding: Finding | None = None
    first: list[Entry] = field(default_factory=list)
    newest: deque[Entry] = field(default_factory=lambda: deque(maxlen=NEWEST_KEPT))
    left_out: int = 0

    @property
    def entries(self) -> list[Entry]:
        return [*self.first, *self.newest]

    def keep(self, entry: Entry) -> None:
        if len(self.first) < FIRST_KEPT:
            self.first.append(entry)
            return
        self.left_out += len(self.newest) == NEWEST_KEPT
        self.newest.append(entry)


@dataclass(slots=True)
class Collected:
    """`now_s`: session time. `stretches` by the incident's number."""

    run_dir: Path
    state: RunState = field(default_factory=RunState)
    now_s: float = 0.0
    branches: list[Branch] = field(default_factory=list)
    stretches: dict[int, IncidentStretch] = field(default_factory=dict)
    gpus_in_use: int | None = None
    last_s: float = 0.0
    finding: f.FindingRecorded | None = None

    def branch(self, attempt: int) -> Branch | None:
        return next((one for one in self.branches if one.attempt == attempt), None)


def collect(run_dir: Path, entries_of: Collection[int] = ()) -> Collected:
    """`entries_of`: the incidents whose entries are wanted; the others then have no stretch either. Raises UsageError,
    JournalError."""
    found = Collected(run_dir)
    fold = JournalFold(run_dir)
    for entry, state in fold.read():
        found.state, found.last_s = state, entry.at_s
        _take(found, entry, entries_of)
    refuse_empty(fold)
    attempt = found.state.attempt
    newest = read_newest_step(run_dir, attempt.attempt) if attempt is not None else None
    found.branches = fold.lineage.branches(newest)
    found.now_s = fold.now_s
    found.gpus_in_use = read_standings(run_dir).gpus_in_use
    for loss in fold.losses.of_incidents(found.state, fold.until_s):
        if loss.incident in found.stretches:
            found.stretches[loss.incident].loss = loss
    return found


def _take(found: Collected, entry: Entry, entries_of: Collection[int]) -> None:
    match entry.fact:
        case f.FindingRecorded(became=int()) as recorded:
            found.finding = recorded
        case f.IncidentOpened(incident=incident) if not entries_of or incident.id in entries_of:
            _open(found, entry, incident, entries_of)
        case f.IncidentMoved(incident=number) if number in found.stretches:
            found.stretches[number].settings_after = found.state.overrides
        case _:
            pass
    for number in entries_of:
        if number in found.stretches and _belongs(found, number, entry.fact):
            found.stretches[number].keep(entry)


def _open(found: Collected, entry: Entry, incident: Incident, entries_of: Collection[int]) -> None:
    stretch = found.stretches[incident.id] = IncidentStretch(settings_before=found.state.overrides)
    recorded = found.finding
    if recorded is not None and recorded.became == incident.id:
        stretch.finding = recorded.finding
        if incident.id in entries_of:
            stretch.keep(Entry(entry.seq - 1, entry.at_s, entry.epoch, recorded))


def _belongs(found: Collected, number: int, fact: Fact) -> bool:
    """What names the incident; and while it is open, what names none."""
    named = incident_of(fact)
    if named is not None:
        return named == number
    known = next((one for one in reversed(found.state.incidents) if one.id == number), None)
    return known is not None and not known.is_closed and not isinstance(fact, (f.CheckpointCommitted, f.BudgetRefilled))
