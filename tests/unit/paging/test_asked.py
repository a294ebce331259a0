"""`--page`: what is asked for becomes a route behind the policy's own, and what cannot work is refused before anything starts."""

from __future__ import annotations

import pytest

from sentinel.errors import UsageError
from sentinel.paging.asked import ROUTES_MAX, RUN_URL_VARIABLE, lay_routes, lay_run_url, with_checked_routes
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import load_policy, shipped_policy_path

ENV = {
    "SENTINEL_PAGERDUTY_KEY": "k" * 32,
    "SENTINEL_SLACK_WEBHOOK": "https://hooks.example/x",
    "SENTINEL_WEBHOOK_SECRET": "s" * 20,
}


@pytest.fixture
def policy() -> Policy:
    return load_policy(shipped_policy_path("demo"))


def names(policy: Policy) -> list[str]:
    return [route.name for route in policy.spec.paging.routes]


def test_each_word_is_a_route_behind_the_policys_own(policy: Policy) -> None:
    asked = ["alertmanager=http://am:9093", "pagerduty", "pagerduty=http://pd:1/v2", "webhook=http://x/y?z=1", "slack",
             "command=mail -s 'a page' ada", "terminal"]  # fmt: skip
    routes = lay_routes(policy, asked, ENV).spec.paging.routes
    assert [route.name for route in routes] == [
        "terminal", "alertmanager", "pagerduty", "pagerduty-2", "webhook", "slack", "command",
    ]  # fmt: skip
    by_name = {route.name: route for route in routes}
    assert by_name["pagerduty"].pagerduty.url == "https://events.pagerduty.com/v2/enqueue"  # type: ignore[union-attr]
    assert by_name["pagerduty-2"].pagerduty.url == "http://pd:1/v2"  # type: ignore[union-attr]
    assert by_name["webhook"].webhook.url == "http://x/y?z=1"  # type: ignore[union-attr]
    assert by_name["webhook"].webhook.secret.env == "SENTINEL_WEBHOOK_SECRET"  # type: ignore[union-attr]
    assert by_name["command"].command.run == ("mail", "-s", "a page", "ada")  # type: ignore[union-attr]
    assert names(policy) == ["terminal"], "the policy itself is as it was"


def test_a_webhook_is_signed_only_where_there_is_a_secret(policy: Policy) -> None:
    route = lay_routes(policy, ["webhook=http://x/"], {}).spec.paging.routes[-1]
    assert route.webhook is not None
    assert route.webhook.secret is None


def test_nothing_asked_for_changes_nothing(policy: Policy) -> None:
    assert lay_routes(policy, [], {}) == policy


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("", "--page : is none of terminal, pagerduty[=URL], alertmanager=URL"),
        ("pigeon=coop", "--page pigeon: is none of"),
        ("email=ada@example.org", "written in a policy"),
        ("alertmanager", "write --page alertmanager=URL"),
        ("pagerduty=", "--page pagerduty=: nothing stands behind '='; write pagerduty[=URL]"),
        ("terminal= ", "nothing stands behind '='; write terminal"),
        ("alertmanager=", "write --page alertmanager=URL"),
        ("alertmanager=am:9093", "--page alertmanager: its address is no address; write http://HOST:PORT"),
        ("webhook=https://ada:hunter2@x/", "a secret has a place of its own"),
        ("pagerduty=R0UTINGKEY", "--page pagerduty: its address is no address"),
        ("slack=https://hooks.slack.com/services/T/B/x", "set SENTINEL_SLACK_WEBHOOK and write --page slack"),
        ("terminal=x", "takes no value"),
        ("command=", "write --page 'command=PROGRAM WORDS'"),
        ("command='", "cannot be read"),
        ("webhook=http://x/" + "y" * 3000, "too long"),
    ],
)
def test_what_cannot_be_meant_is_refused_without_repeating_what_may_be_a_secret(policy: Policy, word: str, why: str) -> None:
    with pytest.raises(UsageError) as raised:
        lay_routes(policy, [word], ENV)
    assert why in str(raised.value)
    for secret in ("hunter2", "R0UTINGKEY", "services/T"):
        assert secret not in str(raised.value)


def test_routes_are_bounded(policy: Policy) -> None:
    with pytest.raises(UsageError, match="that is enough"):
        lay_routes(policy, [f"webhook=http://x/{n}" for n in range(ROUTES_MAX)], ENV)


@pytest.mark.parametrize(("word", "name"), [("pagerduty", "SENTINEL_PAGERDUTY_KEY"), ("slack", "SENTINEL_SLACK_WEBHOOK")])
def test_a_secret_that_is_not_there_is_named(policy: Policy, word: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=f"route {word}: the environment variable {name} is not set"):
        with_checked_routes(policy, [word])
    monkeypatch.setenv(name, "https://hooks.example/services/x")
    assert names(with_checked_routes(policy, [word])) == ["terminal", word]


def test_the_page_that_sentinel_serves_is_linked_unless_the_policy_names_another(policy: Policy) -> None:
    laid = lay_run_url(policy, "http://gpu1:9464/", {})
    assert laid.spec.paging.run_url == "http://gpu1:9464/"
    assert lay_run_url(laid, "http://127.0.0.1:9464/", {RUN_URL_VARIABLE: "http://other/"}).spec.paging.run_url == "http://gpu1:9464/"
    assert lay_run_url(policy, "", {}).spec.paging.run_url is None
    assert lay_run_url(policy, "", {RUN_URL_VARIABLE: " "}).spec.paging.run_url is None


def test_what_shows_the_runs_for_good_is_linked_before_what_ends_with_the_run(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = "https://runs.example/"
    assert lay_run_url(policy, "http://127.0.0.1:9464/", {RUN_URL_VARIABLE: stays}).spec.paging.run_url == stays
    monkeypatch.setenv(RUN_URL_VARIABLE, stays)
    assert lay_run_url(policy, "").spec.paging.run_url == stays


@pytest.mark.parametrize("written", ["runs.example", "ftp://runs.example/", "https://runs example/", "https://x/" + "a" * 3000])
def test_an_address_that_is_none_is_refused_before_anything_starts(policy: Policy, written: str) -> None:
    said = f"^{RUN_URL_VARIABLE}=.*is no address; write where `sentinel web` shows this run"
    with pytest.raises(UsageError, match=said) as refused:
        lay_run_url(policy, "", {RUN_URL_VARIABLE: written})
    assert len(str(refused.value)) < 300
