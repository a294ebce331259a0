"""Whether the pages of a policy reach anybody in time."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel.errors import Problem
from sentinel.model.amounts import time_words
from sentinel.policy.checks_mute import check_inhibit, check_mute
from sentinel.policy.schema import PolicySpec, Severity
from sentinel.policy.schema_paging import RANK

REPEAT_MIN_S = 60.0


def check_paging(spec: PolicySpec) -> Iterator[Problem]:
    paging, path = spec.paging, "spec.paging"
    if not paging.routes:
        yield Problem(f"{path}.routes", "a page would reach nobody", "write [{terminal: {}}]")
        return
    at_once = [route for route in paging.routes if route.settings.after_s is None]
    if not at_once:
        message = "every route waits ('after'), so nobody is reached when a page is raised"
        yield Problem(f"{path}.routes", message, "leave 'after' out of one of them, or add {terminal: {}}")
    for severity in _paged(spec) if at_once else ():
        if not any(route.is_for(severity) for route in at_once):
            message = f"a {severity} page would reach nobody at once: the routes that do not wait want more severe ones"
            yield Problem(f"{path}.routes", message, f"give one of them 'severity: {severity}'", "warning")
    yield from check_mute(spec)
    yield from check_inhibit(spec)
    if paging.repeat_every_s < REPEAT_MIN_S:
        message = f"a page every {time_words(paging.repeat_every_s)} wakes nobody better, and fills the journal"
        yield Problem(f"{path}.repeat_every", message, "write at least 1m; 30m is usual")


def _paged(spec: PolicySpec) -> list[Severity]:
    """The severities that people are paged with, the least first: by rungs, for approval by the rule's own."""
    found: set[Severity] = {"critical"}
    for rule in spec.rules:
        for rung in spec.playbooks.get(rule.playbook or "", ()):
            found |= {rung.page.severity} if rung.page is not None else set()
            found |= {rule.labels.severity} if rung.approval is not None else set()
    return sorted(found - {"info"}, key=RANK.__getitem__)
