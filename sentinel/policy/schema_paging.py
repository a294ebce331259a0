"""How a person is reached: the routes of a policy and when each is used. A secret never stands here, only where it lies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from sentinel.policy.quantities import Malformed
from sentinel.policy.schema_fields import Flag, Model, Name, Seconds, Severity, Text, written

Url = Annotated[str, Field(max_length=2000, pattern=r"^https?://[^\s/]+\S*$")]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
Address = Annotated[str, Field(pattern=r"^[^\s@<>,;]+@[^\s@<>,;]+$", max_length=320)]
LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=100)]
ROUTES_MAX = 16  # a page remembers how each route stands, and a route it had forgotten would be called again and again
RANK: dict[Severity, int] = {"info": 0, "warning": 1, "critical": 2}
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]


class Secret(Model):
    """Where a secret lies: an environment variable of sentinel's, or a file only its user can read."""

    env: EnvName | None = None
    """Name of the environment variable."""
    file: Text | None = None
    """Path of the file; white space at its end is left out."""

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


class TerminalRoute(RouteSettings):
    """Pages are printed where sentinel runs, and kept in incidents/NNNN/page.json."""


class PagerDutyRoute(RouteSettings):
    """PagerDuty's Events API v2, or whatever speaks it."""

    routing_key: Secret
    """The integration key."""
    url: Url = "https://events.pagerduty.com/v2/enqueue"
    """Where events go."""


class AlertmanagerRoute(RouteSettings):
    """Prometheus Alertmanager, API v2. A silence counts as an acknowledgement."""

    url: Url
    """Its address, such as http://127.0.0.1:9093."""
    labels: dict[LabelName, Text] = Field(default_factory=dict)
    """Added to every alert, for its routing."""
    token: Secret | None = None
    """Sent as a bearer token."""


class SlackRoute(RouteSettings):
    """A Slack incoming webhook."""

    webhook: Secret
    """Its URL, which is a secret."""


class WebhookRoute(RouteSettings):
    """The page as JSON, by POST."""

    url: Url
    """Where it goes."""
    secret: Secret | None = None
    """Signs the body: X-Sentinel-Signature-256 is the HMAC-SHA256 of time and body."""


class EmailRoute(RouteSettings):
    """Mail through an SMTP server."""

    to: Annotated[tuple[Address, ...], Field(min_length=1)]
    """Who gets it."""
    sender: Address = Field(alias="from")
    """Who it says it is from."""
    host: Text
    """The SMTP server."""
    port: Port = 587
    """Its port."""
    starttls: Flag = True
    """Encrypt before anything is sent; refuse to go on without."""
    user: Text | None = None
    """For SMTP AUTH."""
    password: Secret | None = None
    """For SMTP AUTH."""


class CommandRoute(RouteSettings):
    """A program of yours; the page is JSON on its standard input."""

    run: Annotated[tuple[Text, ...], Field(min_length=1)]
    """The program and its arguments; no shell."""


class AppriseRoute(RouteSettings):
    """Whatever apprise knows (pip install training-sentinel[apprise])."""

    urls: Secret
    """Its URLs, separated by white space."""


CHANNELS = ("terminal", "pagerduty", "alertmanager", "slack", "webhook", "email", "command", "apprise")
Channel = (
    TerminalRoute | PagerDutyRoute | AlertmanagerRoute | SlackRoute | WebhookRoute | EmailRoute | CommandRoute | AppriseRoute
)


class Route(Model):
    """One way to reach a person: a mapping of one key, the channel."""

    terminal: TerminalRoute | None = None
    """Print the page."""
    pagerduty: PagerDutyRoute | None = None
    """PagerDuty."""
    alertmanager: AlertmanagerRoute | None = None
    """Prometheus Alertmanager."""
    slack: SlackRoute | None = None
    """Slack."""
    webhook: WebhookRoute | None = None
    """Any HTTP server."""
    email: EmailRoute | None = None
    """Mail."""
    command: CommandRoute | None = None
    """A program."""
    apprise: AppriseRoute | None = None
    """Apprise."""

    @property
    def kind(self) -> str:
        return next(kind for kind in CHANNELS if getattr(self, kind) is not None)

    @property
    def settings(self) -> Channel:
        found: Channel = getattr(self, self.kind)
        return found

    @property
    def name(self) -> str:
        return self.settings.name or self.kind

    def is_for(self, severity: Severity) -> bool:
        """Whether pages of that severity go this way."""
        return RANK[severity] >= RANK[self.settings.severity]


def _one_channel(value: Any) -> Any:
    if isinstance(value, dict):
        strange = [str(key) for key in value if key not in CHANNELS]
        if strange or len(value) != 1:
            told = f"{', '.join(strange)} is no channel" if strange else f"{len(value)} channels in one route"
            raise Malformed(told, f"write one of {', '.join(CHANNELS)}, such as 'terminal: {{}}'")
    return value


class DeadMan(Model):
    """An address that expects to be called: when the calls stop, sentinel itself is gone, and whoever listens there pages."""

    url: Secret
    """Called with GET; such an address is often a secret."""
    every_s: Seconds = written("1m", alias="every")
    """How often."""


class Paging(Model):
    """How a person is reached. One incident is one page, on every route the same."""

    routes: Annotated[tuple[Annotated[Route, BeforeValidator(_one_channel)], ...], Field(max_length=ROUTES_MAX)] = written(
        [{"terminal": {}}]
    )
    """Channels, all of them used, each at once unless it says `after`."""
    repeat_every_s: Seconds = written("30m", alias="repeat_every")
    """A page that nobody has acknowledged is sent again this often."""
    deadline_s: Seconds = written("2m", alias="deadline")
    """A page must be out this soon after it is due; a route that could not is passed over for those that wait."""
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
        return self
