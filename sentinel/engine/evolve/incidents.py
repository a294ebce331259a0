"""The rules of `evolve` about findings and incidents. None of them decides anything; each reads only what its fact says."""

from __future__ import annotations

from collections.abc import Callable

from sentinel.engine.evolve.attempts import change_attempt
from sentinel.model import facts as f
from sentinel.model.changed import replace
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import CLOSED, NEXT, Incident, IncidentState, Outcome, Try
from sentinel.model.state import INCIDENTS_KEPT, STAMPS_KEPT, Attempt, RunState

FINDING_KEYS_KEPT = 4096  # of one attempt: a key forgotten is an incident found again when the stream is read again
TRIES_KEPT = 64


def change_incident(state: RunState, number: int, change: Callable[[Incident], Incident]) -> RunState:
    """Looked for from the newest on: nearly every fact is about that, and a run of months has hundreds."""
    for at in range(len(state.incidents) - 1, -1, -1):
        if state.incidents[at].id == number:
            changed = (*state.incidents[:at], change(state.incidents[at]), *state.incidents[at + 1 :])
            return replace(state, incidents=changed)
    return state


def finding(state: RunState, at_s: float, fact: f.FindingRecorded) -> RunState:
    """A later finding of an incident may lie before its onset: a window half skipped brings what is left of it sooner."""
    found = fact.finding
    state = replace(state, findings=(*state.findings, found.key)[-FINDING_KEYS_KEPT:])
    if fact.became is None:
        return replace(state, dismissed=(*state.dismissed, found.key)[-FINDING_KEYS_KEPT:])
    if fact.became == state.next_incident:
        state = replace(state, opening_metric=found.metric or "")
    state = change_incident(state, fact.became, lambda i: replace(i, again_step=found.detected_step, again_s=at_s))
    state = _failed(state, found)
    if not found.kind.is_numeric:
        return state
    onset = found.onset_step if found.onset_step is not None else found.detected_step

    def widened(i: Incident) -> Incident:
        known = i.limit_step
        return replace(i, earliest_step=onset) if known is not None and onset < known else i

    return change_incident(state, fact.became, widened)


def _failed(state: RunState, found: Finding) -> RunState:
    """How an attempt failed, where the checkpoint it began with may be to blame; the first word counts."""
    if found.kind not in (Kind.CRASH, Kind.NON_FINITE) or found.outside:
        return state

    def with_failure(a: Attempt) -> Attempt:
        return replace(a, failed=str(found.kind), failed_step=found.detected_step) if not a.failed else a

    return change_attempt(state, found.attempt, with_failure)


def opened(state: RunState, at_s: float, fact: f.IncidentOpened) -> RunState:
    del at_s
    kept = state.incidents
    while len(kept) >= INCIDENTS_KEPT:
        closed = [i for i in kept if i.is_closed] or [kept[0]]
        oldest = next((i for i in closed if i.page is None or not i.page.is_open), closed[0])
        kept = tuple(i for i in kept if i.id != oldest.id)
    incident = fact.incident
    if not incident.metric:  # an older journal: the finding before it knows
        incident = replace(incident, metric=state.opening_metric)
    return replace(state, incidents=(*kept, incident), next_incident=incident.id + 1, opening_metric="")


def rung(state: RunState, at_s: float, fact: f.RungTaken) -> RunState:
    taken = Try(fact.remedy, at_s, fact.step, mark=fact.mark)
    if fact.intervention:
        stamps = (*state.interventions_s, at_s)[-STAMPS_KEPT:]
        state = replace(state, interventions_s=stamps, intervention_step=fact.step)

    def climbed(i: Incident) -> Incident:
        again = None if "diagnose" in fact.remedy.words else i.diagnosis
        tries = (*i.tries, taken)[-TRIES_KEPT:]
        return replace(i, rung=fact.remedy.rung, break_step=max(i.break_step, fact.step), tries=tries, diagnosis=again)

    return change_incident(state, fact.incident, climbed)


