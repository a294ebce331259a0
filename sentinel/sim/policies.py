"""The policies of one simulated run: the one it begins with, and others that may be applied to it, by the word that asks for
them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping

from sentinel.errors import GiveUp
from sentinel.model.actions import LoadPolicy
from sentinel.model.records import LoadedPolicy
from sentinel.model.state import RunState
from sentinel.policy.schema import Policy
from sentinel.sim.actions import Failures

FIRST_DIGEST = "0" * 64
ITSELF = "itself"  # the policy that the run begins with, by another word


def draw_policies(dice: random.Random) -> list[str]:
    """The run's own policy is applied anew: nothing may come of it, whatever is under way."""
    return [f"apply@time={dice.randrange(1, 200)}:policy={ITSELF}"] if dice.random() < 0.15 else []


class Policies:
    """Which is in force says the journal, as to a supervisor that is started again."""

    def __init__(self, first: Policy, others: Mapping[str, Policy], state: Callable[[], RunState], failures: Failures) -> None:
        self._first, self._others = first, others
        self._state, self._failures = state, failures

    def in_force(self) -> Policy:
        applied = self._state().applied
        return self._first if applied is None else self._others[applied.path]

    def digest(self) -> str:
        applied = self._state().applied
        return FIRST_DIGEST if applied is None else _digest(applied.path)

    def load(self, action: LoadPolicy) -> LoadedPolicy:
        """Raises GiveUp for one that there is not."""
        self._failures.check(action)
        if action.path not in self._others:
            raise GiveUp(f"{action.path}: no such file")
        return LoadedPolicy(action.path, _digest(action.path), self._others[action.path].metadata.name)


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()
