"""What must hold of checkpoints, by the world's own truth.

Nothing is resumed from that is not to be trusted: what was moved aside, is damaged, or was passed over. No run starts over
while there is something to go back to. Retention deletes nothing that a repair then needs, and nothing during a repair.
"""

from __future__ import annotations

from collections.abc import Iterable

from sentinel.model.actions import PruneCheckpoint
from sentinel.model.facts import ActionDecided, Fact, PlanAdopted
from sentinel.model.state import Checkpoint, RunState
from sentinel.plan.remedy import choose_checkpoint, margin_steps
from sentinel.plan.rollback import choose_newest
from sentinel.policy.schema import Policy
from sentinel.sim.invariant_broken import InvariantBroken
from sentinel.sim.store import SimCheckpoint, SimStore

RESUME = "never resume from what is not trusted"
MOVED = "nothing above a resume step stays in place"
RETENTION = "retention costs no repair"


def judge_requested_resume(checkpoints: Iterable[Checkpoint], attempt: int, step: int) -> None:
    """What the journal holds against the checkpoint that an attempt is to begin with."""
    found = next((known for known in checkpoints if step and known.step == step), None)
    if found is not None and found.condemned:
        raise InvariantBroken(RESUME, f"attempt {attempt} is to resume at step {step}, which was passed over: {found.condemned}")


def judge_left_above(store: SimStore, attempt: int, step: int) -> None:
    """By the world's own truth, when an attempt was launched: what earlier attempts saved above its resume step was moved. A
    later "resume from the newest" would take it."""
    left = [found.step for found in store.committed.values() if found.step > step and found.attempt < attempt]
    if left:
        raise InvariantBroken(MOVED, f"attempt {attempt} begins at step {step}, and step {min(left)} still lies in checkpoints/")


def judge_resumed(store: SimStore, attempt: int, loaded: SimCheckpoint, asked_step: int) -> None:
    """By the world's own truth, when a trainer has loaded it. A norm that is wrong shows only beside a right one: where there is
    no older checkpoint, or its norm is wrong as well, nobody can know. Nor where the trainer refused what it was asked to resume
    from (`asked_step`) and fell back to an older one by itself: it looks at bytes alone, and sentinel hears of it afterwards."""
    older = max((step for step in store.committed if step < loaded.step), default=None)
    fell_back = loaded.step < asked_step
    unseen = fell_back or (loaded.lies == "norm" and (older is None or store.committed[older].lies == "norm"))
    wrong = "bit rot" if loaded.is_rotten else "" if unseen else loaded.lies
    if any(loaded is found for found in store.quarantined):
        raise InvariantBroken(RESUME, f"attempt {attempt} resumed from step {loaded.step}, which was moved aside")
    if any(loaded is found for found in store.pruned):
        raise InvariantBroken(RESUME, f"attempt {attempt} resumed from step {loaded.step}, which was deleted")
    if wrong:
        raise InvariantBroken(RESUME, f"attempt {attempt} resumed from step {loaded.step}, which is damaged ({wrong})")


def find_spared(plan: PlanAdopted, state: RunState, policy: Policy, store: SimStore) -> SimCheckpoint | None:
    """The newest whole checkpoint, known to the run and before every open onset, that this start from scratch passes over.

    None for any other plan, and where the playbook itself asks to go back behind the run's first step.
    """
    if state.plan is None or state.plan.is_live or any(getattr(action, "resume", None) is not None for action in plan.actions):
        return None
    limit = min((i.limit_step for i in state.open_incidents if i.limit_step is not None), default=None)
    if plan.incident is not None:
        incident = state.incident(plan.incident)
        rungs = policy.spec.playbooks.get(incident.playbook, ())
        onset = incident.onset_step if incident.onset_step is not None else incident.break_step + 1
        if rungs and rungs[incident.rung].rollback is not None:
            if margin_steps(rungs, incident.rung) >= onset:
                return None
            limit = min(onset, limit or onset)
    usable = {c.step: c for c in state.checkpoints if c.damaged or c.evidence == "failures" or not c.condemned}
    whole = [c for c in store.committed.values() if c.step in usable and c.digest == usable[c.step].digest and c.is_whole]
    return max((c for c in whole if limit is None or c.step < limit), key=lambda c: c.step, default=None)


def judge_retained(fact: Fact, state: RunState, policy: Policy, store: SimStore, by_person: set[int]) -> None:
    """Raises InvariantBroken. `by_person`: attempts that a person asked for, from where they said."""
    match fact:
        case ActionDecided(action=PruneCheckpoint() as action):
            _judge_decision(action, state, policy, store)
        case PlanAdopted() if state.pruned and state.next_attempt not in by_person:
            _judge_relaunch(fact, state, policy)


def _judge_decision(action: PruneCheckpoint, state: RunState, policy: Policy, store: SimStore) -> None:
    """A checkpoint is to be deleted: the run is healthy, and enough others lie there."""
    if state.open_incidents or state.plan is not None or state.observe_only or state.paused:
        raise InvariantBroken(RETENTION, f"step {action.step} is to be deleted while the run is not simply training")
    retain = policy.spec.checkpoints.retain
    if retain is None or len(store.committed) <= retain.last:
        raise InvariantBroken(RETENTION, f"step {action.step} is to be deleted, one of {len(store.committed)}")
    if retain.every_steps and action.step % retain.every_steps == 0:
        raise InvariantBroken(RETENTION, f"step {action.step} is to be kept for ever")


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
        raise InvariantBroken(RETENTION, f"attempt {state.next_attempt} was to resume at step {wanted.step}, which was deleted")
