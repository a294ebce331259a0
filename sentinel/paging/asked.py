"""`--page alertmanager=URL` and its like: routes asked for on the command line, laid over the policy's own.

What is asked for is a word without a secret, and stands in run.json, so that whoever takes the run up later pages the same
people.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sentinel.errors import UsageError
from sentinel.paging.channels import check_paging
from sentinel.paging.http_call import check_url
from sentinel.policy.schema import Policy
from sentinel.policy.schema_paging import ROUTES_MAX, Paging, Route, Secret

PAGERDUTY_KEY, WEBHOOK_SECRET, SLACK_WEBHOOK = "SENTINEL_PAGERDUTY_KEY", "SENTINEL_WEBHOOK_SECRET", "SENTINEL_SLACK_WEBHOOK"
KINDS = ("alertmanager=URL", "pagerduty[=URL]", "webhook=URL", "slack", "'command=PROGRAM WORDS'", "terminal")


def lay_routes(policy: Policy, asked: Sequence[str], environ: Mapping[str, str] | None = None) -> Policy:
    """The policy with these routes behind its own. Raises UsageError that names the word and what to write."""
    paging = policy.spec.paging
    for word in asked:
        paging = _with(paging, word, os.environ if environ is None else environ)
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"paging": paging})})


def lay_run_url(policy: Policy, url: str) -> Policy:
    """The policy with the address of the page that this very sentinel serves, where it names none and there is one."""
    paging = policy.spec.paging
    if paging.run_url is not None or not url:
        return policy
    told = paging.model_copy(update={"run_url": url})
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"paging": told})})


def with_checked_routes(policy: Policy, asked: Sequence[str]) -> Policy:
    """The same, for whoever is about to start: a page that could never go out is refused now. Raises UsageError."""
    laid = lay_routes(policy, asked)
    check_paging(laid.spec.paging)
    return laid


def _with(paging: Paging, word: str, environ: Mapping[str, str]) -> Paging:
    kind, sign, value = word.partition("=")
    if word == "terminal" and any(route.kind == "terminal" for route in paging.routes):
        return paging
    if len(paging.routes) >= ROUTES_MAX:
        raise UsageError(f"--page {kind}: there are {len(paging.routes)} routes already, and that is enough")
    settings = _settings(kind, value.strip() if sign else "", environ)
    try:
        route = Route.model_validate({kind: {**settings, "name": _free_name(paging, kind)}})
    except ValueError:
        raise UsageError(f"--page {kind}: its value is too long, or no address; write it shorter, or in a policy") from None
    return paging.model_copy(update={"routes": (*paging.routes, route)})


def _settings(kind: str, value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    match kind:
        case "alertmanager" | "webhook" if not value:
            raise UsageError(f"--page {kind}: says not where; write --page {kind}=URL")
        case "terminal" | "slack" if value:
            raise UsageError(f"--page {kind}: takes no value here{_where(kind)}")
        case "command" if not value:
            raise UsageError("--page command: says not which; write --page 'command=PROGRAM WORDS'")
        case "pagerduty" | "alertmanager" | "webhook" if value and (wrong := check_url(value)):
            raise UsageError(f"--page {kind}: its address {wrong}")
        case "terminal":
            return {}
        case "alertmanager":
            return {"url": value}
        case "pagerduty":
            return {"routing_key": Secret(env=PAGERDUTY_KEY)} | ({"url": value} if value else {})
        case "webhook":
            return {"url": value} | ({"secret": Secret(env=WEBHOOK_SECRET)} if WEBHOOK_SECRET in environ else {})
        case "slack":
            return {"webhook": Secret(env=SLACK_WEBHOOK)}
        case "command":
            return {"run": _words(value)}
    raise UsageError(f"--page {kind}: is none of {', '.join(KINDS)}; other channels are written in a policy (spec.paging.routes)")


def _words(value: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(value))
    except ValueError as error:
        raise UsageError(f"--page command: cannot be read: {error}; write it as for a shell") from None
    if not words:
        raise UsageError("--page command: says not which; write --page 'command=PROGRAM WORDS'")
    return words


def _where(kind: str) -> str:
    return f"; the address is a secret: set {SLACK_WEBHOOK} and write --page slack" if kind == "slack" else ""


def _free_name(paging: Paging, kind: str) -> str:
    taken = {route.name for route in paging.routes}
    return next(name for name in (kind, *(f"{kind}-{n}" for n in range(2, ROUTES_MAX + 2))) if name not in taken)
