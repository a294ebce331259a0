"""One call has an end, whatever the other side does, and its words hold no secret."""

from __future__ import annotations

import http.client
import shutil
import socket
import threading
from pathlib import Path

import pytest

from sentinel.channels import http_call
from sentinel.channels.http_call import ANSWER_BYTES_MAX, HttpRequest, check_url, retry_after_s, send
from sentinel.errors import GiveUp, PerhapsDelivered, RetryLater
from tests.loopback import HttpServer, Reply, drip, make_certificate, raw_server

SHORT_S = 0.4
OK = b"HTTP/1.1 200 OK\r\n"
openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate, and is not there")


def post(url: str, within_s: float = 10.0) -> http_call.HttpResponse:
    return send(HttpRequest("the server", url, b'{"a":1}', {"X-Mark": "m"}, within_s=within_s))


def test_what_is_posted_arrives_and_the_answer_comes_back() -> None:
    with HttpServer() as server:
        server.replies = [Reply(202, b'{"status":"success"}')]
        assert post(f"{server.url}/v2/enqueue?x=1") == http_call.HttpResponse(202, b'{"status":"success"}')
        got = server.next()
    assert (got.method, got.path, got.body) == ("POST", "/v2/enqueue?x=1", b'{"a":1}')
    assert (got.headers["X-Mark"], got.headers["Content-Type"]) == ("m", "application/json")


@pytest.mark.parametrize(
    ("status", "kind"), [(429, RetryLater), (500, RetryLater), (503, RetryLater), (408, RetryLater), (400, GiveUp), (404, GiveUp)]
)
def test_a_busy_server_is_asked_again_and_a_refusal_is_final(status: int, kind: type[Exception]) -> None:
    with HttpServer() as server:
        server.replies = [Reply(status, b'{"errors":["key is\n\x1b[31mwrong"]}')]
        with pytest.raises(kind, match=f"the server answered {status}: ") as raised:
            post(server.url)
    assert str(raised.value).isprintable()
    assert "key is" in str(raised.value)


@pytest.mark.parametrize(
    ("status", "kind", "end"), [(404, GiveUp, "404: gone; look"), (400, GiveUp, "400: gone"), (503, RetryLater, "503: gone")]
)
def test_a_refusal_says_what_to_check_and_what_may_pass_does_not(status: int, kind: type[Exception], end: str) -> None:
    with HttpServer() as server:
        server.replies = [Reply(status, b"gone")]
        with pytest.raises(kind) as raised:
            http_call.send(http_call.HttpRequest("it", server.url, b"{}", remedies={404: "look", 503: "never said"}))
    assert str(raised.value).endswith(end)


