"""What a word of a rung means to everything that reads rungs: its row, which stands beside the word in `schema_rungs`.

A row names who carries the word out. There are three ways, and a word without one is refused when sentinel is imported:

    Sets(("lr_scale",), lambda value: {"lr_scale": value})   values for the table of settings: sentinel writes them, compares the
                                                              receipt, takes them back and reports them
    Acts((SnapshotLogs,), lambda value, case: (SnapshotLogs(...),))
                                                              actions of `sentinel.model.actions`, as a part of the rung's plan
    OWN_CODE                                                  `sentinel.plan` or `sentinel.engine` asks for this word by its name

The checker, `explain`, the plan, the ladder, the judgement of structural failures and of causes, and the reports read the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sentinel.client.setting_types import Flag
from sentinel.client.settings import SETTINGS, Setting
from sentinel.model.actions import ACTIONS, Action

# Words that say when a rung is taken or how it ends, not what it does.
CONDITIONS = ("then", "until", "approval")

Does = Literal["waits", "holds", "tells", "relaunches", "treats", "says when"]
"""treats: does something about the failure, or keeps evidence of it.
relaunches: training starts again from a checkpoint. says when: a condition."""


@dataclass(frozen=True, slots=True)
class Case:
    """What an action of a rung may need to know. `attempt`: the newest one; None where none was ever launched. `rung`: from 0."""

    incident: int
    rung: int
    attempt: int | None

    @property
    def key(self) -> str:
        """For the keys of actions: the same rung of the same incident has the same."""
        return f"{self.incident}/{self.rung + 1}"


@dataclass(frozen=True, slots=True)
class Sets:
    """The word gives values to settings.

    keys: those of `SETTINGS` that it may give. values: from the word's value. until: from the word's value, the steps after which
    they go back by themselves; None: only where the rung says `until`.
    """

    keys: tuple[str, ...]
    values: Callable[[Any], Mapping[str, Any]]
    until: Callable[[Any], int] | None = None

    def __post_init__(self) -> None:
        if unknown := [key for key in self.keys if key not in SETTINGS]:
            raise TypeError(f"no such setting: {', '.join(unknown)}; add a row to sentinel.client.settings")


@dataclass(frozen=True, slots=True)
class Acts:
    """The word adds actions to the rung's plan.

    kinds: which. Each says by its `place` where in the plan it stands. actions: from the word's value and the case; for the same
    two they are the same.
    """

    kinds: tuple[type[Action], ...]
    actions: Callable[[Any, Case], tuple[Action, ...]]

    def __post_init__(self) -> None:
        if unlisted := [kind.__qualname__ for kind in self.kinds if kind not in ACTIONS]:
            raise TypeError(f"not in the union `Action` of sentinel.model.actions: {', '.join(unlisted)}")
        if placeless := [kind.__qualname__ for kind in self.kinds if not kind.place]:
            raise TypeError(f"{', '.join(placeless)}: a rung cannot add it; declare its `place` in a plan")


@dataclass(frozen=True, slots=True)
class OwnCode:
    """`sentinel.plan` or `sentinel.engine` reads the word by its name. A test looks whether one of them does."""


OWN_CODE = OwnCode()


@dataclass(frozen=True, slots=True)
class Company:
    """Which words may stand in the same rung, conditions apart.

    only: no others. needs: one of these at least. never: none of these. message: {others} are those that `only` does not name.
    """

    message: str
    remedy: str
    only: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Capability:
    """What the trainer or the command must declare. part: only where this part of the word's value is given."""

    name: str
    message: str
    remedy: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """One row.

    Attributes:
        does: what it is for the ladder.
        by: who carries it out.
        phrase: in the reason of a remedy, with {} for the value; behind the phrases of the settings, where `by` gives any.
        at_launch: it takes effect only at a relaunch. Of `Sets`, the settings say it.
        same_again: more of what failed before cannot help against a structural failure. Of `Sets`, the settings say it.
        company: what contradicts it, or must stand beside it.
        capabilities: what must be declared for it.
        under_profile: the setting that a trainer under a profile must have arguments for, in the place of `capabilities`.
    """

    does: Does
    by: Sets | Acts | OwnCode
    phrase: str = ""
    at_launch: bool = False
    same_again: bool = False
    company: tuple[Company, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    under_profile: str = ""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that it may give."""
        return tuple(SETTINGS[key] for key in self.by.keys) if isinstance(self.by, Sets) else ()

    @property
    def needs_launch(self) -> bool:
        return self.at_launch or any(row.changes == "at launch" for row in self.settings)

    @property
    def takes_until(self) -> bool:
        """Whether `until` may stand beside it."""
        return any(not isinstance(row.type, Flag) for row in self.settings)

    @property
    def is_live(self) -> bool:
        """Whether it changes settings of the living attempt."""
        return bool(self.settings) and not self.needs_launch

    @property
    def is_more_of_the_same(self) -> bool:
        return self.same_again or (bool(self.settings) and all(row.sizes_step for row in self.settings))


def setting_word(row: Setting) -> Word:
    """The row of a setting's own word."""
    return Word("treats", Sets((row.key,), lambda value: {row.key: value}))
