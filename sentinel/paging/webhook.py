"""The page as one JSON document, by POST, to any server. Signed, where the route has a secret:

    X-Sentinel-Signature-256: sha256=HEX, the HMAC-SHA256 of TIME.BODY under the secret
    X-Sentinel-Timestamp: TIME, Unix seconds; refuse what is old
    X-Sentinel-Key: of this delivery; the same one may come twice
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import quote

from sentinel.client.strict_json import dumps
from sentinel.clock import SystemClock
from sentinel.paging.http_call import Request, host_of, send
from sentinel.paging.notice import Notice
from sentinel.paging.secrets import Vault
from sentinel.policy.schema_paging import WebhookRoute


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
        answer = send(Request(what, self._settings.url, body, headers, scrub=self._vault.scrub))
        return f"accepted ({answer.status})"


def sign(secret: str, time: str, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
