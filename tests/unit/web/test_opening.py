"""A site is opened before anything starts: what was asked for must be had, and what nobody asked for may be missing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentinel.cli.root import app
from sentinel.errors import UsageError
from sentinel.web import address as address_module
from sentinel.web import opening
from sentinel.web.address import Address, bind
from sentinel.web.opening import Listen, NoSite, OpenSite, open_for_run, open_site
from sentinel.web.runs import Runs
from tests.unit.web.web_kit import TOKEN, write_told


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SENTINEL_TOKEN", raising=False)


def test_off_is_nothing_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for listen in (None, Listen("off")):
        with closing(open_for_run(listen, tmp_path)) as site:
            site.start()
            assert isinstance(site, NoSite)
    assert capsys.readouterr() == ("", "")


def test_the_token_is_taken_out_of_the_environment_even_where_nothing_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_TOKEN", TOKEN)
    open_for_run(None, tmp_path)
    assert "SENTINEL_TOKEN" not in os.environ


def test_the_usual_address_is_a_wish_and_one_that_was_named_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(bind(Address("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(opening, "Address", lambda *args: Address(*(args or ("127.0.0.1", port))))
        with closing(open_for_run(Listen(), tmp_path)) as site:
            assert isinstance(site, NoSite)
            assert capsys.readouterr() == ("", ""), "said when the run begins: it may be refused for another reason"
            site.start()
            site.start()
            said = capsys.readouterr().err
            assert said.count("\n") == 1
            assert f"127.0.0.1:{port}: another program listens there already" in said
        with pytest.raises(UsageError, match="another program listens there"):
            open_for_run(Listen(str(port)), tmp_path)
    assert address_module.DEFAULT_PORT == 9464


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_other_machines_are_not_let_in_without_a_token(tmp_path: Path, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"needs a token: set SENTINEL_TOKEN or give --token-file|is no address of this machine"):
        open_for_run(Listen(f"{host}:0"), tmp_path)
    monkeypatch.setenv("SENTINEL_TOKEN", TOKEN)
    if host == "0.0.0.0":
        with closing(open_for_run(Listen(f"{host}:0"), tmp_path)) as site:
            assert isinstance(site, OpenSite)
            assert site.can_act


def test_the_address_is_said_once_and_the_token_never(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(open_site(Address("localhost", 0), TOKEN, Runs([tmp_path]))) as site:
        site.start()
        site.start()
        assert urllib.request.urlopen(f"{site.url}healthz", timeout=20).read() == b"ok\n"
        site.close()
    said = capsys.readouterr()
    assert said == ("", f"page: {site.url}\n")
    assert site.link == site.url


def test_a_page_on_every_address_is_linked_by_the_machines_name() -> None:
    with closing(open_site(Address("0.0.0.0", 0), "t" * 24, Runs([]))) as site:
        assert site.link == f"http://{socket.gethostname()}:{site.url.rpartition(':')[2]}"
    assert NoSite().link == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["no-such-directory"], "there is no such directory"),
        (["x" * 300], "cannot be read: File name too long"),
        ([".", "--listen", "nowhere"], "write PORT, HOST:PORT or off"),
        ([".", "--listen", "off"], "nothing to do"),
        ([".", "--listen", "0.0.0.0:0"], "needs a token"),
        ([".", "--token-file", "no-such-file", "--listen", "0"], "cannot be read"),
        ([".", "--listen", "203.0.113.9:0"], "no address of this machine|cannot be listened on"),
        ([".", "--listen", "a..b:0"], "a..b is no address of this machine"),
    ],
)
def test_what_cannot_be_served_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], why: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["web", *words])
    assert isinstance(done.exception, UsageError)
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(str(done.exception))


def test_run_and_demo_refuse_a_bad_address_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (
        ["run", "--listen", "0.0.0.0:0", "--", "true"],
        ["demo", "--listen", "x"],
        ["run", "--token-file", "x", "--", "true"],
    ):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, UsageError), words
    assert list(tmp_path.iterdir()) == []


def test_sentinel_web_shows_a_run_that_is_over_until_it_is_interrupted(tmp_path: Path) -> None:
    write_told(tmp_path)
    words = [sys.executable, "-m", "sentinel", "web", str(tmp_path), "--listen", "0"]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        said = child.stderr.readline()
        assert said.startswith("page: http://127.0.0.1:")
        answer = urllib.request.urlopen(f"{said.split()[1]}api/runs/demo", timeout=20).read()
        assert b'"state":"finished"' in answer
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0
        assert child.stderr.read() == ""
    finally:
        child.kill()
        child.wait(20)
        child.stderr.close()  # type: ignore[union-attr]
