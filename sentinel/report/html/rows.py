"""The journal of an incident as rows a person reads: what was decided and what was not, what was done, who was called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.amounts import time_words
from sentinel.model.facts import Entry, Fact
from sentinel.model.incidents import Incident
from sentinel.model.recorded import recorded_name
from sentinel.model.state import RunState
from sentinel.terminal.words import action_words, describe

TEXT_CHARS_MAX = 1000
Tone = Literal["plain", "quiet", "good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class JournalRow:
    """`after`: since the fault was first visible, in words; `seq` of the journal's entry."""

    seq: int
    after: str
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class PageRow:
    """A delivery of a page: on which route, what of it, and what came of that."""

    after: str
    route: str
    stage: str
    title: str
    outcome: str


def journal_rows(entries: Sequence[Entry], incident: Incident, state: RunState) -> list[JournalRow]:
    return [_row(entry, incident, state) for entry in entries]


def _row(entry: Entry, incident: Incident, state: RunState) -> JournalRow:
    text, tone = _words(entry.fact, entry.at_s, state)
    text = " ".join(text.split())
    text = text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]} …"
    return JournalRow(entry.seq, after(entry.at_s, incident), text, tone)


def after(at_s: float, incident: Incident) -> str:
    seconds = at_s - incident.visible_s
    return f"+{time_words(seconds)}"


def _words(fact: Fact, at_s: float, state: RunState) -> tuple[str, Tone]:
    line = describe(fact, at_s, state)
    if line is not None:
        return line.words, line.tone
    match fact:
        case f.FindingRecorded(finding=found):
            return f"finding {found.kind} ({found.severity}): {found.reason}; {fact.reason}", "plain"
        case f.ActionDecided(action=action):
            return action_words(action), "plain"
        case f.ActionConfirmed(key=key, detail=detail):
            return f"done: {key}{': ' + detail if detail else ''}", "quiet"
        case f.PlanAdopted(actions=actions):
            return f"plan: {'; then '.join(action_words(action) for action in actions)}", "plain"
        case f.Noted(about=about, reason=reason):
            return f"{about}: {reason}", "quiet"
        case f.AttemptStopping(attempt=number, reason=reason):
            return f"attempt {number} is to end: {reason}", "plain"
        case f.CheckpointsQuarantined(above_step=step, reason=reason):
            return f"checkpoints above step {step} are in quarantine: {reason}", "plain"
        case f.EnvironmentRead(attempt=number, changes=changes):
            return f"what attempt {number} runs: {'; '.join(changes) or 'as before'}", "quiet"
        case f.InspectionLaunched(attempt=number):
            return f"attempt {number} looks at samples and trains nothing", "plain"
        case f.IncidentMoved(to=to, reason=reason):
            return f"{to}{': ' + reason if reason else ''}", "plain"
        case f.OverridesAnswered(id=name, step=step, not_in_force=keys):
            return f"settings {name} answered at step {step}{': not in force: ' + ', '.join(keys) if keys else ''}", "quiet"
        case _:
            reason = getattr(fact, "reason", "")
            return f"{_spaced(recorded_name(type(fact)))}{': ' + reason if reason else ''}", "quiet"


def _spaced(name: str) -> str:
    """ReceiptSeen: receipt seen."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def page_rows(entries: Sequence[Entry], incident: Incident) -> list[PageRow]:
    """Every delivery that was decided, with its outcome, and every answer to it."""
    outcomes = {e.fact.key: e.fact for e in entries if isinstance(e.fact, (f.ActionConfirmed, f.ActionAbandoned))}
    rows = []
    for entry in entries:
        when = after(entry.at_s, incident)
        match entry.fact:
            case f.ActionDecided(action=a.SendPage() as page):
                rows.append(PageRow(when, page.route or "terminal", page.stage, page.title, _outcome(outcomes.get(page.key))))
            case f.RequestAnswered(by=by, wish=request, answer=answer) if getattr(request, "incident", None) == incident.id:
                rows.append(PageRow(when, "", recorded_name(type(request)).lower(), f"{by}: {answer}", ""))
            case _:
                pass
    return rows


def _outcome(fact: f.ActionConfirmed | f.ActionAbandoned | None) -> str:
    match fact:
        case f.ActionConfirmed(detail=detail):
            return detail or "delivered"
        case f.ActionAbandoned(reason=reason):
            return f"not delivered: {reason}"
    return "not delivered yet"
