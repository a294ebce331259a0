"""What a rung needs of the trainer or the command that was not declared. Such a rung is passed over, with its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sentinel.model.capabilities import CAPABILITIES
from sentinel.policy.rung_words import Capability
from sentinel.policy.schema import Policy, Rung
from sentinel.policy.schema_rungs import WORDS

SHOWN = CAPABILITIES  # of what the command cannot do every shipped policy has a rung, which says so when its turn comes
LIVE = Capability(
    "live_overrides",
    "the trainer cannot change settings while it runs (capability 'live_overrides')",
    "add a rollback or a resume, so that it changes at a relaunch",
)


def lacking(rung: Rung, capabilities: Collection[str]) -> Iterator[tuple[str, Capability]]:
    """Each with the place in the rung that needs it: `skip`, or `skip.only`."""
    for word, value in rung.values.items():
        for needed in WORDS[word].capabilities:
            is_asked = not needed.part or getattr(value, needed.part) is not None
            if is_asked and needed.name not in capabilities:
                yield ".".join(part for part in (word, needed.part) if part), needed
    live = [word for word in rung.parts if WORDS[word].is_live]
    if live and not rung.does("relaunches") and LIVE.name not in capabilities:
        yield live[0], LIVE


def passed_over(policy: Policy, capabilities: Collection[str]) -> Iterator[str]:
    """A line for each rung that this trainer cannot carry out."""
    for name, playbook in policy.spec.playbooks.items():
        for number, rung in enumerate(playbook, start=1):
            missing = (needed.message for _, needed in lacking(rung, capabilities) if needed.name in SHOWN)
            if message := next(missing, ""):
                yield f"rung {number} of playbook {name} is passed over: {message}"
