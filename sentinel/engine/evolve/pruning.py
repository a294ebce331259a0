"""The rules of `evolve` about checkpoints that are deleted because no rollback can need them any more."""

from __future__ import annotations

from sentinel.model.actions import PruneCheckpoint
from sentinel.model.changed import replace
from sentinel.model.state import PRUNED_KEPT, Checkpoint, RunState


def pruned(state: RunState, action: PruneCheckpoint) -> RunState:
    """Given up from the decision on: whatever is planned while it is being deleted does not reckon with it."""
    gone = tuple(replace(c, pruned=action.reason) for c in state.checkpoints if c.step == action.step and _is_meant(c, action))
    kept = tuple(c for c in state.checkpoints if c.step != action.step or not _is_meant(c, action))
    return replace(state, checkpoints=kept, pruned=(*state.pruned, *gone)[-PRUNED_KEPT:])


def not_pruned(state: RunState, at_s: float, action: PruneCheckpoint) -> RunState:
    """It is there after all. One above the step that the run has since gone back to was moved aside then."""
    back = next((c for c in state.pruned if _is_meant(c, action)), None)
    last = state.attempt
    if back is None:
        return state
    left = tuple(c for c in state.pruned if c is not back)
    taken = any(c.step == back.step for c in state.checkpoints)
    is_ours = last is None or back.attempt == last.attempt or back.step <= last.resumed_step
    again = (replace(back, pruned="", unpruned_s=at_s),) if is_ours and not taken else ()
    return replace(state, checkpoints=tuple(sorted((*state.checkpoints, *again), key=lambda c: c.step)), pruned=left)


def _is_meant(found: Checkpoint, action: PruneCheckpoint) -> bool:
    return (found.step, found.digest) == (action.step, action.digest)
