"""How a detector declares its settings: a frozen dataclass. Each field has a default, a shape, and words for people.

    @dataclass(frozen=True, slots=True)
    class SpikeSettings:
        enabled: bool = setting(True, "flag", "Whether this detector runs.")
        window_steps: int = setting(200, "steps", "Steps the spread is learned from.", alias="window")

The policy's models, their JSON schema and their error messages are made from these fields (`sentinel.policy.schema_detectors`). A
default is a value in the unit of the code; the policy shows it as a person writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, NamedTuple

Shape = Literal[
    "flag",  # true or false
    "on or off",
    "count",  # a whole number of at least 1
    "positive",
    "not negative",
    "fraction",  # at least 0, below 1
    "steps",  # '200 steps', int
    "seconds",  # '30s', '5m', float
    "multiple",  # '1.5x': more than usual
    "step times",  # '3x step_time'
    "metrics",  # names of metrics, at least one
    "phases",  # seconds by phase; a phase left out keeps its default
    "file",  # the path of a file
    "kernel log",  # an absolute path, or off
]


class SettingsConflict(NamedTuple):
    """Two settings that do not go together: the policy's word for the one to change, what is wrong, and the remedy."""

    word: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class DetectorSetting:
    """One field: its name in code, its default, its shape, its words for people, and its word in a policy."""

    name: str
    default: Any
    shape: Shape
    words: str
    alias: str | None


def setting(default: Any, shape: Shape, words: str, *, alias: str | None = None) -> Any:
    """A dataclass field. `alias`: the policy's word where it differs from the name, which carries its unit."""
    metadata = {"shape": shape, "words": words, "alias": alias}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def misfits_of(settings: Any) -> Iterable[SettingsConflict]:
    """Settings that do not go together, as the dataclass itself says in `misfits`; nothing where it has no such method."""
    judge = getattr(settings, "misfits", None)
    return judge() if judge is not None else ()


def settings_of(cls: type) -> tuple[DetectorSetting, ...]:
    """The declared settings of a dataclass, in order."""
    return tuple(
        DetectorSetting(
            one.name,
            one.default_factory() if one.default_factory is not MISSING else one.default,
            one.metadata["shape"],
            one.metadata["words"],
            one.metadata["alias"],
        )
        for one in fields(cls)
    )
