"""`evolve(state, at_s, fact) -> state`: the fold of facts, the only place that changes what Sentinel believes.

One function per fact, looked up in a table. The modules beside this one hold those of the run, of attempts, incidents, pages,
requests and settings. None of them decides anything. An upgrade must not rewrite history, so these may only read what the
fact says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from sentinel.engine.evolve import attempts as of_attempts
from sentinel.engine.evolve import incidents as of_incidents
from sentinel.engine.evolve import nodes as of_nodes
from sentinel.engine.evolve import pages as of_pages
from sentinel.engine.evolve import pruning as of_pruning
from sentinel.engine.evolve import refusals as of_refusals
from sentinel.engine.evolve import requests as of_requests
from sentinel.engine.evolve import run as of_run
from sentinel.engine.evolve import settings as of_settings
from sentinel.engine.evolve.attempts import change_attempt
from sentinel.engine.evolve.incidents import change_incident
from sentinel.model import facts as f
from sentinel.model.actions import (
    Action,
    FindCheckpoints,
    KillAttempt,
    PruneCheckpoint,
    SendPage,
    SignalRanks,
    StartAttempt,
    VerifyCheckpoint,
    WriteOverrides,
)
from sentinel.model.attempts import ChangePurpose
from sentinel.model.changed import replace
from sentinel.model.incidents import Incident
from sentinel.model.state import REMARKS_KEPT, PlanInProgress, RunState

K = TypeVar("K")
V = TypeVar("V")


def evolve(state: RunState, at_s: float, fact: f.Fact) -> RunState:
    """The state after this fact. Total over `Fact`: a kind without a rule is a programming error."""
    return _RULES[type(fact)](state, at_s, fact)


def _with(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return MappingProxyType({**mapping, key: value})


def _without(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    return MappingProxyType({k: v for k, v in mapping.items() if k != key})


def _decided(state: RunState, at_s: float, fact: f.ActionDecided) -> RunState:
    action = fact.action
    state = replace(state, pending=_with(state.pending, action.key, action))
    if isinstance(action, SignalRanks):
        return change_attempt(state, action.attempt, lambda a: replace(a, signalled_s=at_s))
    if isinstance(action, StartAttempt):
        return change_attempt(state, action.attempt, lambda a: replace(a, not_before_s=action.not_before_s))
    if isinstance(action, SendPage):
        return of_pages.decided(state, at_s, action)
    if isinstance(action, PruneCheckpoint):
        return of_pruning.pruned(state, action)
    return state


def _confirmed(state: RunState, at_s: float, fact: f.ActionConfirmed) -> RunState:
    action = state.pending.get(fact.key)
    state = replace(state, pending=_without(state.pending, fact.key))
    if isinstance(action, FindCheckpoints):
        state = replace(state, unlisted="")
    if isinstance(action, KillAttempt):
        state = of_attempts.seen_ended(state, action.attempt)
    if isinstance(action, VerifyCheckpoint):
        state = of_attempts.validated(state, action.step, fact.detail)
    if isinstance(action, SendPage):
        return of_pages.delivered(state, at_s, action)
    if isinstance(action, WriteOverrides):
        written = action.overrides
        at_step = action.step
        purpose = action.purpose or _purpose_in_id(written.id)
        change = partial(replace, overrides=written, written_s=at_s, written_step=at_step, before=action.before, purpose=purpose)
        state = replace(change_attempt(state, action.attempt, change), overrides=written)
    plan = state.plan
    if plan is None or plan.actions[plan.next].key != fact.key:
        return state
    after = replace(plan, next=plan.next + 1)
    return replace(state, plan=None if after.next == len(after.actions) else after)


def _purpose_in_id(name: str) -> ChangePurpose:
    """Of a change that was under way when a version took over that records the purpose."""
    head = name.partition(".")[2].partition("-")[0]
    return "person" if head == "wish" else "lapse" if head in ("lapse", "keep") else "remedy"


def _abandoned(state: RunState, at_s: float, fact: f.ActionAbandoned) -> RunState:
    action = state.pending.get(fact.key)
    if isinstance(action, PruneCheckpoint):
        state = of_pruning.not_pruned(state, at_s, action)
    if isinstance(action, SendPage):
        state = of_pages.abandoned(state, action, fact)
    return replace(state, pending=_without(state.pending, fact.key))


def _plan(state: RunState, at_s: float, fact: f.PlanAdopted) -> RunState:
    del at_s
    state = replace(state, plan=PlanInProgress(fact.incident, fact.actions, reason=fact.reason), inspection=None)
    started = next((a for a in fact.actions if isinstance(a, StartAttempt)), None)
    if fact.incident is None or started is None:
        return state

    def planned(i: Incident) -> Incident:
        if not i.tries:
            return i
        last = i.tries[-1]
        step = started.resume.step if started.resume else 0
        remedy = replace(last.remedy, rollback_to_step=step, reason=fact.reason or last.remedy.reason)
        return replace(i, tries=(*i.tries[:-1], replace(last, remedy=remedy, attempt=started.attempt)))

    return change_incident(state, fact.incident, planned)


def _dropped(state: RunState, at_s: float, fact: f.PlanDropped) -> RunState:
    del at_s, fact
    keys = {a.key for a in state.plan.actions} if state.plan else set()
    left: dict[str, Action] = {k: a for k, a in state.pending.items() if k not in keys}
    for action in (state.pending[key] for key in keys & state.pending.keys()):
        if isinstance(action, KillAttempt) and (state.attempt is None or action.attempt != state.attempt.attempt):
            state = of_attempts.seen_ended(state, action.attempt)  # of an inspection, which nobody asks about any more
    return replace(state, plan=None, inspection=None, pending=MappingProxyType(left))


def _source(state: RunState, at_s: float, fact: f.SourceChanged) -> RunState:
    blind = _without(state.blind, fact.source) if fact.ok else _with(state.blind, fact.source, fact.reason)
    since_s = state.blind_since_s
    if fact.ok:
        since_s = _without(since_s, fact.source)
    elif fact.source not in since_s:
        since_s = _with(since_s, fact.source, at_s)
    unlisted = state.unlisted if fact.source != "checkpoints" else "" if fact.ok else fact.reason
    return replace(state, blind=blind, blind_since_s=since_s, unlisted=unlisted)


def _noted(state: RunState, at_s: float, fact: f.Noted) -> RunState:
    """Notes are for people; those about a source are kept, so that none is written twice."""
    del at_s
    if fact.about != f.ABOUT_SOURCE or len(state.remarks) > REMARKS_KEPT:
        return state
    return replace(state, remarks=(*state.remarks, fact.reason))


_RULES: dict[type[Any], Callable[[RunState, float, Any], RunState]] = {
    f.RunCreated: of_run.created,
    f.SupervisorTookOver: of_run.took_over,
    f.CommandChanged: of_run.command_changed,
    f.PolicyApplied: of_run.policy_applied,
    f.PlaybookChanged: of_incidents.laid,
    f.ActionDecided: _decided,
    f.ActionConfirmed: _confirmed,
    f.ActionAbandoned: _abandoned,
    f.AttemptLaunched: of_attempts.launched,
    f.EnvironmentRead: of_attempts.environment_read,
    f.ReceiptSeen: of_attempts.receipt,
    f.SettingObserved: of_attempts.observed,
    f.NumbersMissing: of_attempts.numbers_missing,
    f.AttemptUnseen: of_attempts.unseen,
    f.EngineTrouble: of_refusals.engine_trouble,
    f.ArgumentsRefused: of_refusals.arguments_refused,
    f.FirstStep: of_attempts.first_step,
    f.CheckpointCommitted: of_attempts.checkpoint,
    f.CheckpointVerified: of_attempts.read_back,
    f.CheckpointCondemned: of_attempts.condemned,
    f.CheckpointsQuarantined: of_attempts.quarantined,
    f.AttemptStopping: of_attempts.stopping,
    f.AttemptEnded: of_attempts.ended,
    f.FindingRecorded: of_incidents.finding,
    f.IncidentOpened: of_incidents.opened,
    f.RungTaken: of_incidents.rung,
    f.RungJudged: of_incidents.judged,
    f.IncidentMoved: of_incidents.moved,
    f.Restored: of_incidents.restored,
    f.BlameFound: of_incidents.blamed,
    f.ProbationKept: of_incidents.kept,
    f.Diagnosed: of_incidents.diagnosed,
    f.InspectionLaunched: of_attempts.inspection,
    f.Attributed: of_incidents.attributed,
    f.NodeExcluded: of_nodes.excluded,
    f.NodeBlamed: of_nodes.blamed,
    f.NodesChecked: of_nodes.checked,
    f.PageRaised: of_pages.raised,
    f.PageHeld: of_pages.held,
    f.LogMatched: of_run.log_matched,
    f.PageResolved: of_pages.resolved,
    f.StepsLost: of_incidents.lost,
    f.PlanAdopted: _plan,
    f.PlanDropped: _dropped,
    f.StopAsked: of_run.stop_asked,
    f.SourceChanged: _source,
    f.Noted: _noted,
    f.Held: of_run.held,
    f.BudgetRefilled: of_run.budget_refilled,
    f.GaveUp: of_run.gave_up,
    f.RunEnded: of_run.ended,
    f.RequestAnswered: of_requests.answered,
    f.ApprovalAsked: of_requests.approval_asked,
    f.OverridesAnswered: of_requests.overrides_answered,
    f.SettingLapsed: of_settings.lapsed,
    f.LapseJudged: of_settings.judged,
    f.JournalAdopted: of_run.journal_adopted,
    f.JournalSalvaged: of_run.journal_salvaged,
    f.RunRestored: of_run.restored,
}
