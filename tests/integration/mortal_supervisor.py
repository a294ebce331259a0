"""`sentinel` that is killed by SIGKILL at one place of its journal, so that a test knows exactly where it died.

decided:KEY    the decision is on disk, and nothing was done about it
done:KEY       the action was carried out, and its confirmation is not on disk

recorded:FACT  a fact of this kind is on disk, and nothing came of it

KEY is the beginning of an action's key. The signal is the kernel's own: no handler, no `finally` and no `atexit` runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from sentinel.journal.store import Journal
from sentinel.model.facts import ActionConfirmed, ActionDecided, Entry, Fact
from sentinel.model.recorded import recorded_name


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def make_mortal(place: str) -> None:
    when, _, key = place.partition(":")
    assert when in ("decided", "done", "recorded"), place
    append = Journal.append

    def mortal(journal: Journal, at_s: float, facts: Sequence[Fact], epoch: int) -> tuple[Entry, ...]:
        if when == "done" and any(isinstance(fact, ActionConfirmed) and fact.key.startswith(key) for fact in facts):
            die()
        entries = append(journal, at_s, facts, epoch)
        if when == "decided" and any(isinstance(fact, ActionDecided) and fact.action.key.startswith(key) for fact in facts):
            die()
        if when == "recorded" and any(recorded_name(type(fact)) == key for fact in facts):
            die()
        return entries

    Journal.append = mortal  # type: ignore[method-assign]
