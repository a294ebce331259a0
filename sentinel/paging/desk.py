"""Everything of a living run that reaches a person, put together: the courier with a channel for each route, a keeper for
each that needs one (Alertmanager), the dead man's calls. What is slow or hangs does so in threads of their own.

    desk = Desk(run_dir, policy.spec.paging, Ways(lambda: engine.state, acknowledge), clock)
    desk.courier.send(page)      # the handler of SendPage
    desk.turned()                # after each turn of the loop
    desk.poll(now_s)             # a Source: remarks
    desk.close()                 # the last posts
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sentinel.channels.contract import TRY_S
from sentinel.channels.notice import Notice
from sentinel.channels.opening import Guarded, open_channel
from sentinel.channels.registry import CHANNELS
from sentinel.channels.row import OpenNotices
from sentinel.clock import Clock
from sentinel.model.actions import SendPage, Stage
from sentinel.model.paging import IncidentPage
from sentinel.model.readings import Reading
from sentinel.model.state import RunState
from sentinel.paging.case import build_notice
from sentinel.paging.courier import Courier
from sentinel.paging.dead_man import DeadManCalls
from sentinel.paging.steady import CLOSE_S, Steady
from sentinel.policy.schema_paging import Paging

BuildNotice = Callable[[Path, RunState, SendPage, Paging, float], Notice]


def open_courier(
    run_dir: Path, paging: Paging, latest: Callable[[], RunState], clock: Clock, build: BuildNotice = build_notice
) -> Courier:
    """The courier alone, for whoever sends a page and leaves. `latest`: how the run stands, called from threads."""

    def notice(page: SendPage) -> Notice:
        return build(run_dir, latest(), page, paging, clock.wall_s())

    channels = {route.name: open_channel(route, run_dir) for route in paging.routes}
    return Courier(run_dir, latest().run_id or run_dir.name, channels, notice, min(TRY_S, paging.deadline_s), clock)


@dataclass(frozen=True, slots=True)
class Ways:
    """What the desk asks of the run. `latest`: how it stands, called from threads. `acknowledge`: an incident, and who saw it.
    `is_ours`: no successor has taken it over meanwhile, who knows better than we what stands open; called from threads."""

    latest: Callable[[], RunState]
    acknowledge: Callable[[int, str], None]
    build: BuildNotice = build_notice
    is_ours: Callable[[], bool] = lambda: True


class Desk:
    has_more = False

    def __init__(self, run_dir: Path, paging: Paging, ways: Ways, clock: Clock) -> None:
        self._run_dir = run_dir
        self._ways = ways
        self._clock = clock
        self.courier = open_courier(run_dir, paging, ways.latest, clock, ways.build)
        self._threads = list(self._keepers(paging))
        self._dead_man = DeadManCalls(paging.dead_man) if paging.dead_man is not None else None
        if self._dead_man is not None:
            self._threads.append(Steady("dead man", self._dead_man.every_s, self._dead_man.call))

    def turned(self) -> None:
        if self._dead_man is not None:
            self._dead_man.turned()

    def poll(self, now_s: float) -> list[Reading]:
        return [reading for thread in self._threads for reading in thread.poll(now_s)]

    def close(self) -> None:
        """In bounded time, and before the run's lock is given back: a successor posts as well. Safe to call twice."""
        for thread in self._threads:
            thread.leave()
        end_s = self._clock.now_s() + CLOSE_S  # for all of them together
        for thread in self._threads:
            if not thread.close(max(0.0, end_s - self._clock.now_s())):
                with suppress(OSError, ValueError):
                    words = "the last post is not out: alerts that are open will look resolved in five minutes"
                    print(f"{self._run_dir}: {thread.name}: {words}", file=sys.stderr)

    def _keepers(self, paging: Paging) -> Iterator[Steady]:
        """For the routes whose channel needs work beside its deliveries."""
        for route in paging.routes:
            build, opened = CHANNELS[route.kind].keeper, self.courier.channels[route.name]
            if build is not None:
                assert isinstance(opened, Guarded)
                keeper = build(opened.channel, opened.vault, self._open_notices(route.name), self._ways.acknowledge, self._clock)
                yield Steady(f"page route {route.name}", keeper.every_s, keeper.turn, keeper.last_post)

    def _open_notices(self, route: str) -> OpenNotices:
        def notices() -> Sequence[Notice]:
            if not self._ways.is_ours():
                return []
            return [self.courier.notice(page) for page in open_pages(self._ways.latest(), route)]

        return notices


def open_pages(state: RunState, route: str) -> tuple[SendPage, ...]:
    """The pages that stand open on a route: delivered there, and not taken back since. Each as the action that
    would send it again now."""
    there = ((incident.id, incident.page) for incident in state.open_pages if incident.page is not None)
    return tuple(_as_action(number, page, route) for number, page in there if page.on(route).is_open)


def _as_action(number: int, page: IncidentPage, route: str) -> SendPage:
    stage: Stage = "acknowledge" if page.acknowledged_by else "trigger"
    return SendPage(f"keep/{number}/{route}", number, page.severity, page.title, page.text, stage, route, page.acknowledged_by)
