"""`sentinel page test`: a test page on every route, taken back at once, and what came of it route by route. Nothing of a run
is touched.

The routes, secrets and channels are those of a real page; so whoever is paged by this would be paged at night.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sentinel.channels.contract import TRY_S
from sentinel.channels.notice import Notice, dedup_key
from sentinel.channels.opening import Guarded, open_channel
from sentinel.channels.wording import titled
from sentinel.clock import SystemClock
from sentinel.errors import GiveUp, RetryLater, UsageError
from sentinel.model.findings import Severity
from sentinel.model.paging import PageHold
from sentinel.paging.asked import lay_routes
from sentinel.paging.patience import Patience
from sentinel.policy.quiet_hours import free_at, hold_words, is_active
from sentinel.policy.schema_mute import Mute
from sentinel.policy.schema_paging import Route
from sentinel.policy_files.loading import load_policy, shipped_policy_path

RUN = "page-test"


@dataclass(frozen=True, slots=True)
class Tested:
    """What came of one route."""

    route: str
    ok: bool
    words: str


def try_routes(policy: str, asked: Sequence[str], only: str | None, severity: Severity = "info") -> Iterator[Tested]:
    """One after the other. `severity`: of the test page; many a phone rings for a critical one alone. Raises UsageError,
    PolicyError before anything is sent."""
    paging = lay_routes(load_policy(shipped_policy_path(policy)), asked).spec.paging
    names = [route.name for route in paging.routes]
    if only is not None and only not in names:
        raise UsageError(f"--route {only}: the policy has no such route, only: {', '.join(names)}")
    chosen = [route for route in paging.routes if only in (None, route.name)]
    return (_try(route, severity, paging.mute) for route in chosen)


def _try(route: Route, severity: Severity, mutes: Sequence[Mute]) -> Tested:
    channel, patience = open_channel(route, None), Patience(route.name)
    results: list[str] = []
    stages: tuple[Literal["trigger", "resolve"], ...] = ("trigger", "resolve")
    notice = _test_notice(route.name, severity)
    for stage in stages:
        try:
            detail = _deliver(patience, channel, _at(notice, stage))
        except (RetryLater, GiveUp) as error:
            hint = "; a real page would be tried again" if isinstance(error, RetryLater) else ""
            return Tested(route.name, False, "; ".join([*results, f"{stage} NOT DELIVERED: {error}{hint}"]))
        results.append(f"{stage}: {detail}")
    if severity != "info" and not route.is_for(severity):
        results.append(f"a real page goes this way from {route.settings.severity} on")
    waits = _waits_now(route, mutes, SystemClock().wall_s())
    return Tested(route.name, True, "; ".join([*results, waits] if waits else results))


def _waits_now(route: Route, mutes: Sequence[Mute], now_s: float) -> str:
    """Which real pages would wait on this route now, and until when; empty where none would."""
    found = [mute for mute in mutes if (not mute.routes or route.name in mute.routes) and is_active(mute, now_s)]
    words = []
    for mute in found:
        hold = PageHold((route.name,), now_s, (mute.name,), free_at([mute], now_s), mute.timezone)
        about = f" about {', '.join((*mute.kinds, *mute.rules))}" if mute.kinds or mute.rules else ""
        words.append(f"real {' and '.join(mute.severities)} pages{about} wait now: {hold_words(hold)}")
    return "; ".join(words)


def _at(notice: Notice, stage: Literal["trigger", "resolve"]) -> Notice:
    return replace(notice, stage=stage, key=f"{notice.key}/{stage}", title=titled(notice.title, stage, ""))


def _deliver(patience: Patience, channel: Guarded, notice: Notice) -> str:
    return patience.within(TRY_S, lambda: channel.deliver(notice))


def _test_notice(route: str, severity: Severity) -> Notice:
    """Its number is the time, so that no test is taken for the repetition of another."""
    wall_s, host = SystemClock().wall_s(), socket.gethostname()
    number = int(wall_s)
    text = f"A test of the route {route}, sent from {host} by `sentinel page test`.\nNothing is wrong, and nothing is to be done."
    return Notice(
        "trigger", f"{RUN}/{number}/{route}", dedup_key(RUN, number), RUN, number, severity, f"test page from sentinel on {host}",
        text, wall_s, facts={"kind": "test", "host": host},
    )  # fmt: skip
