"""Whether a request came from Slack: its signature, version v0, and how old it is.

Slack signs `v0:TIMESTAMP:BODY` with the app's signing secret (HMAC-SHA256) and sends `X-Slack-Signature: v0=HEX` beside
`X-Slack-Request-Timestamp`. A request older than five minutes is refused, and within them the same one a second time.
https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections import OrderedDict

WINDOW_S = 300.0
SEEN_MAX = 4096  # presses; of a burst the last are refused, and none of the last ten minutes is forgotten
TIMESTAMP_CHARS_MAX = 12


class SignatureRefused(Exception):
    """In words for a log; whoever forged it learns nothing from them."""


class SeenSignatures:
    """The newest, also those that are too old to be accepted: a clock that is set back makes them young again. Called from
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, float] = OrderedDict()

    def take(self, signature: str, now_s: float) -> None:
        """`now_s`: on a clock that nobody sets. Raises SignatureRefused for one that was taken before."""
        with self._lock:
            if signature in self._seen:
                raise SignatureRefused("this very request came before")
            if len(self._seen) >= SEEN_MAX and now_s - next(iter(self._seen.values())) > 2 * WINDOW_S:
                self._seen.popitem(last=False)
            if len(self._seen) >= SEEN_MAX:
                raise SignatureRefused("too many requests within five minutes; wait")
            self._seen[signature] = now_s


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The header of a request with this timestamp and body."""
    signed = b"v0:" + timestamp.encode("latin-1", "replace") + b":" + body
    return "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def check_age(timestamp: str, now_s: float) -> None:
    """Raises SignatureRefused. `now_s`: Unix seconds."""
    if not timestamp:
        raise SignatureRefused("it is not signed: it has no timestamp")
    if not (timestamp.isascii() and timestamp.isdecimal()) or len(timestamp) > TIMESTAMP_CHARS_MAX:
        raise SignatureRefused("its timestamp is no number of seconds")
    if abs(now_s - int(timestamp)) > WINDOW_S:
        raise SignatureRefused("its timestamp is more than five minutes from this machine's clock")


def is_signed(secret: str, timestamp: str, body: bytes, signature: str) -> bool:
    return hmac.compare_digest(sign(secret, timestamp, body).encode(), signature.encode("latin-1", "replace"))
