"""A secret is read where it lies when it is needed, refused where others could read it, and comes out nowhere: not of any
channel, whatever the other side answers."""

from __future__ import annotations

import base64
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel.channels.opening import Guarded, check_paging, open_channel
from sentinel.channels.registry import ROWS, Route
from sentinel.channels.secrets import HIDDEN, LEFT_OUT, Vault
from sentinel.errors import GiveUp, RetryLater, SentinelError, UsageError
from sentinel.policy.schema_paging import Paging, Secret
from tests.loopback import HttpServer, Received, Reply, raw_server, smtp_server
from tests.unit.channels.notices import notice

KEY = "k3y-/+=&?\"'-0123456789abcdef"  # every character that some encoding spells otherwise
ENV = {"KEY": KEY}


def test_a_secret_of_the_environment_is_read_each_time() -> None:
    environ = {"KEY": " one \n"}
    vault = Vault(environ)
    assert vault.read(Secret(env="KEY")) == "one"
    environ["KEY"] = "another"
    assert vault.read(Secret(env="KEY")) == "another"
    assert vault.scrub("one and another") == LEFT_OUT  # too short to be cut out of a sentence


def test_a_secret_of_a_file_is_read_each_time_without_white_space_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    vault = Vault({})
    for value in ("first-secret", "second-secret"):
        path.write_text(value + "\n")
        assert vault.read(Secret(file=str(path))) == value
    assert vault.scrub("first-secret, second-secret") == f"{HIDDEN}, {HIDDEN}"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_open_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_text("secret-value")
    path.chmod(mode)
    with pytest.raises(GiveUp, match=f"mode {mode:o}.; chmod 600 {path}") as raised:
        Vault({}).read(Secret(file=str(path)))
    assert "secret-value" not in str(raised.value)


def test_what_is_no_secret_is_refused_with_its_place(tmp_path: Path) -> None:
    fifo, folder, empty = tmp_path / "fifo", tmp_path / "folder", tmp_path / "empty"
    os.mkfifo(fifo, 0o600)
    folder.mkdir()
    empty.touch(0o600)
    for path, why in ((fifo, "regular file"), (folder, "directory"), (empty, "empty"), (tmp_path / "none", "No such file")):
        with pytest.raises(GiveUp, match=why):
            Vault({}).read(Secret(file=str(path)))
    for environ, why in (({}, "KEY is not set"), ({"KEY": " "}, "is empty"), ({"KEY": "two\nlines"}, "one line of plain ASCII"),
        ({"KEY": "pässlines"}, "plain ASCII")):
        with pytest.raises(GiveUp, match=why) as raised:
            Vault(environ).read(Secret(env="KEY"))
        assert "lines" not in str(raised.value)


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=40), st.text(max_size=20))
def test_no_spelling_of_a_secret_passes_the_scrubbing(value: str, around: str) -> None:
    vault = Vault({"KEY": value})
    vault.read(Secret(env="KEY"))
    encoded = base64.b64encode(value.encode()).decode()
    for form in (value, quote_plus(value), repr(value)[1:-1], encoded):
        scrubbed = vault.scrub(f"{around}{form}")
        assert scrubbed == LEFT_OUT or form not in scrubbed.replace(HIDDEN, "")


@pytest.mark.parametrize("spell", [str.lower, str.upper])
def test_a_server_may_write_escapes_in_either_case(spell: Callable[[str], str]) -> None:
    """hooks.slack.com answered with %2f for the %2F of the address."""
    vault = Vault({"KEY": "https://hooks.example/services/T0AAAAAAA/xyz%2Fet1234567"})
    vault.read(Secret(env="KEY"))
    escape = spell("%2F")
    assert "et1234567" not in vault.scrub(f"400: bad https://hooks.example/services/T0AAAAAAA/xyz{escape}et1234567")


def test_the_telling_parts_of_a_secret_address_are_hidden_too() -> None:
    vault = Vault({"KEY": "https://hooks.example/services/T0AAAAAAA/B0BBBBBBB/xyzxyzxyzxyz?token=tttttttttt"})
    vault.read(Secret(env="KEY"))
    said = vault.scrub("POST /services/T0AAAAAAA/B0BBBBBBB/xyzxyzxyzxyz failed for B0BBBBBBB with tttttttttt at hooks.example")
    for part in ("T0AAAAAAA", "B0BBBBBBB", "xyzxyz", "ttttt"):
        assert part not in said
    assert said.endswith("at hooks.example")


def echo(received: Received) -> Reply:
    """The worst server: it answers with all that it was told."""
    told = "\n".join([received.path, *received.headers.values(), received.body.decode("utf-8", "replace")])
    return Reply(400, told[-700:].encode())


@pytest.mark.parametrize("before", range(150, 215, 8))
def test_a_secret_is_not_cut_in_two_where_words_are_cut(before: int) -> None:
    with HttpServer() as server:
        server.always = lambda received: Reply(400, b"x" * before + KEY.encode() + b"y" * 50)
        with pytest.raises(GiveUp) as raised:
            open_channel(Route.model_validate(webhook(server.url)), None, ENV).deliver(notice())
    assert KEY[:4] not in str(raised.value)


@contextmanager
def http_echo(make: Callable[[str], dict[str, Any]], status: int) -> Iterator[tuple[Route, dict[str, str]]]:
    def answer(received: Received) -> Reply:
        return Reply(status, echo(received).body)

    with HttpServer() as server:
        server.always = answer
        address = f"{server.url}/services/{quote_plus(KEY)}"
        environ = {"KEY": KEY, "URL": address, "URLS": address.replace("http://", "json://")}
        yield Route.model_validate(make(server.url)), environ


