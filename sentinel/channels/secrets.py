"""Secrets: read when something is delivered and not before, forgotten after it, and kept out of every word about it.

A secret stands in an environment variable or in a file (`policy.schema_paging.Secret`). Whatever a channel has to say, a
server's answer that repeats the key included, goes through `Vault.scrub`.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote, urlsplit

from sentinel.channels.contract import AGAIN_S
from sentinel.client.strict_json import dumps
from sentinel.errors import GiveUp, RetryLater
from sentinel.policy.schema_paging import Secret

CHARS_MAX = 8192
REMEMBERED = 8  # the newest values of one channel: a rotated key may still be answered to
PART_CHARS_MIN = 8  # a shorter piece of an address is a word like `services`, and no secret
SHORT_CHARS = 6  # a secret so short may stand anywhere by chance
HIDDEN = "(hidden)"
LEFT_OUT = "(its words hold a secret, and are left out)"
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
PERMANENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)


class Vault:
    """The secrets of one channel. Not a dataclass: nothing prints what it holds."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._seen: deque[str] = deque(maxlen=REMEMBERED)

    def read(self, secret: Secret) -> str:
        """Its value now. Raises GiveUp with what to mend, RetryLater when a file cannot be read now."""
        value, place = (self._from_environment(secret.env) if secret.env is not None else _from_file(str(secret.file)))
        if not value:
            raise GiveUp(f"{place} is empty; put the secret there")
        if len(value) > CHARS_MAX or not (value.isascii() and value.isprintable()):
            raise GiveUp(f"{place} holds no secret: it is one line of plain ASCII, of at most {CHARS_MAX} characters")
        if value not in self._seen:
            self._seen.append(value)
        return value

    def scrub(self, text: str) -> str:
        """`text` without the secrets read so far, however they are spelt: as they are, quoted for an address, encoded."""
        for value in tuple(self._seen):  # another thread may be reading one
            for form in sorted(set(_forms(value)), key=len, reverse=True):
                if len(form) < SHORT_CHARS and form in text:
                    return LEFT_OUT
                text = text.replace(form, HIDDEN)
        return text

    def _from_environment(self, name: str) -> tuple[str, str]:
        value = self._environ.get(name)
        if value is None:
            raise GiveUp(f"the environment variable {name} is not set; set it where sentinel is started")
        return value.strip(), f"the environment variable {name}"


def _from_file(path: str) -> tuple[str, str]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)  # a pipe must not hang
        with open(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise GiveUp(f"{path}: is not a regular file; a secret is one line in a file")
            if about.st_mode & 0o077:
                raise GiveUp(f"{path}: others than its owner may read it (mode {about.st_mode & 0o777:o}); chmod 600 {path}")
            raw = file.read(4 * CHARS_MAX + 1)
    except PERMANENT as error:
        raise GiveUp(f"{path}: the secret cannot be read: {error.strerror}; put it there, readable for sentinel's user") from None
    except OSError as error:
        raise RetryLater(f"{path}: the secret cannot be read now: {error.strerror}", AGAIN_S) from None
    return raw.decode("utf-8", "replace").strip(), path


def _forms(value: str) -> Iterator[str]:
    """How a value may come back: in an address, in JSON, in a log of SMTP AUTH; of an address, its telling parts too."""
    for piece in (value, *_parts(value)):
        for form in (piece, quote(piece), quote(piece, safe=""), quote_plus(piece)):
            yield form
            yield _ESCAPE.sub(lambda found: found[0].lower(), form)  # servers write them either way
            yield _ESCAPE.sub(lambda found: found[0].upper(), form)
        yield dumps(piece)[1:-1]
        yield repr(piece)[1:-1]
        yield base64.b64encode(piece.encode()).decode().rstrip("=")


def _parts(value: str) -> Iterator[str]:
    if "://" not in value:
        return
    for address in value.split():
        try:
            split = urlsplit(address)
            pieces = [split.path, split.query, split.username or "", split.password or "", *split.path.split("/")]
            pieces += [one for pair in split.query.split("&") for one in pair.split("=")]
            pieces += [split.netloc] if split.scheme not in ("http", "https") else []
        except ValueError:
            continue
        yield from (piece for raw in pieces for piece in (raw.strip("/"), unquote(raw)) if len(piece) >= PART_CHARS_MIN)
