"""`sentinel events`: the entries of a run's journal, as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sentinel.errors import JournalError
from sentinel.journal.codec import encode_fact
from sentinel.model import facts as f
from sentinel.model.actions import incident_of_page_key
from sentinel.model.facts import Entry, Fact
from sentinel.model.state import RunState
from sentinel.report.journal_fold import JournalFold
from sentinel.report.reading import find_incident
from sentinel.terminal.clean import clean
from sentinel.terminal.words import clock_words, describe, utc_words


def read_events(
    run_dir: Path, since: int, incident: int | None, follow: bool, pause: Callable[[], None]
) -> Iterator[tuple[Entry, RunState]]:
    """The entries behind `since`, oldest first, each with the state as it is now; with `follow` those that come, until the run
    has ended.

    Raises UsageError for what is no run, and for an incident that it does not have (with `follow` it may still come);
    JournalError for a damaged entry, behind all that could be read.
    """
    fold = JournalFold(run_dir)
    while True:
        entries: list[Entry] = []
        damage: JournalError | None = None
        try:
            for entry, _ in fold.read():
                entries.append(entry)
        except JournalError as error:
            damage = error
        if incident is not None and not follow and damage is None and incident >= fold.state.next_incident:
            find_incident(run_dir, fold.state.incidents, incident)
        for entry in entries:
            if entry.seq > since and (incident is None or incident_of(entry.fact) == incident):
                yield entry, fold.state
        if damage is not None:
            raise damage
        if not follow or fold.state.ended:
            return
        pause()


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
    line = describe(entry.fact, entry.at_s, state)
    if line is None:
        return None
    return f"{clock_words(entry.at_s - state.created_s):>8}  {utc_words(entry.at_s)}  {clean(line.text)}"


def event_document(entry: Entry, state: RunState) -> dict[str, Any]:
    """The entry as one object: `fact` holds every field as the journal has it; `text` is null for what has no words."""
    kind, body = encode_fact(entry.fact)
    line = describe(entry.fact, entry.at_s, state)
    return {
        "seq": entry.seq,
        "at_s": entry.at_s,
        "elapsed_s": round(max(0.0, entry.at_s - state.created_s), 3),
        "kind": kind,
        "incident": incident_of(entry.fact),
        "text": line.text.strip() if line is not None else None,
        "fact": json.loads(body),
    }
