"""A button that was pressed in Slack: the request is verified, and goes into the run's inbox as every command does.

The signature is the credential, in place of the page's token: only the app whose signing secret the run's policy names can make
it. Slack wants its answer within three seconds, so what the supervisor says comes later, into the run's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from sentinel.channels.opening import open_channel
from sentinel.channels.secrets import Vault
from sentinel.channels.slack import SlackRoute
from sentinel.channels.slack_bot import ACTION, BUTTONS, SlackBot
from sentinel.channels.slack_signature import SeenSignatures, SignatureRefused, check_age, is_signed
from sentinel.client.strict_json import loads, printable
from sentinel.clock import SystemClock
from sentinel.errors import SentinelError
from sentinel.model.incidents import Incident
from sentinel.operator.unattended import load_run_policy
from sentinel.policy.schema_paging import Route
from sentinel.web.acting import OF_INCIDENT, Unattended, ask
from sentinel.web.answers import TEXT, RefusedRequest, Request, Response
from sentinel.web.runs import Runs
from sentinel.web.watched import ServedRun

LOOKS, LOOK_S = 15, 0.1  # Slack wants its answer within three seconds
AT_ONCE_MAX = 8  # presses whose answer is being waited for
WHO_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class Press:
    """Who pressed what. `rung`: the one an approval is about. `began`: when the run did, in whole Unix seconds; None: a button of
    an older version."""

    verb: str
    run: str
    began: int | None
    incident: int
    rung: int | None
    user: str
    name: str

    @property
    def who(self) -> str:
        """As it stands in the journal."""
        return f"{self.name} ({self.user} in Slack)" if self.name else f"{self.user} in Slack"


class SlackDoor:
    """Called from threads."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._seen = SeenSignatures()
        self._free = threading.BoundedSemaphore(AT_ONCE_MAX)

    def answer(self, runs: Runs, unattended: Unattended | None, request: Request) -> Response:
        """Raises RefusedRequest: 401 for what Slack has not signed, 403 for who may not, 400 and 404 for what is asked."""
        timestamp, signature = request.header("X-Slack-Request-Timestamp"), request.header("X-Slack-Signature")
        now_s = self._clock.wall_s()
        try:
            check_age(timestamp, now_s)
        except SignatureRefused as refused:
            raise RefusedRequest(401, f"not taken for a request of Slack: {refused}") from None
        press = read_press(request.body)
        try:
            run = runs.find_one(press.run, press.began)
        except RefusedRequest:
            raise _unsigned() from None  # nobody learns here which runs there are
        route = _signer(run, timestamp, request.body, signature)
        try:
            self._seen.take(signature, self._clock.now_s())
        except SignatureRefused as refused:
            raise RefusedRequest(401, f"not taken for a request of Slack: {refused}") from None
        settings = route.settings
        assert isinstance(settings, SlackRoute), "only such routes have a signing secret"
        if settings.people and press.user not in settings.people:
            raise RefusedRequest(403, f"{press.user} is none of the people of this route")
        why = _outdated(press, _incident_of(press, run.name, runs))
        if not self._free.acquire(blocking=False):
            raise RefusedRequest(503, "too many presses wait for an answer; press again in a moment", Retry_After="5")
        threading.Thread(target=self._carry_out, args=(press, run, route, unattended, why), daemon=True).start()
        return Response(b"", TEXT)

    def _carry_out(self, press: Press, run: ServedRun, route: Route, unattended: Unattended | None, why: str) -> None:
        try:
            words = why or _asked(press, run, unattended)
            opened = open_channel(route, run.run_dir)
            if isinstance(opened.channel, SlackBot):
                opened.channel.say(f"{press.who}: {press.verb} incident {press.incident}: {words}")
        except Exception:  # noqa: BLE001 - the journal has the answer, and the run's page shows it; a traceback might hold a secret
            pass
        finally:
            self._free.release()


def read_press(body: bytes) -> Press:
    """Of a form whose field `payload` is JSON. Raises RefusedRequest."""
    try:
        payload: Any = loads(parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=8)["payload"][0])
        action: Mapping[str, Any] = payload["actions"][0]
        value: Any = loads(action["value"])
        verb = str(action["action_id"]).removeprefix(ACTION)
        run, began, incident, rung = value["run"], value.get("began"), value["incident"], value.get("rung")
        user = payload["user"]
        is_known = payload["type"] == "block_actions" and verb in BUTTONS and isinstance(run, str) and type(incident) is int
        is_whole = is_known and all(number is None or type(number) is int for number in (began, rung))
        name = _plain(user.get("username") or user.get("name") or "")
        press = Press(verb, run, began, incident, rung, _plain(user["id"]), name)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise RefusedRequest(400, "no press of a button of Sentinel's: the form that Slack sends for block_actions was expected")
    return press


def _signer(run: ServedRun, timestamp: str, body: bytes, signature: str) -> Route:
    """The route of the run's policy whose app signed it. Raises RefusedRequest."""
    try:
        routes = load_run_policy(run.run_dir)[0].spec.paging.routes
    except SentinelError:
        raise _unsigned() from None
    for route in routes:
        settings = route.settings
        if not isinstance(settings, SlackRoute) or settings.signing_secret is None:
            continue
        with suppress(SentinelError):  # a secret that is not in this process's environment verifies nothing
            if is_signed(Vault().read(settings.signing_secret), timestamp, body, signature):
                return route
    raise _unsigned()


def _unsigned() -> RefusedRequest:
    return RefusedRequest(401, "not taken for a request of Slack: its signature is that of no route of the run it names")


def _incident_of(press: Press, name: str, runs: Runs) -> Incident | None:
    """As the page knows it, a moment behind the journal: it is asked again for who presses at once. None: there is none."""
    found: Incident | None = None
    for _ in range(LOOKS):
        found = next((one for one in runs.find(name).seen().state.incidents if one.id == press.incident), None)
        if found is not None and (press.rung is None or found.awaits_approval):
            break
        threading.Event().wait(LOOK_S)
    return found


def _outdated(press: Press, incident: Incident | None) -> str:
    """Why the button means nothing any more; empty while it does. Raises RefusedRequest."""
    if incident is None:
        raise RefusedRequest(404, f"{press.run}: there is no incident {press.incident}")
    if press.rung is None:
        return ""
    asked = incident.approval
    if not incident.awaits_approval or asked is None or asked.rung != press.rung:
        return f"rung {press.rung + 1} does not wait for an answer any more, so nothing was asked"
    return ""


def _asked(press: Press, run: ServedRun, unattended: Unattended | None) -> str:
    try:
        answer = ask(run, OF_INCIDENT[press.verb](press.incident, {"rung": press.rung}), press.who, unattended)
    except RefusedRequest as refused:
        return refused.message
    except SentinelError as error:
        return str(error)
    return printable(answer.words) if answer is not None else "asked, and not answered yet; it will stand among the events"


def _plain(text: object) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())[:WHO_CHARS_MAX]
