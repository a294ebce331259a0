"""A run that pages, on the bench: given up at a NaN, or told of twice; what was sent, and how it arrives."""

from __future__ import annotations

from math import nan
from typing import Any

from sentinel.model import actions as a
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.paging import IncidentPage
from sentinel.policy.schema import Policy
from tests.builders import Bench, build_policy

MINUTE = 60.0
TERMINAL: dict[str, Any] = {"terminal": {}}
HOOK: dict[str, Any] = {"webhook": {"name": "hook", "url": "https://pages.example/x"}}
PHONE: dict[str, Any] = {"command": {"name": "phone", "run": ["call"], "after": "15m"}}
BOSS: dict[str, Any] = {"command": {"name": "boss", "run": ["call"], "after": "1h"}}
Sent = tuple[str, str]


def policy(*routes: dict[str, Any], then: str = "hold", severity: str = "critical", **paging: Any) -> Policy:
    page = [{"page": {"severity": severity}, "then": then}]
    spec = {"routes": list(routes or (TERMINAL, HOOK, PHONE)), **paging}
    return build_policy(playbooks={"non_finite": page, "restart": page}, paging=spec)


def given_up(*routes: dict[str, Any], **how: Any) -> Bench:
    bench = Bench(policy(*routes, **how)).launched()
    bench.steps(1, 60).step(61, nan)
    return bench


def sent(bench: Bench) -> list[Sent]:
    """Stage and route of everything decided, in order."""
    return [(page.stage, page.route) for page in bench.decided(a.SendPage)]


def deliver(bench: Bench, *routes: str) -> Bench:
    """What is under way on these routes (all) arrives."""
    for key in [key for key, x in bench.state.pending.items() if isinstance(x, a.SendPage) and (not routes or x.route in routes)]:
        bench.done(key)
    return bench


def page_of(bench: Bench) -> IncidentPage:
    assert bench.incident.page is not None
    return bench.incident.page


def asked_twice(first: str, *routes: dict[str, Any]) -> Bench:
    """A run that tells a person at its first crash, resumes, and is given up at the next."""
    rungs = [{"page": {"severity": first}}, {"resume": {"from": "newest"}}, {"page": {"severity": "critical"}, "then": "hold"}]
    bench = Bench(build_policy(playbooks={"restart": rungs}, paging={"routes": list(routes) or [TERMINAL]})).launched()
    bench.steps(1, 20).exits(signal=9)
    return bench.launched()


def exhausted(bench: Bench, number: int) -> Incident:
    state = IncidentState.EXHAUSTED
    return Incident(number, Kind.STRAGGLER, "critical", "A", "tell", 1, None, 60, 60, 0.0, bench.now_s, "x", state)
