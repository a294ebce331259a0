"""Checkpoints that turn out not to be worth resuming from only when somebody tries: what is found out is written down, and they
are passed over. (Before a resume `plan/checkpoint_validation.py` judges what can be read of one.)"""

from __future__ import annotations

from sentinel.engine.decision import Decision
from sentinel.engine.retention import prune_next, record_read
from sentinel.model import facts as f
from sentinel.model.readings import CheckpointRead, TrainerNote
from sentinel.plan.checkpoint_blame import judge_blame


def pass_over_failing(decision: Decision) -> bool:
    """Condemn the checkpoint that the present attempt began with, if what resumed from it has failed alike before. Whether it
    was; recorded once, for a condemned one is not judged again."""
    state = decision.state
    if decision.observes_only:
        return False
    verdict = judge_blame(state.checkpoints, state.attempts, state.open_incidents, decision.newest_step)
    if verdict is None:
        return False
    decision.record(f.CheckpointCondemned(verdict.checkpoint.step, verdict.reason, evidence="failures"))
    return True


def on_read_behind(decision: Decision, reading: CheckpointRead) -> None:
    """A checkpoint that was read behind training: what is older may go now, where retention waited for that."""
    if not record_read(decision, reading):
        prune_next(decision, may_read=False)


def condemn_refused(decision: Decision, note: TrainerNote) -> None:
    """The trainer passed checkpoints over that were whole when they were looked at (its weights are not what the manifest says,
    a bit rotted since): they are not asked for again."""
    entries = note.data.get("passed_over")
    for entry in entries if isinstance(entries, (list, tuple)) else ():
        step = entry.get("step") if isinstance(entry, dict) else None
        known = next((c for c in decision.state.checkpoints if c.step == step and c.attempt < note.attempt), None)
        if known is not None and not known.condemned:
            reason = f"the trainer passed it over: {entry.get('reason', 'it does not say why')}"
            decision.record(f.CheckpointCondemned(known.step, reason, damaged=True, evidence="trainer"))
