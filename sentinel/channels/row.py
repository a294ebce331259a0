"""What a channel's row in the registry says, beside what the policy knows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sentinel.channels.contract import Channel
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.clock import Clock
from sentinel.policy.schema_paging import ROUTE_SETTINGS, ChannelKind


class Upkeep(Protocol):
    """Work beside the deliveries, in a thread of its own, for a channel that needs it."""

    every_s: float

    def turn(self) -> None:
        """Called every `every_s`. Raises RetryLater, GiveUp."""
        ...

    def last_post(self) -> None:
        """Sentinel leaves. Raises as `turn`."""
        ...


OpenNotices = Callable[[], Sequence[Notice]]
Acknowledge = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class ShortForm:
    """`--page KIND=VALUE` on the command line. Nothing secret is ever written there.

    usage: as the list of known ones shows it, such as `webhook=URL`. settings: from VALUE (empty without one) and the
    environment to the settings of a route; raises ValueError in words that do not repeat VALUE. variable: the environment
    variable that holds its secret; empty where it has none.
    """

    usage: str
    settings: Callable[[str, Mapping[str, str]], dict[str, Any]]
    variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow(ChannelKind[ROUTE_SETTINGS]):
    """Attributes:
    build: from a route's settings, the secrets and the run directory (None: outside any run) to the channel.
    problems: what keeps such a route from delivering anything, seen without calling anybody; secrets are checked for all.
    short_form: how `--page` names it; None: it is written in a policy only.
    keeper: builds what must run beside it, from the channel, its secrets, the notices that stand open on the route, how an
        incident is acknowledged (its number, and by whom), and a clock.
    """

    build: Callable[[ROUTE_SETTINGS, Vault, Path | None], Channel]
    problems: Callable[[ROUTE_SETTINGS], Iterable[str]] = lambda _settings: ()
    short_form: ShortForm | None = None
    keeper: Callable[[Any, Vault, OpenNotices, Acknowledge, Clock], Upkeep] | None = None
