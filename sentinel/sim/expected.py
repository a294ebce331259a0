"""What a drill expects, and where what happened differs: as sentences.

Most expectations hold wherever the faults strike: kinds, states, the order of the rungs, how much may be lost. Steps of the run
(`onset`, `resumed_from`) and `lapses` hold for the file as it is written and are not asked about when its faults are drawn. Two
things are always asked, against the truth of the world: nothing damaged was resumed from, and an expected skip covers the poison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Protocol

from sentinel.model.amounts import lost_words
from sentinel.model.facts import Entry, FindingRecorded, LapseJudged
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import RunState
from sentinel.sim.data_order import union
from sentinel.sim.faults import SAMPLE, Fault
from sentinel.sim.scenarios import Scenario
from sentinel.sim.variation import first_step

DAMAGING = ("bad_data", "nan_state", "spike", "unstable")


@dataclass(frozen=True)
class ExpectedIncident:
    """None: not asked about. `remedies` are the rungs' titles in the order they were taken; `onset` and `resumed_from` (of the
    last relaunch for this incident) are steps of the file as written, the first and last that are right; `steps_lost_max`
    are steps to be trained again; `skipped_max`: samples that the last remedy left out; `diagnosis` is the cause that a
    repetition proved, `blamed_rank` whom it blames, as written."""

    kind: str
    state: str | None = None
    remedies: tuple[str, ...] | None = None
    onset: tuple[int, int] | None = None
    resumed_from: tuple[int, int] | None = None
    steps_lost_max: int | None = None
    skipped_max: int | None = None
    diagnosis: str | None = None
    blamed_rank: int | None = None


@dataclass(frozen=True)
class ExpectedFinding:
    """`onset` and `detected` are steps of the file as written, the first and last that are right. Which of several metrics is
    told first also follows from where and how strongly their faults strike: where that is drawn, the order may be another."""

    kind: str
    severity: str | None = None
    metric: str | None = None
    onset: tuple[int, int] | None = None
    detected: tuple[int, int] | None = None


@dataclass(frozen=True)
class Expected:
    outcome: str | None = None
    pages: int | None = None
    attempts: int | None = None
    incidents: tuple[ExpectedIncident, ...] | None = None
    findings: tuple[ExpectedFinding, ...] | None = None  # all of their kinds, in order; none: of no kind
    lapses: tuple[str, ...] | None = None  # `lr_scale proven`, in the order they were judged; of the file as written


class Happened(Protocol):
    """A run that is over, simulated or real."""

    @property
    def scenario(self) -> Scenario: ...
    @property
    def outcome(self) -> str: ...
    @property
    def state(self) -> RunState: ...
    @property
    def pages(self) -> Sized: ...
    @property
    def entries(self) -> Sequence[Entry]: ...


def differences(expected: Expected, result: Happened, *, varied: bool = False) -> tuple[str, ...]:
    """Where what happened is not what was expected. `varied`: the faults were drawn, so steps are not compared."""
    found = []
    counts = (("pages", expected.pages, len(result.pages)), ("attempts", expected.attempts, len(result.state.attempts)))
    if expected.outcome is not None and expected.outcome != result.outcome:
        found.append(f"the run {result.outcome}, expected {expected.outcome}")
    found += [f"{got} {name}, expected {want}" for name, want, got in counts if want is not None and want != got]
    judged = tuple(f"{key} {e.fact.outcome}" for e in result.entries if isinstance(e.fact, LapseJudged) for key in e.fact.keys)
    if expected.lapses is not None and judged != expected.lapses and not varied:
        found.append(f"lapses {', '.join(judged) or 'none'}, expected {', '.join(expected.lapses) or 'none'}")
    if expected.incidents is not None:
        happened = result.state.incidents
        if len(happened) != len(expected.incidents):
            kinds = ", ".join(incident.kind for incident in happened) or "none"
            found.append(f"{len(happened)} incidents ({kinds}), expected {len(expected.incidents)}")
        for want, incident in zip(expected.incidents, happened, strict=False):
            found += _differing(want, incident)
            found += () if varied else _misplaced(want, incident)
            found += _uncovered(want, incident, result)
    found += _findings_differ(expected.findings, result, varied)
    return (*found, *_resumed_too_late(result))


def _findings_differ(wanted: tuple[ExpectedFinding, ...] | None, result: Happened, varied: bool) -> Iterator[str]:
    if wanted is None:
        return
    kinds = {want.kind for want in wanted}
    recorded = (entry.fact.finding for entry in result.entries if isinstance(entry.fact, FindingRecorded))
    happened = [finding for finding in recorded if not kinds or finding.kind in kinds]
    if len(happened) != len(wanted):
        reasons = "; ".join(finding.reason for finding in happened) or "none"
        yield f"{len(happened)} findings of {', '.join(sorted(kinds)) or 'any kind'} ({reasons}), expected {len(wanted)}"
    if varied and len(happened) == len(wanted) and all(want.metric is not None for want in wanted):
        asked, found_metrics = sorted(str(want.metric) for want in wanted), sorted(str(finding.metric) for finding in happened)
        if asked != found_metrics:
            yield f"findings of {', '.join(found_metrics)}, expected of {', '.join(asked)}"
        wanted = tuple(replace(want, metric=None) for want in wanted)
    for want, finding in zip(wanted, happened, strict=False):
        for name in ("kind", "severity", "metric"):
            expected, got = getattr(want, name), getattr(finding, name)
            if expected is not None and expected != got:
                yield f"finding {name} {got}, expected {expected}: {finding.reason}"
        for name, span, step in (("onset", want.onset, finding.onset_step), ("detected", want.detected, finding.detected_step)):
            if span is not None and not varied and (step is None or not span[0] <= step <= span[1]):
                yield f"finding {name} {step}, expected {_span(span)}: {finding.reason}"


def _span(span: tuple[int, int]) -> str:
    return f"{span[0]}" if span[0] == span[1] else f"{span[0]}..{span[1]}"


def _differing(want: ExpectedIncident, incident: Incident) -> Iterator[str]:
    cause = incident.diagnosis.cause if incident.diagnosis is not None else "none"
    pairs = (
        ("kind", want.kind, incident.kind), ("state", want.state, incident.state),
        ("remedies", want.remedies, rungs_of(incident)), ("diagnosis", want.diagnosis, cause),
    )  # fmt: skip
    for name, expected, got in pairs:
        if expected is not None and expected != got:
            shown = [", ".join(value) if isinstance(value, tuple) else str(value) for value in (got, expected)]
            yield f"incident {incident.id}: {name} {shown[0]}, expected {shown[1]}"
    most = incident.steps_lost_at_most
    if want.steps_lost_max is not None and (most is None or most > want.steps_lost_max):
        lost = lost_words(incident.steps_lost, incident.steps_unseen)
        yield f"incident {incident.id}: {lost} were lost, expected {want.steps_lost_max} at most"
    skipped = sum(span.end - span.start for span in incident.last_try.remedy.skip) if incident.last_try else 0
    if want.skipped_max is not None and skipped > want.skipped_max:
        yield f"incident {incident.id}: {skipped} samples were left out, expected {want.skipped_max} at most"


def rungs_of(incident: Incident) -> tuple[str, ...]:
    """Titles of the rungs taken, in order."""
    return tuple(" + ".join(word for word in t.remedy.words if word not in ("then", "until")) for t in incident.tries)


def _misplaced(want: ExpectedIncident, incident: Incident) -> Iterator[str]:
    if want.blamed_rank is not None and want.blamed_rank != incident.blamed_rank:
        yield f"incident {incident.id}: rank {incident.blamed_rank} is blamed, expected {want.blamed_rank}"
    for name, expected, got in (
        ("onset", want.onset, incident.onset_step),
        ("resumed_from", want.resumed_from, next(iter(_resumed_from(incident)[::-1]), None)),
    ):
        if expected is not None and (got is None or not expected[0] <= got <= expected[1]):
            yield f"incident {incident.id}: {name} {got}, expected {_span(expected)}"


def _resumed_from(incident: Incident) -> tuple[int, ...]:
    steps = (one.remedy.rollback_to_step for one in incident.tries)
    return tuple(step for step in steps if step is not None)


def _uncovered(want: ExpectedIncident, incident: Incident, result: Happened) -> Iterator[str]:
    """A repair that was to skip the poison and is called recovered has skipped all of it."""
    if want.state != IncidentState.RECOVERED or not any("skip" in title for title in want.remedies or ()):
        return
    skipped = union((span.start, span.end) for one in incident.tries for span in one.remedy.skip)
    for fault in result.scenario.faults:
        start, end = int(fault.at), fault.behind
        if fault.place == SAMPLE and not any(first <= start and end <= behind for first, behind in skipped):
            ranges = ", ".join(f"{first}-{behind}" for first, behind in skipped) or "nothing"
            yield f"incident {incident.id}: it skipped {ranges}, and the poison is {start}-{end}"


def _resumed_too_late(result: Happened) -> Iterator[str]:
    """Each numeric incident against the fault it is of, in order; where their numbers differ, the first of each."""
    damaging = (fault for fault in result.scenario.faults if fault.kind in DAMAGING)
    faults = sorted(damaging, key=lambda fault: _began(fault, result))
    incidents = [incident for incident in result.state.incidents if incident.is_numeric]
    pairs = list(zip(incidents, faults, strict=False))
    for incident, fault in pairs if len(incidents) == len(faults) else pairs[:1]:
        began = _began(fault, result)
        late = [step for step in _resumed_from(incident) if step >= began]
        if late:
            yield f"incident {incident.id}: resumed from step {late[0]}, and {fault.text} began at step {began}"


def _began(fault: Fault, result: Happened) -> int:
    return first_step(fault, result.scenario.shape)
