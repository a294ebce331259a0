"""Another policy on a live run: what a person asked for is read and checked off the loop, then it is in force by a fact.

    request ─▶ LoadPolicy ─▶ PolicyApplied ─▶ the loop begins anew, with an engine of the new policy (`supervisor.app`)

The engine that records the fact decides nothing after it. What the new policy means for the incidents that are open is decided by
the first engine that has it (`lay_incidents`), whether the loop has begun anew or a supervisor was killed in between.
"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.ladder import consider, take_next_rung
from sentinel.model import facts as f
from sentinel.model.actions import LoadPolicy, policy_key
from sentinel.model.findings import Finding
from sentinel.model.incidents import Outcome
from sentinel.model.operator_requests import ApplyPolicy
from sentinel.model.readings import RequestReading
from sentinel.model.records import LoadedPolicy
from sentinel.model.state import RIGHTLY_ENDED
from sentinel.plan.playbook_change import find_place

ABOUT = "policy"


def on_request(decision: Decision, asked: RequestReading, wanted: ApplyPolicy) -> None:
    """Refused at once where no decision is to follow; else answered when the policy has been read."""
    if why_not := _why_not(decision, asked.is_attended):
        decision.record(f.RequestAnswered(asked.id, asked.by, wanted, False, why_not))
    else:
        decision.decide(LoadPolicy(policy_key(asked.id), asked.id, asked.by, wanted.path, wanted.digest, wanted.note))


def _why_not(decision: Decision, is_attended: bool) -> str:
    state = decision.state
    if state.ended in RIGHTLY_ENDED:
        return f"the run has {RIGHTLY_ENDED[state.ended]}: nothing is decided about it any more"
    if state.ended and is_attended:
        return f"the run has {state.ended}, and its supervisor is leaving: ask again in a minute, or start it with --policy"
    return f"the run is being stopped, by {state.stop_by}" if state.stop_by and is_attended else ""


def on_loaded(decision: Decision, action: LoadPolicy, found: LoadedPolicy) -> None:
    """It can be used. Called while no other action is being carried out."""
    state = decision.state
    decision.record(f.ActionConfirmed(action.key, f"{found.name} (sha256 {found.digest[:12]})"))
    named = f"policy {found.name} (sha256 {found.digest[:12]})"
    if found.digest == state.policy_digest:
        _answer(decision, action, True, f"{named} is in force already")
    elif why_not := _why_not(decision, is_attended=bool(decision.live.attempt)):  # else nobody watches an attempt
        _answer(decision, action, False, why_not)
    else:
        was = f"{state.policy_name} (sha256 {state.policy_digest[:12]})"
        after = "from the next decision on" if decision.is_alive else "when something is decided again"
        under_way = "; the recovery under way is carried out as it was decided" if state.plan is not None else ""
        _answer(decision, action, True, f"{named} is in force {after}, in the place of {was}{under_way}")
        _record(decision, action, found)


def _record(decision: Decision, action: LoadPolicy, found: LoadedPolicy) -> None:
    state, attempt = decision.state, decision.attempt
    decision.record(
        f.PolicyApplied(
            request=action.request,
            by=action.by,
            note=action.note,
            name=found.name,
            path=found.path,
            digest=found.digest,
            before=state.policy_name,
            digest_before=state.policy_digest,
            named=found.named,
            named_digest=found.named_digest,
            attempt=attempt.attempt if attempt is not None else 0,
            step=decision.newest_step if decision.live.attempt else 0,
        )
    )


def on_unread(decision: Decision, action: LoadPolicy, reason: str) -> None:
    """It may not act, or cannot be read: nothing changes."""
    _answer(decision, action, False, f"{reason}\nThe policy in force stays: {decision.state.policy_name}")


def _answer(decision: Decision, action: LoadPolicy, granted: bool, words: str) -> None:
    if action.request not in decision.state.answered_requests:
        wanted = ApplyPolicy(action.path, action.digest, action.note)
        decision.record(f.RequestAnswered(action.request, action.by, wanted, granted, words))


def lay_incidents(decision: Decision) -> None:
    """The policy in force is another than before: where each open incident stands in it."""
    for incident in decision.state.open_incidents:
        if not incident.playbook:
            continue
        place = find_place(incident, decision.policy)
        if place is not None:
            decision.record(f.PlaybookChanged(incident.id, place.playbook, place.rung, place.reason, place.asked_rung))


def on_tick(decision: Decision) -> None:
    """Once the stream has been read again: what was found in its past and still holds, and incidents that stand before the first
    rung of their new playbook."""
    settle_past(decision)
    state = decision.state
    if state.held or state.hold_by or state.stop_by or state.ended:
        return
    for incident in state.open_incidents:
        now = decision.state
        if not incident.begins_anew or now.plan is not None or now.giving_up:
            continue
        last = incident.last_try
        if last is not None and last.outcome is Outcome.PENDING:
            decision.record(f.RungJudged(incident.id, Outcome.PASSED_OVER, "the policy in force does not have this rung"))
        take_next_rung(decision, incident.id)


def settle_past(decision: Decision) -> None:
    """A new policy decides from its beginning on: what it finds in steps from before that counts if it is so still."""
    past, decision.live.past = decision.live.past, []
    applied = decision.state.applied
    for finding in past:
        if finding.key in decision.state.findings:
            continue
        if applied is None or _still_holds(decision, finding):
            consider(decision, finding)
        else:
            why = f"step {finding.detected_step} lies before step {applied.step}, from which on this policy decides; it is over"
            decision.dismiss(finding, why)


def _still_holds(decision: Decision, finding: Finding) -> bool:
    if finding.alert is not None:
        return bool(decision.detectors.still_true(finding.kind, finding.alert))
    return decision.detectors.is_breached(finding.kind)

