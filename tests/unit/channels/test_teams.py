"""Teams gets a card that shows the stage, that Teams can take, and that nothing a run wrote can turn into anything but text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.channels.opening import Guarded, open_channel
from sentinel.channels.registry import CHANNELS, Route
from sentinel.channels.teams import MESSAGE_BYTES_MAX, REST, build_message, message_bytes
from sentinel.errors import GiveUp, PolicyError, RetryLater, UsageError
from sentinel.paging.asked import lay_routes, with_checked_routes
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from tests.loopback import HttpServer, Reply
from tests.unit.channels.notices import TEXT, notice
from tests.unit.cli.test_page_test import sent
from tests.unit.policy.policies_in_words import GOOD

PATH = "/powerautomate/automations/direct/workflows/b950a56150be4c05b3ace20939dcfd32/triggers/manual/paths/invoke"
SIGNATURE = "tFs9LpcdsN1pG3OGt8lUzSvoT9b3kU9ttXVmxiETPXE"
QUERY = f"?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={SIGNATURE}"
ROUTE = {"teams": {"webhook": {"env": "URL"}}}
KNOWN_KEYS = {  # of Adaptive Cards 1.2, as far as they are used
    "AdaptiveCard": {"$schema", "type", "version", "body", "actions", "msteams"},
    "Container": {"type", "items", "style", "bleed"},
    "RichTextBlock": {"type", "inlines"},
    "TextRun": {"type", "text", "weight", "fontType"},
    "Action.OpenUrl": {"type", "title", "url"},
}


def teams(url: str) -> Guarded:
    return open_channel(Route.model_validate(ROUTE), None, {"URL": url + PATH + QUERY})


def card_of(message: Mapping[str, Any]) -> dict[str, Any]:
    (attachment,) = message["attachments"]
    assert (message["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    card: dict[str, Any] = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.2")
    check_elements(card)
    return card


def check_elements(value: Any) -> None:
    """Every element is a known one with known keys: no TextBlock, no entities, no action but a link."""
    if isinstance(value, list):
        for one in value:
            check_elements(one)
    elif isinstance(value, dict) and "type" in value:
        assert value.keys() <= KNOWN_KEYS[value["type"]], value
        for one in value.values():
            check_elements(one)


def shown(card: Mapping[str, Any]) -> tuple[str, str, str]:
    """Style, title and text."""
    heading, block = card["body"]
    (title,), (text,) = heading["items"][0]["inlines"], block["inlines"]
    assert text["fontType"] == "Monospace"
    return heading["style"], title["text"], text["text"]


def test_each_stage_is_a_card_of_its_colour() -> None:
    with HttpServer() as server:
        server.always = lambda received: Reply(202, b"")
        stages = ("trigger", "update", "acknowledge", "resolve", "message")
        assert {teams(server.url).deliver(notice(stage)) for stage in stages} == {"accepted (202)"}  # type: ignore[arg-type]
        requests = server.all()
    assert {request.path for request in requests} == {PATH + QUERY}
    assert {request.headers["Content-Type"] for request in requests} == {"application/json"}
    cards = [shown(card_of(request.json)) for request in requests]
    assert [card[0] for card in cards] == ["attention", "attention", "accent", "good", "good"]
    assert [card[1] for card in cards] == [
        "PAGE (critical) gpt-7: spike since step 71",
        "PAGE (critical) Changed: gpt-7: spike since step 71",
        "Seen by ada@desk: gpt-7: spike since step 71",
        "Resolved by ada@desk: gpt-7: spike since step 71",
        "Repaired: gpt-7: spike since step 71",
    ]
    assert {card[2] for card in cards} == {TEXT}


@pytest.mark.parametrize(("severity", "style"), [("critical", "attention"), ("warning", "warning"), ("info", "accent")])
def test_a_call_has_the_colour_of_its_severity(severity: Any, style: str) -> None:
    assert shown(card_of(build_message(notice(severity=severity))))[0] == style


def test_a_workflow_that_answers_at_once_has_taken_it_too() -> None:
    with HttpServer() as server:
        assert teams(server.url).deliver(notice()) == "accepted (200)"


def test_only_what_can_be_followed_from_elsewhere_is_a_button() -> None:
    links = {
        "runbook": "https://book.example/RUNBOOK.md#spike", "page": "http://gpu1:9464/", "here": "http://127.0.0.1:9464/",
        "file": "/runs/gpt-7/report.html", "script": "javascript:alert(1)", "long": "https://x/" + "y" * 1500,
    }  # fmt: skip
    actions = card_of(build_message(notice(links=links)))["actions"]
    assert [(action["title"], action["url"]) for action in actions] == [
        ("runbook", "https://book.example/RUNBOOK.md#spike"), ("page", "http://gpu1:9464/"),
    ]  # fmt: skip
    many = {f"link {n}": f"https://x/{n}" for n in range(9)}
    assert len(card_of(build_message(notice(links=many)))["actions"]) == 6


@pytest.mark.parametrize(
    "evil",
    [
        "**bold** _it_ [click](https://evil.example) <at>Everyone</at>", "# head\n- item\r- item", "![x](https://evil.example/x.png)",
        '"}]},{"type":"Image","url":"https://evil.example/x.png"}', "${$root} @{triggerBody()}",
    ],
)  # fmt: skip
def test_what_a_run_wrote_stays_text(evil: str) -> None:
    message = build_message(notice(text=evil, title=evil.replace("\n", " ").replace("\r", " ")))
    _, title, text = shown(card_of(json.loads(json.dumps(message))))
    assert text == evil
    assert title.startswith("PAGE (critical) ")
    assert "entities" not in json.dumps(message)


@pytest.mark.parametrize("braces", ["{{", "{{{", "{{{{"])
def test_what_a_run_wrote_becomes_no_date(braces: str) -> None:
    _, _, text = shown(card_of(build_message(notice(text=f"{braces}DATE(2026-11-18T11:06:40Z, SHORT)}}}}"))))
    assert "{{" not in text
    assert text.replace(" ", "") == f"{braces}DATE(2026-11-18T11:06:40Z,SHORT)}}}}"


@pytest.mark.parametrize(
    "line", ["loss 8.6 over 2.2 at step 379, and more of it", "▁▂▇" * 20, '"quoted" and \\ back', "🔥" * 30, "{" * 60]
)
def test_a_case_of_100_kb_is_cut_between_lines_and_says_where_the_rest_is(line: str) -> None:
    lines = [f"{n} {line}" for n in range(100_000 // len(line.encode()))]
    message = build_message(notice(text="\n".join(lines)))
    *first, last = shown(card_of(message))[2].replace("{ ", "{").split("\n")
    assert last == REST == "… (the report has the rest)"
    assert first == lines[: len(first)]
    assert MESSAGE_BYTES_MAX - 1500 < message_bytes(message) <= MESSAGE_BYTES_MAX
    assert len(json.dumps(message)) < 24_453, "of a body of that size a workflow was seen to make too long a message"


def test_a_case_of_one_line_is_cut_within_it() -> None:
    text = shown(card_of(build_message(notice(text="a short line\n" + "x" * 100_000))))[2]
    assert len(text) > 20_000
    assert text.endswith(f"x\n{REST}")


def test_a_case_of_the_longest_that_sentinel_writes_is_whole() -> None:
    text = "\n".join("y" * 93 for _ in range(170))
    assert shown(card_of(build_message(notice(text=text))))[2] == text


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.integers(0, 400), st.text(max_size=300), st.lists(st.text(max_size=400), max_size=8))
def test_no_notice_is_more_than_teams_takes(piece: str, times: int, title: str, paths: list[str]) -> None:
    links = {f"link {n}": f"https://x/{path}" for n, path in enumerate(paths)}
    message = build_message(notice(text=piece * times, title=title, links=links))
    card_of(message)
    assert message_bytes(message) <= MESSAGE_BYTES_MAX


def test_a_title_and_links_as_long_as_can_be_leave_room_for_the_case() -> None:
    links = {f"{n}": 'https://x/"\\' + "ö" * 160 for n in range(6)}
    message = build_message(notice(title="🔥" * 300, text="🔥" * 16_000, links=links))
    assert message_bytes(message) <= MESSAGE_BYTES_MAX
    assert shown(card_of(message))[2].count("🔥") > 100


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (400, 'the workflow cannot read the card; it must begin with "When a Teams webhook request is received"'),
        (401, "the URL's signature (sig=) is wrong, or the trigger is not open to anyone who has the URL; copy its URL"),
        (403, "the URL's signature (sig=) is wrong, or the trigger is not open to anyone who has the URL; copy its URL"),
        (404, "the workflow was deleted or turned off, or its URL has changed; copy its URL from the Workflows app"),
        (410, "the workflow was deleted or turned off, or its URL has changed; copy its URL from the Workflows app"),
        (413, "answered 413"),
    ],
)
def test_a_refusal_is_final_and_says_what_to_check(status: int, why: str) -> None:
    with HttpServer() as server:
        server.always = lambda received: Reply(status, f'{{"error":"not {received.path}"}}'.encode())
        with pytest.raises(GiveUp) as raised:
            teams(server.url).deliver(notice())
    words = str(raised.value)
    assert words.startswith(f"Teams answered {status}: ")
    assert why in words
    for secret in (SIGNATURE, SIGNATURE[:8], "b950a56150be4c05"):
        assert secret not in words, "the whole address is the key"


@pytest.mark.parametrize(("status", "headers", "retry_in_s"), [(429, {"Retry-After": "11"}, 11), (500, {}, 5), (503, {}, 5)])
def test_what_may_pass_is_tried_again_when_teams_says(status: int, headers: dict[str, str], retry_in_s: float) -> None:
    with HttpServer() as server:
        server.always = lambda received: Reply(status, received.path.encode(), headers)
        with pytest.raises(RetryLater, match=f"^Teams answered {status}: ") as raised:
            teams(server.url).deliver(notice())
    assert raised.value.retry_in_s == retry_in_s
    assert SIGNATURE[:8] not in str(raised.value)


def test_an_address_that_is_none_is_not_repeated() -> None:
    with pytest.raises(GiveUp, match="Teams: its address is no address") as raised:
        open_channel(Route.model_validate(ROUTE), None, {"URL": f"prod-1.logic.azure.com/x?sig={SIGNATURE}"}).deliver(notice())
    assert SIGNATURE not in str(raised.value)


@pytest.mark.parametrize(
    ("route", "printed"),
    [
        (
            "teams: {webook: {env: HOOK}}",
            """\
