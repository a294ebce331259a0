"""What a replay found: one `ReplayFinding` per finding, filled in as its incident goes on, and the `ReplayResult` of one log.

It listens to the engine's facts and decides nothing. A finding that opened or joined an incident shares how that incident went;
one that no rule wanted, or that was a hiccup, is severity info and stands alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sentinel.model import facts as f
from sentinel.model.facts import Fact
from sentinel.model.findings import Severity
from sentinel.model.incidents import CLOSED, Incident, IncidentState, Outcome
from sentinel.policy.schema_rungs import WORDS
from sentinel.streams.curve import Bucket

FOUND_MAX = 10_000  # of one log: beyond it findings are only counted
# Rungs made of these alone change nothing in the training.
IDLE_WORDS = frozenset(word for word, row in WORDS.items() if row.does not in ("relaunches", "treats"))


@dataclass(slots=True)
class ReplayFinding:
    """Attributes:
    severity: fixed when the finding fires. onset_step: None where the failure has none.
    resolved_step: since when the judged metric stood in its band again (of one that joined: not before it was found itself); None
        when it never was.
    benign: True healed with nothing done; False it did not, or the policy would have acted; None not known.
    intervened: the policy would have acted. remedy: the first rung that acts, as in `rollback+skip`; None without one.
    """

    kind: str
    severity: Severity
    onset_step: int | None
    detected_step: int
    reason: str
    resolved_step: int | None = None
    benign: bool | None = None
    intervened: bool = False
    remedy: str | None = None
    remedy_step: int | None = None

    def document(self, file: str) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "file": file,
            "kind": self.kind,
            "severity": self.severity,
            "onset_step": self.onset_step,
            "detected_step": self.detected_step,
            "resolved_step": self.resolved_step,
            "benign": self.benign,
            "intervened": self.intervened,
            "remedy": self.remedy,
            "reason": self.reason,
        }


@dataclass(slots=True)
class ReplayResult:
    """One log. `error`: it could not be read, in a sentence; then the rest is what was found before. `unrecognised`: because it
    is no log, or holds no step. `has_loss`: some row has a training loss; `metrics`: what the first rows of a log without one
    have. `remark`: what a reader of the result should know. `repeated`: rows that said again what was said.
    `counts_epochs`: its steps begin again with each epoch, and were counted on. `curves`: by metric, for drawing."""

    file: str
    format: str = ""
    rows: int = 0
    first_step: int | None = None
    last_step: int | None = None
    repeated: int = 0
    counts_epochs: bool = False
    damaged: int = 0
    first_damage: str = ""
    dropped: int = 0
    remark: str = ""
    error: str = ""
    unrecognised: bool = False
    has_loss: bool = False
    metrics: set[str] = field(default_factory=set)
    curves: dict[str, list[Bucket]] = field(default_factory=dict)
    found: list[ReplayFinding] = field(default_factory=list)


class Collector:
    """Facts in, findings out. `fresh` holds what was not yet shown to a person who follows live."""

    def __init__(self, result: ReplayResult) -> None:
        self.result = result
        self._members: dict[int, list[ReplayFinding]] = {}

    def take(self, facts: Iterable[Fact], step: int) -> list[ReplayFinding]:
        """The findings that are new or changed."""
        touched: list[ReplayFinding] = []
        for fact in facts:
            match fact:
                case f.FindingRecorded():
                    touched.append(self._add(fact))
                case f.IncidentOpened(incident=incident):
                    self._dated(incident)
                case f.RungTaken(incident=number, remedy=remedy) if not IDLE_WORDS.issuperset(remedy.words):
                    touched += self._acted(number, "+".join(remedy.words), step)
                case f.RungJudged(incident=number, outcome=Outcome.OBSERVED):
                    touched += self._members.get(number, ())
                case f.IncidentMoved(to=to) if to in CLOSED:
                    touched += self._closed(fact, step)
                case _:
                    pass
        return touched

    def _add(self, fact: f.FindingRecorded) -> ReplayFinding:
        finding = fact.finding
        severity = finding.severity if fact.became is not None else "info"
        found = ReplayFinding(str(finding.kind), severity, finding.onset_step, finding.detected_step, finding.reason)
        if fact.became is not None:
            known = self._members.setdefault(fact.became, [])
            if known:
                found.intervened, found.remedy, found.benign = known[0].intervened, known[0].remedy, known[0].benign
                found.remedy_step = known[0].remedy_step
            known.append(found)
        if len(self.result.found) < FOUND_MAX:
            self.result.found.append(found)
        else:
            self.result.dropped += 1
        return found

    def _dated(self, incident: Incident) -> None:
        """The finding that opened it is shown with the incident's onset, which another signal may have dated back."""
        for opener in self._members.get(incident.id, [])[:1]:
            opener.onset_step, opener.reason = incident.onset_step, incident.reason

    def _acted(self, number: int, words: str, step: int) -> list[ReplayFinding]:
        members = self._members.get(number, [])
        for found in members:
            if not found.intervened:
                found.intervened, found.remedy, found.remedy_step, found.benign = True, words, step, False
        return members

    def _closed(self, fact: f.IncidentMoved, step: int) -> list[ReplayFinding]:
        """`step`: of the verdict, for an incident that does not know since when its metric was back."""
        members = self._members.pop(fact.incident, [])
        back = fact.back_step if fact.back_step is not None else step
        for found in members:
            if fact.to is IncidentState.RECOVERED:
                found.resolved_step = max(back, found.detected_step)
                found.benign = False if found.intervened else fact.benign
            elif found.benign is None:
                found.benign = False
        return members
