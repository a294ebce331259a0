"""A start from scratch throws the whole run away. When was there something to go back to?"""

from __future__ import annotations

from sentinel.model.facts import PlanAdopted
from sentinel.model.state import RunState
from sentinel.plan.remedy import margin_steps
from sentinel.policy.schema import Policy
from sentinel.sim.store import SimCheckpoint, Store


def find_spared(plan: PlanAdopted, state: RunState, policy: Policy, store: Store) -> SimCheckpoint | None:
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
            if margin_steps(rungs, incident.rung) >= min(onset, limit or onset):
                return None
            limit = min(onset, limit or onset)
    usable = {c.step: c for c in state.checkpoints if c.damaged or c.evidence == "failures" or not c.condemned}
    whole = [c for c in store.committed.values() if c.step in usable and c.digest == usable[c.step].digest and c.is_whole]
    return max((c for c in whole if limit is None or c.step < limit), key=lambda c: c.step, default=None)