def test_the_time_a_server_asks_for_is_given_to_it() -> None:
    with HttpServer() as server:
        server.replies = [Reply(429, b"", {"Retry-After": "7"})]
        with pytest.raises(RetryLater) as raised:
            post(server.url)
    assert raised.value.retry_in_s == 7


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0), (" 7 ", 7.0), ("0", 1.0), ("99999999999999999999", 300.0), ("Wed, 18 Nov 2026 11:07:10 GMT", 30.0),
        ("Wed, 18 Nov 2026 11:00:00 GMT", 1.0), ("Thu, 18 Nov 2027 11:00:00 GMT", 300.0), ("soon", None), ("-3", None),
        ("", None), (None, None), ("Wed, 99 Nov 2026 11:07:10 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_read_in_both_forms_and_capped(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, 1_795_000_000.0) == seconds


def test_a_redirect_is_refused_and_not_followed() -> None:
    with HttpServer() as elsewhere, HttpServer() as server:
        server.replies = [Reply(307, b"", {"Location": f"{elsewhere.url}/TOKEN"})]
        with pytest.raises(GiveUp, match="a page follows no one") as raised:
            post(server.url)
        assert elsewhere.all() == []
    assert "TOKEN" not in str(raised.value)


def test_a_server_that_hangs_is_given_up_in_time() -> None:
    with HttpServer() as server:
        server.hold()
        with pytest.raises(PerhapsDelivered, match=r"no answer within 0\.4 s"):
            post(server.url, SHORT_S)


def test_what_was_surely_not_taken_is_no_perhaps(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(connection: http.client.HTTPConnection) -> None:
        raise TimeoutError

    with HttpServer() as server:
        server.replies = [Reply(503)]
        with pytest.raises(RetryLater) as busy:
            post(server.url)
        monkeypatch.setattr(http.client.HTTPConnection, "connect", never)
        with pytest.raises(RetryLater, match="no answer within") as unreached:
            post(server.url)
    assert not any(isinstance(raised.value, PerhapsDelivered) for raised in (busy, unreached))


@pytest.mark.parametrize(
    ("start", "piece"),
    [(b"", b"H"), (OK + b"X-A: ", b"a"), (OK + b"\r\n", b"x"), (OK, b"X-A: b\r\n")],
    ids=["status", "header", "body", "headers"],
)
def test_a_server_that_drips_is_given_up_in_time(start: bytes, piece: bytes) -> None:
    """A socket's own timeout would begin anew with each byte."""
    with raw_server(drip(start, piece)) as host, pytest.raises(RetryLater, match="the server: "):
        post(f"http://{host}/", SHORT_S)


@pytest.mark.parametrize(
    "answer",
    [b"", b"\x00\xff\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"SSH-2.0-x\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
     OK + b"X: " + b"a" * 70_000 + b"\r\n\r\n"],
    ids=["nothing", "binary", "no status", "another protocol", "bad chunk", "endless line"],
)  # fmt: skip
def test_garbage_is_an_answer_that_may_be_better_later(answer: bytes) -> None:
    def talk(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    with raw_server(talk) as host, pytest.raises(RetryLater, match="the server: "):
        post(f"http://{host}/secret-path")


def test_an_answer_is_read_up_to_its_bound() -> None:
    with HttpServer() as server:
        server.replies = [Reply(200, b"x" * (3 * ANSWER_BYTES_MAX))]
        assert len(post(server.url).body) == ANSWER_BYTES_MAX


def test_nobody_listening_is_said_without_the_address() -> None:
    with raw_server(lambda connection, over: None) as host:
        pass
    with pytest.raises(RetryLater, match="the server: Connection refused") as raised:
        post(f"http://{host}/hidden-path")
    assert "hidden-path" not in str(raised.value)


@openssl
def test_a_certificate_nobody_vouches_for_is_refused_and_a_known_one_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    with HttpServer(certificate) as server:
        with pytest.raises(GiveUp, match="its certificate is refused: self-signed certificate"):
            post(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert post(server.url).status == 200


@openssl
def test_a_server_that_hangs_behind_tls_is_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with HttpServer(certificate) as server:
        server.hold()
        with pytest.raises(PerhapsDelivered, match="no answer within"):
            post(server.url, 1.0)


def test_a_proxy_is_used_as_the_environment_says_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpServer() as proxy, HttpServer() as server:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert post("http://pager.invalid/x").status == 200
        assert proxy.next().path == "http://pager.invalid/x"
        assert post(server.url).status == 200
        assert (len(server.all()), len(proxy.all())) == (1, 0)


def test_what_goes_through_a_proxy_to_tls_goes_through_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def talk(connection: socket.socket, over: threading.Event) -> None:
        asked.append(connection.recv(65536))
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    with raw_server(talk) as host:
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, host)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(RetryLater):
            post("https://pager.invalid/TOKEN")
    assert asked[0].startswith(b"CONNECT pager.invalid:443 ")
    assert b"TOKEN" not in asked[0]


@pytest.mark.parametrize(
    "url",
    ["ftp://x/", "http://", "http:///x", "https://user:hunter2@host/", "http://x y/", "http://x:99999/", "http://x\r\nA: b/"],
)
def test_an_address_that_cannot_be_called_is_given_up_with_what_to_write(url: str) -> None:
    assert check_url(url)
    with pytest.raises(GiveUp, match=r"its address (is no address|holds a user)") as raised:
        post(url)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("headers", [{"X-A": "a\r\nX-B: b"}, {"X\r\nA": "b"}, {"X-A": "€"}])
def test_a_header_that_would_be_two_is_not_sent(headers: dict[str, str]) -> None:
    with HttpServer() as server:
        with pytest.raises(GiveUp, match="the call cannot be written"):
            send(HttpRequest("the server", server.url, b"", headers))
        assert server.all() == []
