"""Carries a decided page to the person: the handler of `SendPage`. The engine has chosen the route; here it is found by its
name, the notice is built, and the route's channel is given it, for no longer than one try may take.

Each route has a lane of its own in the runner, so `send` is called by several threads at once, by one for each route.

    courier = Courier(run_dir, "gpt-7", {route.name: open_channel(route, run_dir) for route in paging.routes}, build)
    detail = courier.send(page)          # or RetryLater, GiveUp
"""

from __future__ import annotations

import re
import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from sentinel.channels.contract import TRY_S, Channel
from sentinel.channels.notice import TEXT_CHARS_MAX, TITLE_CHARS_MAX, Notice, dedup_key
from sentinel.channels.terminal import Terminal
from sentinel.channels.wording import CALLS, cut, one_line, titled
from sentinel.clock import Clock, SystemClock
from sentinel.errors import GiveUp, PerhapsDelivered, RetryLater
from sentinel.model.actions import SendPage
from sentinel.paging.patience import Patience

PAUSE_MAX_S = 60.0  # between two tries: as long as the network may be gone, and no longer than a page may be late
CASE_S = 5.0  # the case reads a little of the run directory, whose filesystem may be the very thing that does not answer
# A service that takes a page and answers too late shows each try as another page. The first pauses stay short, as the page may be
# lost all the same; then they grow so fast that a night of eight hours sees 13 tries, not some 500.
PERHAPS_GROWTH, PERHAPS_PAUSE_MAX_S = 4.0, 3600.0
TRIES_KEPT = 256
_CONTROL = re.compile(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f-\x9f]")
NO_ROUTE = ""  # pages decided before there were routes: the terminal

Builder = Callable[[SendPage], Notice]


class Courier:
    """`channels`: of the policy's routes, by name. `build`: the whole case; what it raises is a bug in showing, and must not
    cost the page: then the engine's own words go out."""

    def __init__(
        self,
        run_dir: Path,
        run: str,
        channels: Mapping[str, Channel],
        build: Builder | None = None,
        within_s: float = TRY_S,
        clock: Clock | None = None,
        case_within_s: float = CASE_S,
    ) -> None:
        self._run_dir = run_dir
        self._run = run
        self.channels: Mapping[str, Channel] = {NO_ROUTE: Terminal(run_dir), **channels}
        self._build = build
        self._within_s = within_s
        self._case_within_s = min(case_within_s, within_s / 2)
        self._clock = clock or SystemClock()
        self._patience = {name: Patience(name) for name in self.channels}
        self._case_patience = {name: Patience(f"{name}, its case") for name in self.channels}
        self._tries: OrderedDict[tuple[str, bool], int] = OrderedDict()  # of a page, those that may have delivered it apart

    def send(self, page: SendPage) -> str:
        """Deliver on the page's own route. Raises RetryLater, GiveUp."""
        channel = self.channels.get(page.route)
        if channel is None:
            known = ", ".join(name for name in self.channels if name) or "none"
            raise GiveUp(f"the policy has no route {page.route} any more, only: {known}")
        try:
            detail = self._patience[page.route].within(self._within_s, lambda: channel.deliver(self.notice(page)))
        except RetryLater as later:
            raise RetryLater(str(later), self._pause_s(page.key, later)) from None
        for perhaps in (False, True):
            self._tries.pop((page.key, perhaps), None)
        return detail

    def notice(self, page: SendPage) -> Notice:
        """The whole case where it can be built, the engine's own words where not."""
        build = self._build
        if build is None:
            return self._plain(page)
        built: list[Notice] = []

        def draw_up() -> str:
            built.append(build(page))
            return ""

        try:
            self._case_patience[page.route].within(self._case_within_s, draw_up)
            return built[0]
        except Exception:  # noqa: BLE001 - a bug in the case, a disk that cannot be read or does not answer: a short page beats none
            return self._plain(page)

    def _plain(self, page: SendPage) -> Notice:
        return plain_notice(self._run_dir, self._run, page, self._clock.wall_s())

    def _pause_s(self, page: str, later: RetryLater) -> float:
        """Longer with every try, but never before the server wants it."""
        asked_s, perhaps = later.retry_in_s, isinstance(later, PerhapsDelivered)
        growth, longest_s = (PERHAPS_GROWTH, PERHAPS_PAUSE_MAX_S) if perhaps else (2.0, PAUSE_MAX_S)
        key = (page, perhaps)
        tries = self._tries[key] = self._tries.pop(key, 0) + 1
        while len(self._tries) > TRIES_KEPT:
            self._tries.popitem(last=False)
        return max(asked_s, min(asked_s * growth ** min(tries - 1, 10), longest_s))


def plain_notice(run_dir: Path, run: str, page: SendPage, wall_s: float) -> Notice:
    """The shortest notice of a page: the engine's own words, and how to answer. Sent when the whole case cannot be built."""
    ack = f"sentinel ack {page.incident} {shlex.quote(str(run_dir))}"
    answers = (ack,) if page.stage in CALLS else ()
    text = cut(_CONTROL.sub(" ", "\n".join([page.text, *answers])), TEXT_CHARS_MAX)
    title = cut(one_line(_CONTROL.sub(" ", titled(page.title, page.stage, page.by))), TITLE_CHARS_MAX)
    return Notice(
        stage=page.stage, key=page.key, dedup_key=dedup_key(run, page.incident), run=run, incident=page.incident,
        severity=page.severity, title=title, text=text, at_s=wall_s, by=page.by, answers=answers,
    )  # fmt: skip
