"""Keeps the alerts of open pages alive in Alertmanager, which takes an alert that is not posted again for resolved, and reads
its silences: who silences an incident's alert has seen it, and so has acknowledged it.

When sentinel ends with a page open, the last post says that the alert stands for a week: in five minutes the matter is not well
because nobody posts any more. A supervisor that is killed cannot say so; the dead man's rule pages then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set

from sentinel.channels.alertmanager import Alertmanager
from sentinel.channels.row import Acknowledge, OpenNotices
from sentinel.channels.secrets import Vault
from sentinel.channels.wording import cut, one_line
from sentinel.clock import Clock, SystemClock
from sentinel.errors import GiveUp, RetryLater

POST_S = 60.0  # Alertmanager waits five minutes
LOOK_S = 5.0  # for silences, while a page is open
LAST_S = 7 * 86400.0
NAME_CHARS_MAX = 80
SILENCES_KEPT = 256


class AlertmanagerKeeper:
    """A `Keeper`, of one route. `open_pages`: the notices that stand open on it now. `acknowledge`: takes an incident and who has
    seen it."""

    every_s = LOOK_S

    def __init__(
        self, channel: Alertmanager, vault: Vault, open_pages: OpenNotices, acknowledge: Acknowledge, clock: Clock | None = None
    ) -> None:
        self._channel = channel
        self._vault = vault
        self._open_pages = open_pages
        self._acknowledge = acknowledge
        self._clock = clock or SystemClock()
        self._posted_s: float | None = None
        self._acknowledged: deque[tuple[int, str]] = deque(maxlen=SILENCES_KEPT)

    def turn(self) -> None:
        """Post what is due, look for silences. Raises RetryLater, GiveUp in words without a secret."""
        notices = self._open_pages()
        if not notices:
            self._posted_s = None
            return
        now_s = self._clock.now_s()
        if self._posted_s is None or now_s - self._posted_s >= POST_S:
            self._without_secrets(lambda: self._channel.keep(self._open_pages))
            self._posted_s = now_s
        unseen = {notice.incident for notice in notices if notice.stage != "acknowledge"}
        if unseen:
            self._without_secrets(lambda: self._look(notices[0].run, unseen))

    def last_post(self) -> None:
        """Sentinel leaves: what is open stays open. Raises as `turn`."""
        self._without_secrets(lambda: self._channel.keep(self._open_pages, self._clock.wall_s() + LAST_S))

    def _look(self, run: str, unseen: Set[int]) -> None:
        for incident, (silence, author) in self._channel.silences_of(run).items():
            if incident in unseen and (incident, silence) not in self._acknowledged:
                self._acknowledge(incident, f"silence by {_name(author)} in Alertmanager")
                self._acknowledged.append((incident, silence))  # only now: what a full disk has kept is said again

    def _without_secrets(self, work: Callable[[], None]) -> None:
        try:
            work()
            return
        except RetryLater as later:
            found: RetryLater | GiveUp = RetryLater(self._vault.scrub(str(later)), later.retry_in_s)
        except GiveUp as final:
            found = GiveUp(self._vault.scrub(str(final)))
        raise found


def _name(author: str) -> str:
    return cut(one_line("".join(c if c.isprintable() else " " for c in author)), NAME_CHARS_MAX) or "somebody"
