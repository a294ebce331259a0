"""Calls an address for as long as sentinel lives: when the calls stop, whoever listens there pages. What lives is the loop: a
call is made only if a turn has been completed since the call before, so a supervisor whose loop hangs falls silent with its
threads still running."""

from __future__ import annotations

from collections.abc import Mapping

from sentinel.channels.http_call import HttpRequest, send
from sentinel.channels.secrets import Vault
from sentinel.errors import GiveUp, RetryLater
from sentinel.model.amounts import time_words
from sentinel.policy.schema_paging import DeadMan

EVERY_MIN_S = 2.0  # the loop turns once a second; what calls oftener might find no turn between two calls


class DeadManCalls:
    """`turned` is called after each turn of the loop, `call` every `every_s` from a thread."""

    def __init__(self, settings: DeadMan, environ: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._vault = Vault(environ)
        self._turns = 0
        self._called_at = 0
        self.every_s = max(settings.every_s, EVERY_MIN_S)

    def turned(self) -> None:
        self._turns += 1

    def call(self) -> None:
        """Call, if the loop has turned. Raises RetryLater, GiveUp with words that hold no address: it is a secret."""
        turns = self._turns
        if turns == self._called_at:
            return
        try:
            address = self._vault.read(self._settings.url)
            send(HttpRequest("the dead man's address", address, method="GET", scrub=self._vault.scrub))
        except (RetryLater, GiveUp) as error:
            words = f"{self._vault.scrub(str(error))}; called again every {time_words(self.every_s)}"
        else:
            self._called_at = turns
            return
        raise RetryLater(words, self.every_s)
