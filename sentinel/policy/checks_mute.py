"""Whether windows and inhibitions of a policy name what there is, and whether they leave somebody to be called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from sentinel.errors import Problem
from sentinel.policy.problems import did_you_mean
from sentinel.policy.quiet_hours import free_at
from sentinel.policy.schema import PolicySpec, Rule
from sentinel.policy.schema_fields import Severity
from sentinel.policy.schema_mute import Inhibit, Mute

SOME_MONDAY_S = 1_767_571_200.0  # 5 January 2026, UTC: windows that return do so in every week alike


def check_mute(spec: PolicySpec) -> Iterator[Problem]:
    alerts = (*(rule.alert for rule in spec.rules), *(rule.name for rule in spec.logs))
    routes = tuple(route.name for route in spec.paging.routes)
    for index, mute in enumerate(spec.paging.mute):
        path = f"spec.paging.mute[{index}]"
        yield from _unknown(f"{path}.rules", mute.rules, alerts, "no rule has the alert", "alerts here")
        yield from _unknown(f"{path}.routes", mute.routes, routes, "there is no route", "routes here")
        yield from _unasked(path, mute, spec)
    yield from _endless(spec.paging.mute)


def _endless(mutes: Sequence[Mute]) -> Iterator[Problem]:
    """Windows that return and fill the week together: no page of that severity would ever go out."""
    for severity in reversed(get_args(Severity)):
        filling = [mute for mute in mutes if severity in mute.severities and mute.to is None and not _is_about_some(mute)]
        if filling and free_at(filling, SOME_MONDAY_S) is None:
            names = " and ".join(mute.name for mute in filling)
            message = f"{names} never end together: nobody would ever be paged with severity {severity}"
            remedy = f"leave a gap between them, or take {severity} out of the severities of one"
            yield Problem(f"spec.paging.mute[{mutes.index(filling[-1])}]", message, remedy)
            return


def _is_about_some(mute: Mute) -> bool:
    return bool(mute.kinds or mute.rules or mute.routes)


def _unasked(path: str, mute: Mute, spec: PolicySpec) -> Iterator[Problem]:
    """A question with a deadline that nobody may hear."""
    for rule in spec.rules:
        asks = any(rung.approval is not None for rung in spec.playbooks.get(rule.playbook or "", ()))
        is_about = (not mute.rules or rule.alert in mute.rules) and (not mute.kinds or rule.on in mute.kinds)
        if asks and is_about and not mute.routes and rule.labels.severity in mute.severities:
            message = f"'{rule.alert}' asks for approval, and nobody is asked in this window: the default is taken"
            yield Problem(path, message, "give that rule the severity critical, or name the kinds that are to wait", "warning")
            return


def check_inhibit(spec: PolicySpec) -> Iterator[Problem]:
    """Words that name nothing, and pages that could wait for each other for ever."""
    named = _alerts_by_word(spec.rules) | {rule.name: {rule.name} for rule in spec.logs}
    for index, one in enumerate(spec.paging.inhibit):
        path = f"spec.paging.inhibit[{index}]"
        for key, words in (("while", one.while_), ("hold", one.hold)):
            yield from _unknown(f"{path}.{key}", words, tuple(named), "no rule is on, and no rule has the alert", "known here")
        circle = _circle(one, spec.paging.inhibit, named)
        if circle:
            message = f"a circle: pages about {circle} would wait for each other, and nobody be called"
            yield Problem(f"{path}.hold", message, "let one of them page: take it out of 'hold'")
            return


def _alerts_by_word(rules: Sequence[Rule]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for rule in rules:
        for word in (rule.alert, rule.on):
            if word is not None:
                found.setdefault(word, set()).add(rule.alert)
    return found


def _circle(start: Inhibit, entries: Sequence[Inhibit], named: Mapping[str, set[str]]) -> str:
    """An alert that, through any of these entries, keeps itself back; empty where there is none."""

    def alerts(words: Sequence[str]) -> set[str]:
        return set().union(*(named.get(word, set()) for word in words))

    causes = alerts(start.while_)
    reached = alerts(start.hold)
    for _ in entries:
        reached |= {alert for one in entries if alerts(one.while_) & reached for alert in alerts(one.hold)}
    return ", ".join(sorted(causes & reached))


def _unknown(path: str, words: Sequence[str], known: tuple[str, ...], message: str, noun: str) -> Iterator[Problem]:
    for index, word in enumerate(words):
        if word not in known:
            yield Problem(f"{path}[{index}]", f"{message} '{word}'", did_you_mean(word, known, noun) or "remove it")
