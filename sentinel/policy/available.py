"""What a rung needs of the trainer or the command that was not declared. Such a rung is passed over, with its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sentinel.client.settings import SETTINGS
from sentinel.model.capabilities import MORE
from sentinel.policy.rung_words import Capability, Sets
from sentinel.policy.schema import Policy, Rung
from sentinel.policy.schema_rungs import WORDS

HIDDEN = MORE  # of what the command cannot do every shipped policy has a rung, which says so when its turn comes
LIVE = Capability(
    "live_overrides",
    "the trainer cannot change settings while it runs (capability 'live_overrides')",
    "add a rollback or a resume, so that it changes at a relaunch",
)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one trainer can do. `settable`: settings that it can be given; None: every one.
    `has_checkpoints`: whether Sentinel sees any of its checkpoints."""

    trainer: str
    capabilities: Collection[str]
    settable: Collection[str] | None = None
    has_checkpoints: bool = True


PROFILE_REMEDY = {
    "skip": "give its profile arguments under skip, if it has a flag that leaves data out, or take the word out of the rung",
    "attribution": "take it out of the rung: it needs a trainer that was written for it",
}
"""Of what a profile, or nothing, can teach a trainer."""


def lacking(
    rung: Rung, capabilities: Collection[str], settable: Collection[str] | None = None
) -> Iterator[tuple[str, Capability]]:
    """Each with the place in the rung that needs it: `skip`, or `skip.only`. `settable`: settings that the trainer can be given;
    None: every one."""
    for word, value in rung.values.items():
        under_profile = WORDS[word].under_profile if settable is not None else ""
        if settable is not None and under_profile and under_profile not in settable:
            yield word, _unsettable(under_profile)
        for needed in WORDS[word].capabilities if not under_profile else ():
            is_asked = not needed.part or getattr(value, needed.part) is not None
            if is_asked and needed.name not in capabilities:
                place = ".".join(part for part in (word, needed.part) if part)
                remedy = needed.remedy if settable is None else PROFILE_REMEDY.get(needed.name, needed.remedy)
                yield place, replace(needed, remedy=remedy)
        by = WORDS[word].by
        if settable is not None and isinstance(by, Sets):
            asked = by.values(value).items()
            yield from ((word, _unsettable(key, to, settable)) for key, to in asked if not _can_be_given(key, to, settable))
    live = [word for word in rung.parts if WORDS[word].is_live]
    if live and not rung.does("relaunches") and LIVE.name not in capabilities:
        yield live[0], LIVE


def _can_be_given(key: str, value: object, settable: Collection[str]) -> bool:
    """`settable` names a setting that takes every value, or single values of one, as in `precision=bf16`."""
    return key in settable or f"{key}={value}" in settable


def _unsettable(key: str, value: object = None, settable: Collection[str] = ()) -> Capability:
    label = SETTINGS[key].label
    if any(word.startswith(f"{key}=") for word in settable):
        key, label = f"{key}.{value}", f"{label} {value}"
    remedy = f"give its profile arguments under settings.{key}, or take the word out of the rung"
    why = "its profile has no argument for it, or none that can be filled in for this command"
    return Capability(f"setting {key}", f"the trainer cannot be given the {label}: {why}", remedy)


def passed_over(policy: Policy, capabilities: Collection[str], settable: Collection[str] | None = None) -> Iterator[str]:
    """A line for each rung that this trainer cannot carry out."""
    for name, playbook in policy.spec.playbooks.items():
        for number, rung in enumerate(playbook, start=1):
            missing = (needed.message for _, needed in lacking(rung, capabilities, settable) if needed.name not in HIDDEN)
            if message := next(missing, ""):
                yield f"rung {number} of playbook {name} is passed over: {message}"
