"""Never resume from what is not to be trusted: what was moved aside, is damaged, or was passed over."""

from __future__ import annotations

from collections.abc import Iterable

from sentinel.model.state import Checkpoint
from sentinel.sim.broken import InvariantBroken
from sentinel.sim.store import SimCheckpoint, Store

NAME = "never resume from what is not trusted"


def judge_asked(checkpoints: Iterable[Checkpoint], attempt: int, step: int) -> None:
    """What the journal holds against the checkpoint that an attempt is to begin with."""
    found = next((known for known in checkpoints if step and known.step == step), None)
    if found is not None and found.condemned:
        raise InvariantBroken(NAME, f"attempt {attempt} is to resume at step {step}, which was passed over: {found.condemned}")


def judge_resumed(store: Store, attempt: int, loaded: SimCheckpoint) -> None:
    """By the world's own truth, when a trainer has loaded it. A norm that is wrong shows only beside a right one: where there is
    no older checkpoint, or its norm is wrong as well, nobody can know."""
    older = max((step for step in store.committed if step < loaded.step), default=None)
    unseen = loaded.lies == "norm" and (older is None or store.committed[older].lies == "norm")
    wrong = "bit rot" if loaded.is_rotten else "" if unseen else loaded.lies
    if any(loaded is found for found in store.quarantined):
        raise InvariantBroken(NAME, f"attempt {attempt} resumed from step {loaded.step}, which was moved aside")
    if any(loaded is found for found in store.pruned):
        raise InvariantBroken(NAME, f"attempt {attempt} resumed from step {loaded.step}, which was deleted")
    if wrong:
        raise InvariantBroken(NAME, f"attempt {attempt} resumed from step {loaded.step}, which is damaged ({wrong})")
