"""The page as one JSON document, by POST, to any server. Signed, where the route has a secret:

    X-Sentinel-Signature-256: sha256=HEX, the HMAC-SHA256 of TIME.BODY under the secret
    X-Sentinel-Timestamp: TIME, Unix seconds; refuse what is old
    X-Sentinel-Key: of this delivery; the same one may come twice
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from sentinel.channels.http_call import HttpRequest, check_url, given_url, host_of, send
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.client.strict_json import dumps
from sentinel.clock import SystemClock
from sentinel.policy.schema_paging import RouteSettings, Secret, Url

SECRET_VARIABLE = "SENTINEL_WEBHOOK_SECRET"  # with --page


class WebhookRoute(RouteSettings):
    """The page as JSON, by POST."""

    url: Url
    """Where it goes."""
    secret: Secret | None = None
    """Signs the body: X-Sentinel-Signature-256 is the HMAC-SHA256 of time and body."""


class Webhook:
    def __init__(self, settings: WebhookRoute, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def deliver(self, notice: Notice) -> str:
        body = dumps(notice.document()).encode()
        time = str(int(SystemClock().wall_s()))
        headers = {"X-Sentinel-Timestamp": time, "X-Sentinel-Key": quote(notice.key, safe="/")}
        if self._settings.secret is not None:
            headers["X-Sentinel-Signature-256"] = f"sha256={sign(self._vault.read(self._settings.secret), time, body)}"
        what = f"the webhook at {host_of(self._settings.url)}"
        answer = send(HttpRequest(what, self._settings.url, body, headers, scrub=self._vault.scrub))
        return f"accepted ({answer.status})"


def problems(settings: WebhookRoute) -> Iterator[str]:
    if wrong := check_url(settings.url):
        yield f"its url {wrong}"


def short_form(value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """`--page webhook=URL`, signed where the environment holds a secret."""
    signed = {"secret": Secret(env=SECRET_VARIABLE)} if SECRET_VARIABLE in environ else {}
    return {"url": given_url(value, "webhook"), **signed}


def sign(secret: str, time: str, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
