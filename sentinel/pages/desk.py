"""Everything of a living run that reaches a person, put together: the courier with a channel for each route, a keeper for each
Alertmanager, the dead man's calls. What is slow or hangs does so in threads of their own.

    desk = Desk(run_dir, policy.spec.paging, Ways(lambda: engine.state, build_notice, acknowledge), clock)
    desk.courier.send(page)      # the handler of SendPage
    desk.turned()                # after each turn of the loop
    desk.poll(now_s)             # a Source: remarks
    desk.close()                 # the last posts
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.clock import Clock
from sentinel.model.actions import SendPage
from sentinel.model.readings import Reading
from sentinel.model.state import RunState
from sentinel.pages.alertmanager import Alertmanager
from sentinel.pages.alertmanager_keeper import LOOK_S, AlertmanagerKeeper
from sentinel.pages.case import build_notice
from sentinel.pages.channels import Guarded, open_channel
from sentinel.pages.contract import TRY_S
from sentinel.pages.courier import Courier
from sentinel.pages.dead_man import DeadManCalls
from sentinel.pages.notice import Notice
from sentinel.pages.open_pages import open_pages
from sentinel.pages.steady import Steady
from sentinel.policy.schema_paging import Paging

BuildNotice = Callable[[Path, RunState, SendPage, Paging, float], Notice]


@dataclass(frozen=True, slots=True)
class Ways:
    """What the desk asks of the run. `latest`: how it stands, called from threads. `acknowledge`: an incident, and who saw it."""

    latest: Callable[[], RunState]
    acknowledge: Callable[[int, str], None]
    build: BuildNotice = build_notice


class Desk:
    has_more = False

    def __init__(self, run_dir: Path, paging: Paging, ways: Ways, clock: Clock) -> None:
        self._run_dir = run_dir
        self._paging = paging
        self._ways = ways
        self._clock = clock
        channels = {route.name: open_channel(route, run_dir) for route in paging.routes}
        run = ways.latest().run_id or run_dir.name
        self.courier = Courier(run_dir, run, channels, self._notice, min(TRY_S, paging.deadline_s), clock)
        self._keepers = [self._keep(name, channel) for name, channel in channels.items() if _is_alertmanager(channel)]
        self._dead_man = DeadManCalls(paging.dead_man) if paging.dead_man is not None else None
        calls = [] if self._dead_man is None else [Steady("dead man", self._dead_man.every_s, self._dead_man.call)]
        self._threads = [*self._keepers, *calls]

    def turned(self) -> None:
        if self._dead_man is not None:
            self._dead_man.turned()

    def poll(self, now_s: float) -> list[Reading]:
        return [reading for thread in self._threads for reading in thread.poll(now_s)]

    def close(self) -> None:
        """In bounded time, and before the run's lock is given back: a successor posts as well. Safe to call twice."""
        for thread in self._threads:
            thread.leave()
        late = [thread for thread in self._threads if not thread.close()]
        if late:
            with suppress(OSError, ValueError):
                words = "the last post to Alertmanager is not out: open alerts will look resolved in five minutes"
                print(f"{self._run_dir}: {words}", file=sys.stderr)

    def _notice(self, page: SendPage) -> Notice:
        return self._ways.build(self._run_dir, self._ways.latest(), page, self._paging, self._clock.wall_s())

    def _keep(self, name: str, guarded: Guarded) -> Steady:
        assert isinstance(guarded.channel, Alertmanager)

        def standing() -> Sequence[Notice]:
            return [self.courier.notice(page) for page in open_pages(self._ways.latest(), name)]

        keeper = AlertmanagerKeeper(guarded.channel, guarded.vault, standing, self._ways.acknowledge, self._clock)
        return Steady(f"page route {name}", LOOK_S, keeper.turn, keeper.last_post)


def _is_alertmanager(guarded: Guarded) -> bool:
    return isinstance(guarded.channel, Alertmanager)
