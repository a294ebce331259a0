"""A run's journal read on and on from outside, with the state it amounts to; and each entry as people and programs read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sentinel.engine import evolve
from sentinel.errors import JournalError
from sentinel.journal.codec import encode_fact
from sentinel.journal.store import JOURNAL_NAME, Journal
from sentinel.model import facts as f
from sentinel.model.actions import incident_of_page_key
from sentinel.model.facts import Entry, Fact
from sentinel.model.state import RunState
from sentinel.report.run_dirs import check_run_dir
from sentinel.terminal.clean import clean
from sentinel.terminal.words import clock_words, describe


class JournalTail:
    """Attributes: state, the fold of what was read; seq, of the newest entry read."""

    def __init__(self, run_dir: Path) -> None:
        self.state = RunState()
        self.seq = 0
        self._path = run_dir / JOURNAL_NAME

    def read(self) -> list[Entry]:
        """What was written since the last time. Raises JournalError; what was read before a damaged entry is in the state."""
        found: list[Entry] = []
        with Journal.open(self._path, read_only=True) as journal:
            for entry in journal.read_entries(self.seq):
                self.state = evolve(self.state, entry.at_s, entry.fact)
                self.seq = entry.seq
                found.append(entry)
        return found


def read_events(
    run_dir: Path, since: int, incident: int | None, follow: bool, pause: Callable[[], None]
) -> Iterator[tuple[Entry, RunState]]:
    """The entries behind `since`, oldest first, each with the state as it is now; with `follow` those that come, until the run
    has ended.

    Raises UsageError for what is no run; JournalError for a damaged entry, behind all that could be read.
    """
    check_run_dir(run_dir)
    run = JournalTail(run_dir)
    while True:
        before, damage = run.seq, None
        try:
            entries = run.read()
        except JournalError as error:
            entries, damage = _up_to(run_dir, before, run.seq), error
        for entry in entries:
            if entry.seq > since and (incident is None or incident_of(entry.fact) == incident):
                yield entry, run.state
        if damage is not None:
            raise damage
        if not follow or run.state.ended:
            return
        pause()


def _up_to(run_dir: Path, after: int, last: int) -> list[Entry]:
    found: list[Entry] = []
    if last == after:
        return found
    with Journal.open(run_dir / JOURNAL_NAME, read_only=True) as journal:
        for entry in journal.read_entries(after):
            found.append(entry)
            if entry.seq >= last:
                break
    return found


def incident_of(fact: Fact) -> int | None:
    """The incident a fact is about; None for those about none."""
    match fact:
        case f.IncidentOpened(incident=opened):
            return opened.id
        case f.FindingRecorded(became=number):
            return number
        case f.ActionDecided(action=about) | f.RequestAnswered(wish=about):
            number = getattr(about, "incident", None)
        case f.ActionConfirmed(key=key) | f.ActionAbandoned(key=key):
            return incident_of_page_key(key)
        case f.Noted():
            return fact.incident
        case _:
            number = getattr(fact, "incident", None)
    return number if isinstance(number, int) and number > 0 else None


def event_line(entry: Entry, state: RunState) -> str | None:
    """`  1:03:07  2026-11-20 15:54:00Z  INCIDENT 2 spike …`; None for what only the journal needs."""
    said = describe(entry.fact, entry.at_s, state)
    if said is None:
        return None
    return f"{clock_words(entry.at_s - state.created_s):>8}  {utc_words(entry.at_s)}  {clean(said.text)}"


def event_document(entry: Entry, state: RunState) -> dict[str, Any]:
    """The entry as one object: `fact` holds every field as the journal has it; `text` is null for what has no words."""
    kind, body = encode_fact(entry.fact)
    said = describe(entry.fact, entry.at_s, state)
    return {
        "seq": entry.seq,
        "at_s": entry.at_s,
        "elapsed_s": round(max(0.0, entry.at_s - state.created_s), 3),
        "kind": kind,
        "incident": incident_of(entry.fact),
        "text": said.text.strip() if said is not None else None,
        "fact": json.loads(body),
    }


def utc_words(at_s: float) -> str:
    """Session time as wall time, which it is but for a clock that was set back: `2026-11-20 15:54:00Z`."""
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{at_s:.0f} s"