x.yaml:7:17: spec.paging.routes[0].teams.webook: unknown key 'webook'
        - teams: {webook: {env: HOOK}}
                  ^
  remedy: did you mean 'webhook'? known here: name, after, severity, messages, webhook""",
        ),
        (
            "teams: {}",
            """\
x.yaml:7:9: spec.paging.routes[0].teams.webhook: 'webhook' is missing
        - teams: {}
          ^
  remedy: add 'webhook:' here""",
        ),
        (
            "teams: {webhook: 'https://x/?sig=1'}",
            """\
x.yaml:7:17: spec.paging.routes[0].teams.webhook: a secret never stands in a policy itself
        - teams: {webhook: …
                  ^
  remedy: write where it lies: {env: NAME} or {file: PATH}""",
        ),
        (
            "team: {webhook: {env: HOOK}}",
            """\
x.yaml:7:9: spec.paging.routes[0]: team is no channel
        - team: {webhook: {env: HOOK}}
          ^
  remedy: did you mean 'teams'? write one of terminal, pagerduty,""",
        ),
    ],
)
def test_a_mistake_in_a_policy_is_shown_where_it_stands(
    route: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text(GOOD.replace("spec:\n", f"spec:\n  paging:\n    routes:\n      - {route}\n", 1))
    with pytest.raises(PolicyError) as raised:
        load_policy("x.yaml")
    assert str(raised.value).startswith(printed)


def test_the_command_line_asks_for_it_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load_policy(shipped_policy_path("demo"))
    monkeypatch.delenv("SENTINEL_TEAMS_WEBHOOK", raising=False)
    with pytest.raises(UsageError, match="route teams: the environment variable SENTINEL_TEAMS_WEBHOOK is not set"):
        with_checked_routes(policy, ["teams"])
    with pytest.raises(UsageError, match=r"--page teams: .*set SENTINEL_TEAMS_WEBHOOK and write --page teams$") as raised:
        lay_routes(policy, [f"teams=https://x/?sig={SIGNATURE}"], {})
    assert SIGNATURE not in str(raised.value)
    assert [route.kind for route in lay_routes(policy, ["teams"], {}).spec.paging.routes] == ["terminal", "teams"]


def test_a_test_page_arrives_and_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpServer() as server:
        server.always = lambda received: Reply(202, b"")
        monkeypatch.setenv("SENTINEL_TEAMS_WEBHOOK", server.url + PATH + QUERY)
        assert sent("--page", "teams", "--route", "teams")[:2] == (0, "teams: trigger: accepted (202); resolve: accepted (202)\n")
        styles = [shown(card_of(request.json))[0] for request in server.all()]
    assert styles[1] == "good"


def test_a_second_call_is_no_trouble_while_the_first_is_open() -> None:
    assert not CHANNELS["teams"].closes_first
