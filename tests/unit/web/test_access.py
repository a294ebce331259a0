"""Who may read and act: tokens, hosts, origins, and what wrong tokens cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel.errors import UsageError
from sentinel.web.access import ADDRESSES_KEPT, WRONG_MAX, WRONG_S, Access, read_token
from sentinel.web.answers import RefusedRequest, Request
from tests.fakes import ManualClock
from tests.unit.web.web_kit import TOKEN


def access(token: str = TOKEN, is_loopback: bool = True, clock: ManualClock | None = None) -> Access:
    return Access(token, is_loopback, ("train-7",), clock or ManualClock())


def asking(peer: str = "127.0.0.1", **headers: str) -> Request:
    said = {f"HTTP_{name.upper()}": value for name, value in {"host": "localhost:9464", **headers}.items()}
    return Request("POST", (), {}, said | {"CONTENT_TYPE": "application/json"}, peer)


def status_of(check: object, request: Request) -> int:
    try:
        check(request)  # type: ignore[operator]
    except RefusedRequest as refused:
        return refused.status
    return 200


def test_the_token_comes_from_the_environment_and_is_not_left_there() -> None:
    environ = {"SENTINEL_TOKEN": TOKEN, "PATH": "/bin"}
    assert read_token(None, environ) == TOKEN
    assert environ == {"PATH": "/bin"}
    assert read_token(None, {}) == ""


def test_the_token_comes_from_a_file_that_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert read_token(file, {"SENTINEL_TOKEN": "another-one-of-the-environment"}) == TOKEN
    for mode in (0o640, 0o604, 0o644):
        file.chmod(mode)
        with pytest.raises(UsageError, match="chmod 600"):
            read_token(file, {})
    for other in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match=f"--token-file {other}"):
            read_token(other, {})


@pytest.mark.parametrize(
    "token", ["short", "with space in it, and long", "ümlaute-sind-kein-token", "x" * 513, "a\tb-0123456789abcdef"]
)
def test_what_is_no_token_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(UsageError, match="openssl rand") as caught:
        read_token(None, {"SENTINEL_TOKEN": token})
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, "Bearer ü"]
)
def test_only_the_very_token_acts(shown: str) -> None:
    assert status_of(access().check_acting, asking(authorization=shown)) == 401
    assert status_of(access().check_acting, asking(authorization=f"Bearer {TOKEN}")) == 200
    assert status_of(access().check_acting, asking(authorization=f"bearer  {TOKEN} ")) == 200


def test_without_a_token_nobody_acts_whatever_they_show() -> None:
    for shown in ("", "Bearer ", "Bearer x"):
        assert status_of(access("").check_acting, asking(authorization=shown)) == 403


def test_reading_is_open_on_this_machine_and_takes_the_token_elsewhere() -> None:
    assert status_of(access(is_loopback=True).check_reading, asking()) == 200
    assert status_of(access(is_loopback=False).check_reading, asking()) == 401
    assert status_of(access(is_loopback=False).check_reading, asking(authorization=f"Bearer {TOKEN}")) == 200


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost:9464", True), ("LOCALHOST", True), ("127.0.0.1:1", True), ("[::1]:9464", True), ("train-7:9464", True),
        ("evil.example:9464", False), ("127.0.0.1.evil.example", False), ("", False), ("[::", False), ("localhost.", False),
        ("evil.example@localhost:9464", False),
    ],
)  # fmt: skip
def test_a_name_that_came_from_elsewhere_is_not_answered_to(host: str, is_known: bool) -> None:
    assert (status_of(access().check_host, asking(host=host)) == 200) is is_known
    assert status_of(access(is_loopback=False).check_host, asking(host=host)) == 200, "there nobody reads without the token"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:9465"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_a_page_of_another_site_gets_nothing_done_even_with_the_token(headers: dict[str, str]) -> None:
    assert status_of(access().check_acting, asking(authorization=f"Bearer {TOKEN}", **headers)) == 403


def test_this_sites_own_page_acts() -> None:
    own = {"origin": "http://localhost:9464", "sec_fetch_site": "same-origin"}
    assert status_of(access().check_acting, asking(authorization=f"Bearer {TOKEN}", **own)) == 200


def test_a_form_of_another_site_cannot_pass_for_json() -> None:
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"):
        request = asking(authorization=f"Bearer {TOKEN}")
        assert status_of(access().check_acting, Request("POST", (), {}, {**request.headers, "CONTENT_TYPE": kind}, "x")) == 415


def test_who_guesses_waits_and_the_right_token_is_let_in_from_there_all_the_same() -> None:
    clock = ManualClock()
    gate = access(clock=clock)
    wrong, right = "Bearer guess", f"Bearer {TOKEN}"
    for _ in range(WRONG_MAX):
        assert status_of(gate.check_acting, asking("10.0.0.9", authorization=wrong)) == 401
    for _ in range(3):
        assert status_of(gate.check_acting, asking("10.0.0.9", authorization=wrong)) == 429
        assert status_of(gate.check_acting, asking("10.0.0.9", authorization=right)) == 200
        assert status_of(gate.check_acting, asking("10.0.0.9")) == 401
    assert status_of(gate.check_acting, asking("10.0.0.8", authorization=wrong)) == 401
    clock.advance(WRONG_S)
    assert status_of(gate.check_acting, asking("10.0.0.9", authorization=wrong)) == 401


def test_showing_no_token_is_not_guessing() -> None:
    gate = access()
    for _ in range(3 * WRONG_MAX):
        assert status_of(gate.check_acting, asking()) == 401


def test_guessers_from_everywhere_fill_no_memory() -> None:
    gate = access()
    for number in range(3 * ADDRESSES_KEPT):
        status_of(gate.check_acting, asking(f"10.0.{number // 256}.{number % 256}", authorization="Bearer guess"))
    assert len(gate._wrong) <= ADDRESSES_KEPT
