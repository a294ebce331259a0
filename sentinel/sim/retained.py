"""Retention deletes nothing that a repair then needs, and nothing while anything is being repaired."""

from __future__ import annotations

from sentinel.model.actions import PruneCheckpoint
from sentinel.model.facts import ActionDecided, Fact, PlanAdopted
from sentinel.model.state import RunState
from sentinel.plan.remedy import choose_checkpoint
from sentinel.plan.rollback import choose_newest
from sentinel.policy.schema import Policy
from sentinel.sim.broken import InvariantBroken
from sentinel.sim.store import Store

NAME = "retention costs no repair"


def judge_retained(fact: Fact, state: RunState, policy: Policy, store: Store, by_person: set[int]) -> None:
    """Raises InvariantBroken. `by_person`: attempts that a person asked for, from where they said."""
    match fact:
        case ActionDecided(action=PruneCheckpoint() as action):
            _judge_decision(action, state, policy, store)
        case PlanAdopted() if state.pruned and state.next_attempt not in by_person:
            _judge_relaunch(fact, state, policy)


def _judge_decision(action: PruneCheckpoint, state: RunState, policy: Policy, store: Store) -> None:
    """A checkpoint is to be deleted: the run is healthy, and enough others lie there."""
    if state.open_incidents or state.plan is not None or state.observe_only or state.paused:
        raise InvariantBroken(NAME, f"step {action.step} is to be deleted while the run is not simply training")
    retain = policy.spec.checkpoints.retain
    if retain is None or len(store.committed) <= retain.last:
        raise InvariantBroken(NAME, f"step {action.step} is to be deleted, one of {len(store.committed)}")
    if retain.every_steps and action.step % retain.every_steps == 0:
        raise InvariantBroken(NAME, f"step {action.step} is to be kept for ever")


def _judge_relaunch(plan: PlanAdopted, state: RunState, policy: Policy) -> None:
    """A relaunch goes back to where it would have gone, had nothing been deleted. Where checkpoints were condemned on the way,
    it may come to those that were given up; `last` is how many in a row may be bad."""
    if state.plan is None or state.plan.is_live or any(c.condemned for c in state.checkpoints):
        return
    ever, opened = (*state.checkpoints, *state.pruned), state.open_incidents
    incident = state.incident(plan.incident) if plan.incident is not None else None
    if incident is None:
        wanted = choose_newest(ever, opened)
    else:
        wanted = choose_checkpoint(policy.spec.playbooks.get(incident.playbook, ()), incident.rung, incident, ever, opened)
    if wanted.checkpoint is not None and wanted.checkpoint in state.pruned:
        raise InvariantBroken(NAME, f"attempt {state.next_attempt} was to resume at step {wanted.step}, which was deleted")