@contextmanager
def smtp_echo() -> Iterator[tuple[Route, dict[str, str]]]:
    with smtp_server() as box:
        box.says = {"AUTH": "535 wrong: {line}"}
        yield Route.model_validate({"email": mail(box.port)}), ENV


def mail(port: int) -> dict[str, Any]:
    settings = {"to": ("ada@example.org",), "from": "sentinel@example.org", "host": "127.0.0.1", "port": port}
    return {**settings, "starttls": False, "user": "ada", "password": Secret(env="KEY")}


@contextmanager
def broken_echo(make: Callable[[str], dict[str, Any]]) -> Iterator[tuple[Route, dict[str, str]]]:
    def talk(connection: Any, over: object) -> None:
        connection.sendall(b"HTTP/1.1 " + connection.recv(65536).replace(b"\r\n", b" ") + b"\r\n\r\n")

    with raw_server(talk) as host:
        yield Route.model_validate(make(f"http://{host}")), {"KEY": KEY, "URL": f"http://{host}/services/{quote_plus(KEY)}"}


def pagerduty(url: str) -> dict[str, Any]:
    return {"pagerduty": {"routing_key": Secret(env="KEY"), "url": url}}


def alertmanager(url: str) -> dict[str, Any]:
    return {"alertmanager": {"url": url, "token": Secret(env="KEY")}}


def slack(url: str) -> dict[str, Any]:
    return {"slack": {"webhook": Secret(env="URL")}}


def slack_bot(url: str) -> dict[str, Any]:
    return {"slack": {"token": Secret(env="KEY"), "channel": "C024BE91L", "signing_secret": Secret(env="KEY"), "url": url}}


def teams(url: str) -> dict[str, Any]:
    return {"teams": {"webhook": Secret(env="URL")}}


def webhook(url: str) -> dict[str, Any]:
    return {"webhook": {"url": url, "secret": Secret(env="KEY")}}


def apprise(url: str) -> dict[str, Any]:
    return {"apprise": {"urls": Secret(env="URLS")}}


HTTP = (pagerduty, alertmanager, slack, slack_bot, teams, webhook)
WORLDS = {f"{make.__name__} {status}": (lambda m=make, s=status: http_echo(m, s)) for make in HTTP for status in (400, 503, 200)}
WORLDS |= {f"{make.__name__} broken": (lambda m=make: broken_echo(m)) for make in HTTP}
WORLDS |= {"email": smtp_echo, "apprise": lambda: http_echo(apprise, 400)}


def test_every_channel_that_has_a_secret_is_tried() -> None:
    tried = {"email", "apprise", *(make.__name__ for make in HTTP)}
    secret = {row.kind for row in ROWS if any("Secret" in str(field.annotation) for field in row.settings.model_fields.values())}
    assert secret <= tried, f"{sorted(secret - tried)}: add a function with a route of it to HTTP"


def all_words(error: BaseException) -> str:
    """What a journal, a log or a traceback could ever show of it."""
    chain = [error, *(e for e in (error.__cause__, error.__context__) if e is not None)]
    return "\n".join([*map(str, chain), *map(repr, chain), *traceback.format_exception(error)])



@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_no_channel_ever_says_its_secret(world: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with world() as (route, environ):
        channel, said = open_channel(route, None, environ), ""
        for stage in ("trigger", "resolve"):
            try:
                said += channel.deliver(notice(stage))
            except SentinelError as error:
                said += all_words(error)
    assert said
    said += "".join(capfd.readouterr()) + repr(channel) + repr(route)
    for form in (KEY[:8], quote_plus(KEY)[:12], base64.b64encode(KEY.encode()).decode()[:12]):
        assert form not in said, "not even its beginning, where words are cut"


def test_a_bug_in_a_channel_is_told_without_what_it_had_read() -> None:
    class Broken:
        def __init__(self, vault: Vault) -> None:
            self.vault = vault

        def deliver(self, told: object) -> str:
            raise ZeroDivisionError(self.vault.read(Secret(env="KEY")))

    vault = Vault(ENV)
    with pytest.raises(GiveUp, match="internal error: ZeroDivisionError") as raised:
        Guarded(Broken(vault), vault).deliver(notice())
    assert KEY not in all_words(raised.value)


def test_what_is_missing_is_refused_before_anything_starts_route_by_route() -> None:
    routes = [
        {"pagerduty": {"routing_key": {"env": "NO_KEY"}}},
        {"slack": {"webhook": {"file": "/nowhere/hook"}}},
        {"command": {"run": ["no-such-program-here"]}},
        {"webhook": {"url": "https://a:b@host/x"}},
        {"terminal": {}},
    ]
    paging = Paging.model_validate({"routes": routes, "dead_man": {"url": {"env": "NO_ADDRESS"}}})
    with pytest.raises(UsageError) as raised:
        check_paging(paging, {})
    for words in ("pagerduty: the environment variable NO_KEY", "slack: /nowhere/hook", "command: no-such-program-here",
                  "webhook: its url holds a user or a password", "dead_man: the environment variable NO_ADDRESS"):  # fmt: skip
        assert words in str(raised.value)
    assert "terminal" not in str(raised.value)


def test_a_file_that_cannot_be_read_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*words: object) -> int:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(RetryLater, match="Stale file handle"):
        Vault({}).read(Secret(file="/mnt/key"))