def laid(state: RunState, at_s: float, fact: f.PlaybookChanged) -> RunState:
    """The tries before it are those of another policy."""
    del at_s

    def in_place(i: Incident) -> Incident:
        asked = i.approval if not i.awaits_approval else None
        if i.approval is not None and fact.asked_rung is not None:
            asked = replace(i.approval, rung=fact.asked_rung)
        anew = len(i.tries) if fact.rung < 0 else i.relaid_tries
        return replace(i, playbook=fact.playbook, rung=fact.rung, approval=asked, relaid_tries=anew)

    return change_incident(state, fact.incident, in_place)


def judged(state: RunState, at_s: float, fact: f.RungJudged) -> RunState:
    del at_s

    def with_outcome(i: Incident) -> Incident:
        if not i.tries:
            return i
        last = replace(i.tries[-1], outcome=fact.outcome, reason=fact.reason, struck_step=fact.struck_step)
        return replace(i, tries=(*i.tries[:-1], last), restored_s=None if fact.outcome is Outcome.FAILED else i.restored_s)

    return change_incident(state, fact.incident, with_outcome)


def moved(state: RunState, at_s: float, fact: f.IncidentMoved) -> RunState:
    def in_state(i: Incident) -> Incident:
        assert fact.to in NEXT[i.state], f"incident {i.id} may not move from {i.state} to {fact.to}"
        closed = at_s if fact.to in CLOSED else None
        benign = fact.benign if fact.benign is not None else i.benign
        kept = i.kept_step if fact.to is IncidentState.PROBATION else None
        return replace(i, state=fact.to, verdict=fact.reason, closed_s=closed, benign=benign, kept_step=kept)

    return change_incident(state, fact.incident, in_state)


def kept(state: RunState, at_s: float, fact: f.ProbationKept) -> RunState:
    del at_s
    return change_incident(state, fact.incident, lambda i: replace(i, kept_step=fact.step))


def blamed(state: RunState, at_s: float, fact: f.BlameFound) -> RunState:
    del at_s

    def with_blame(i: Incident) -> Incident:
        return replace(i, blamed_rank=fact.rank, blamed_node=fact.node, reason=f"{i.reason}; {fact.reason}")

    return change_incident(state, fact.incident, with_blame)


def diagnosed(state: RunState, at_s: float, fact: f.Diagnosed) -> RunState:
    del at_s
    ranks = fact.diagnosis.ranks

    def with_diagnosis(i: Incident) -> Incident:
        return replace(i, diagnosis=fact.diagnosis, blamed_rank=ranks[0] if len(ranks) == 1 else i.blamed_rank)

    return change_incident(state, fact.incident, with_diagnosis)


def attributed(state: RunState, at_s: float, fact: f.Attributed) -> RunState:
    """What the rung skips is now what was attributed; where no sample was, the whole window, as the rung says."""
    del at_s
    found = fact.attribution

    def with_attribution(i: Incident) -> Incident:
        i = replace(i, attribution=found, attributed_rung=fact.rung)
        if not i.tries or i.tries[-1].remedy.rung != fact.rung or not found.ranges:
            return i
        last = replace(i.tries[-1], remedy=replace(i.tries[-1].remedy, skip=found.ranges))
        return replace(i, tries=(*i.tries[:-1], last))

    return change_incident(state, fact.incident, with_attribution)


def restored(state: RunState, at_s: float, fact: f.Restored) -> RunState:
    return change_incident(state, fact.incident, lambda i: replace(i, restored_s=at_s))


def lost(state: RunState, at_s: float, fact: f.StepsLost) -> RunState:
    del at_s

    def more(incident: Incident) -> Incident:
        unseen = None if incident.steps_unseen is None or fact.unseen is None else incident.steps_unseen + fact.unseen
        return replace(incident, steps_lost=incident.steps_lost + fact.steps, steps_unseen=unseen)

    return change_incident(state, fact.incident, more)
