"""`--page alertmanager=URL` and its like: routes asked for on the command line, laid over the policy's own.

What is asked for is a word without a secret, and stands in run.json, so that whoever takes the run up later pages the same
people.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sentinel.channels.opening import check_paging
from sentinel.channels.registry import CHANNELS, Route
from sentinel.errors import UsageError
from sentinel.policy.problems import nearest
from sentinel.policy.schema import Policy
from sentinel.policy.schema_paging import ROUTES_MAX, Paging

RUN_URL_VARIABLE = "SENTINEL_RUN_URL"  # where `sentinel web` shows the runs of this machine, also when they have failed


def lay_routes(policy: Policy, asked: Sequence[str], environ: Mapping[str, str] | None = None) -> Policy:
    """The policy with these routes behind its own. Raises UsageError that names the word and what to write."""
    paging = policy.spec.paging
    for word in asked:
        paging = _with(paging, word, os.environ if environ is None else environ)
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"paging": paging})})


def lay_run_url(policy: Policy, served: str, environ: Mapping[str, str] | None = None) -> Policy:
    """The policy with the address that its pages link to, where it names none: the one of RUN_URL_VARIABLE, else the one that
    this very sentinel serves, `served`. The first comes first because it still answers when the run has failed.

    Raises UsageError: the variable holds no address.
    """
    paging = policy.spec.paging
    url = _url_of(os.environ if environ is None else environ) or served
    if paging.run_url is not None or not url:
        return policy
    with_url = paging.model_copy(update={"run_url": url})
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"paging": with_url})})


def _url_of(environ: Mapping[str, str]) -> str:
    """Empty where it is not set. What could be no link is refused before anything starts, not found out by whoever is woken."""
    url = environ.get(RUN_URL_VARIABLE, "").strip()
    try:
        return Paging(run_url=url).run_url or "" if url else ""
    except ValueError:
        raise UsageError(
            f"{RUN_URL_VARIABLE}={url[:100]}: is no address; write where `sentinel web` shows this run, as in http://127.0.0.1:9464/"
        ) from None


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
    if sign and not value.strip():
        form = CHANNELS[kind].short_form
        assert form is not None, "_settings has refused it"
        raise UsageError(f"--page {word}: nothing stands behind '='; write {form.usage}")
    try:
        route = Route.model_validate({kind: {**settings, "name": _free_name(paging, kind)}})
    except ValueError:
        raise UsageError(f"--page {kind}: its value is too long, or no address; write it shorter, or in a policy") from None
    return paging.model_copy(update={"routes": (*paging.routes, route)})


def _settings(kind: str, value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    short_form = CHANNELS[kind].short_form if kind in CHANNELS else None
    if short_form is None:
        near = nearest(kind, tuple(CHANNELS))
        hint = f"; did you mean '{near}'?" if near is not None and near != kind else ""
        known = ", ".join(row.short_form.usage for row in CHANNELS.values() if row.short_form is not None)
        others = "other channels are written in a policy (spec.paging.routes)"
        raise UsageError(f"--page {kind}: is none of {known}{hint}; {others}")
    try:
        return short_form.settings(value, environ)
    except ValueError as error:
        raise UsageError(f"--page {kind}: {error}") from None


def _free_name(paging: Paging, kind: str) -> str:
    taken = {route.name for route in paging.routes}
    return next(name for name in (kind, *(f"{kind}-{n}" for n in range(2, ROUTES_MAX + 2))) if name not in taken)
