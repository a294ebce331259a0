"""How a person is reached: the routes of a policy and when each is used. A secret never stands here, only where it lies.

What a route of each channel may say stands beside the channel (`sentinel.channels`), and is supplied by its registry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field, create_model, model_validator

from sentinel.policy.problems import nearest
from sentinel.policy.quantities import Malformed
from sentinel.policy.schema_fields import Flag, Model, Name, Seconds, Severity, Text, written
from sentinel.policy.schema_mute import WINDOWS_MAX, Inhibit, Mute

Url = Annotated[str, Field(max_length=2000, pattern=r"^https?://[^\s/]+\S*$")]
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
EnvName = Annotated[str, Field(pattern=rf"^{ENV_NAME.pattern}$", max_length=200)]
Address = Annotated[str, Field(pattern=r"^[^\s@<>,;]+@[^\s@<>,;]+$", max_length=320)]
LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=100)]
ROUTES_MAX = 16  # a page remembers how each route stands, and a route it had forgotten would be called again and again
RANK: dict[Severity, int] = {"info": 0, "warning": 1, "critical": 2}
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
SlackChannel = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9]{5,30}$")]
SlackMembers = Annotated[tuple[Annotated[str, Field(pattern=r"^[UW][A-Z0-9]{5,30}$")], ...], Field(max_length=256)]
Addresses = Annotated[tuple[Address, ...], Field(min_length=1)]
Words = Annotated[tuple[Text, ...], Field(min_length=1)]


class Secret(Model):
    """Where a secret lies: an environment variable of sentinel's, or a file only its user can read."""

    env: EnvName | None = None
    """Name of the environment variable."""
    file: Text | None = None
    """Path of the file; white space at its end is left out."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_place(cls, value: Any) -> Any:
        if not isinstance(value, (dict, Secret)):
            remedy = "write where it lies: {env: NAME} or {file: PATH}"
            raise Malformed("a secret never stands in a policy itself", remedy, hides=True)
        env = value.get("env") if isinstance(value, dict) else None
        if env is not None and not (isinstance(env, str) and ENV_NAME.fullmatch(env)):
            remedy = "write {env: PAGE_KEY}, say, and put the secret into that variable of sentinel's"
            raise Malformed("what stands at env is not the name of a variable", remedy, hides=True)
        return value

    @model_validator(mode="after")
    def _is_one(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise Malformed("a secret lies in one place", "write {env: NAME} or {file: PATH}")
        return self


class RouteSettings(Model):
    """What every route has."""

    name: Name | None = None
    """What it is called in the journal and by `sentinel page test --route`; default: the channel."""
    after_s: Seconds | None = Field(default=None, alias="after")
    """Used only when nobody has acknowledged for so long, or a route before it could not deliver in time. Default: at once."""
    severity: Severity = "info"
    """Pages below it do not go this way."""
    messages: Flag = False
    """Also what needs nobody: an incident repaired without a person."""

    def misfit(self) -> tuple[str, str] | None:
        """What of its settings does not go together, and the remedy. For the channels whose settings depend on each other."""
        return None

    @model_validator(mode="after")
    def _fits(self) -> RouteSettings:
        if (found := self.misfit()) is not None:
            message, remedy = found
            raise Malformed(message, remedy)
        return self


ROUTE_SETTINGS = TypeVar("ROUTE_SETTINGS", bound=RouteSettings)


@dataclass(frozen=True, slots=True)
class ChannelKind(Generic[ROUTE_SETTINGS]):
    """What a policy and the engine know of a channel.

    Attributes:
        kind: the policy's word for it.
        settings: what a route of it may say.
        about: a few words for whoever writes a policy in an editor.
        closes_first: nobody is called again on it for what was acknowledged there, as long as that is open: the engine
            resolves the old call before it raises another.
    """

    kind: str
    settings: type[ROUTE_SETTINGS]
    about: str
    closes_first: bool = False


class Route(Model):
    """One way to reach a person: a mapping of one key, the channel."""

    channels: ClassVar[Mapping[str, ChannelKind[Any]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _has_one_channel(cls, value: Any) -> Any:
        if not cls.channels:
            raise RuntimeError("no channel is known; import sentinel.channels.registry before a policy is read")
        if isinstance(value, dict) and (problem := _unlike_a_route(value, tuple(cls.channels))):
            message, remedy = problem
            raise Malformed(message, remedy)
        return value

    @property
    def kind(self) -> str:
        return next(kind for kind in self.channels if getattr(self, kind) is not None)

    @property
    def settings(self) -> RouteSettings:
        found: RouteSettings = getattr(self, self.kind)
        return found

    @property
    def closes_first(self) -> bool:
        return self.channels[self.kind].closes_first

    @property
    def name(self) -> str:
        return self.settings.name or self.kind

    def is_for(self, severity: Severity) -> bool:
        """Whether pages of that severity go this way."""
        return RANK[severity] >= RANK[self.settings.severity]


def route_of(channels: Sequence[ChannelKind[Any]], module: str = __name__) -> type[Route]:
    """`Route` with a key for each of these channels, in their order. `module`: where it is kept under that name; a policy is
    pickled for the processes of `sentinel replay`, and pickle looks the class up there."""
    keys: dict[str, Any] = {one.kind: (one.settings | None, Field(default=None, description=one.about)) for one in channels}
    route: type[Route] = create_model("Route", __base__=Route, __module__=module, __doc__=Route.__doc__, **keys)
    route.channels = {one.kind: one for one in channels}
    return route


def _unlike_a_route(value: Mapping[Any, Any], kinds: tuple[str, ...]) -> tuple[str, str] | None:
    """What is wrong with the keys of a route, and the remedy."""
    unknown = [str(key) for key in value if key not in kinds]
    if not unknown and len(value) == 1:
        return None
    remedy = f"write one of {', '.join(kinds)}, such as 'terminal: {{}}'"
    if not unknown:
        return f"{len(value)} channels in one route", remedy
    near = nearest(unknown[0], kinds)
    return f"{', '.join(unknown)} is no channel", f"did you mean '{near}'? {remedy}" if near else remedy


class DeadMan(Model):
    """An address that expects to be called: when the calls stop, sentinel itself is gone, and whoever listens there pages."""

    url: Secret
    """Called with GET; such an address is often a secret."""
    every_s: Seconds = written("1m", alias="every")
    """How often."""


class Paging(Model):
    """How a person is reached. One incident is one page, on every route the same."""

    routes: Annotated[tuple[Route, ...], Field(max_length=ROUTES_MAX)] = written([{"terminal": {}}])
    """Channels, all of them used, each at once unless it says `after`."""
    repeat_every_s: Seconds = written("30m", alias="repeat_every")
    """A page that nobody has acknowledged is sent again this often."""
    deadline_s: Seconds = written("2m", alias="deadline")
    """A page must be out this soon after it is due; a route that could not is passed over for those that wait."""
    mute: Annotated[tuple[Mute, ...], Field(max_length=WINDOWS_MAX)] = ()
    """Quiet hours and maintenance windows: pages wait for their end. Nothing else does."""
    inhibit: Annotated[tuple[Inhibit, ...], Field(max_length=WINDOWS_MAX)] = ()
    """Incidents that keep the pages of others back while they are open."""
    runbook_url: Url | None = None
    """Where the runbook can be read; default: the file shipped with sentinel."""
    run_url: Url | None = None
    """Where whoever is paged reaches the run's page in the browser; default: where sentinel serves it (--listen), if so."""
    gpu_hour_cost: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    """What a GPU costs an hour, in any currency, for the cost of waiting; default: GPU hours alone are told."""
    dead_man: DeadMan | None = None
    """Called while sentinel lives."""

    @model_validator(mode="after")
    def _names_differ(self) -> Paging:
        names = [route.name for route in self.routes]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise Malformed(f"two routes are called {twice}", "give each a name of its own: {pagerduty: {name: second, …}}")
        for noun, named in (("windows", self.mute), ("entries of inhibit", self.inhibit)):
            called = [one.name for one in named]
            twice = next((name for name in called if called.count(name) > 1), None)
            if twice is not None:
                raise Malformed(f"two {noun} are called {twice}", "give each a name of its own")
        return self
