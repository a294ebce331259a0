"""Whatever apprise knows: chat services by the dozen. An extra: pip install training-sentinel[apprise]. It reports neither why
it failed nor when to come back, and acknowledges nothing: good for telling many, not for the page that must arrive."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Iterator
from typing import Any

from sentinel.channels.contract import AGAIN_S
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.channels.wording import headline
from sentinel.errors import GiveUp, RetryLater
from sentinel.policy.schema_paging import RouteSettings, Secret

MISSING = "apprise is not installed; pip install 'training-sentinel[apprise]'"
LOOKS = {"trigger": "failure", "update": "warning", "acknowledge": "info", "resolve": "success", "message": "info"}


class AppriseRoute(RouteSettings):
    """Whatever apprise knows (pip install training-sentinel[apprise])."""

    urls: Secret
    """Its URLs, separated by white space."""


class Apprise:
    def __init__(self, settings: AppriseRoute, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def deliver(self, notice: Notice) -> str:
        urls = self._vault.read(self._settings.urls).split()
        try:
            library: Any = importlib.import_module("apprise")
        except ImportError:
            raise GiveUp(MISSING) from None
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it would tell addresses, and parts of them are secrets
        box = library.Apprise()
        known = [bool(box.add(url)) for url in urls]
        if not all(known):
            raise GiveUp(f"apprise does not know {known.count(False)} of {len(urls)} addresses; look them up in its list")
        if not box.notify(title=headline(notice), body=notice.text, notify_type=LOOKS[notice.stage], body_format="text"):
            raise RetryLater(f"apprise could not reach all of {len(urls)} addresses, and does not say why", AGAIN_S)
        return f"sent to {len(urls)}"


def problems(settings: AppriseRoute) -> Iterator[str]:
    del settings
    if importlib.util.find_spec("apprise") is None:
        yield MISSING
