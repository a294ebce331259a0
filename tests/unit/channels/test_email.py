"""Mail through a real conversation on loopback: what arrives, how it is threaded, and what is refused before a password is."""

from __future__ import annotations

import email
import email.policy
import shutil
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from sentinel.channels.email import build_mail
from sentinel.channels.opening import Guarded, open_channel
from sentinel.channels.registry import Route
from sentinel.errors import GiveUp, RetryLater
from tests.loopback import Mailbox, make_certificate, raw_server, smtp_server
from tests.unit.channels.notices import TEXT, notice

TO = ("ada@example.org", "bob@example.org")


def mail(box: Mailbox, **more: Any) -> Guarded:
    settings = {"to": TO, "from": "sentinel@example.org", "host": "127.0.0.1", "port": box.port, "starttls": False, **more}
    return open_channel(Route.model_validate({"email": settings}), None, {"PASSWORD": "pass-word"})


def parsed(raw: bytes) -> EmailMessage:
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


def test_the_mails_of_one_incident_are_one_thread_and_a_second_delivery_is_the_same_mail() -> None:
    with smtp_server() as box:
        channel = mail(box)
        assert channel.deliver(notice()) == "accepted for 2 of 2"
        channel.deliver(notice())
        channel.deliver(notice("resolve"))
        first, again, last = (parsed(box.mails.get(timeout=20)) for _ in range(3))
    assert first["Subject"] == "PAGE (critical) gpt-7: spike since step 71"
    assert last["Subject"] == "Resolved by ada@desk: gpt-7: spike since step 71"
    assert (first["To"], first["From"]) == ("ada@example.org, bob@example.org", "sentinel@example.org")
    assert first["Message-ID"] == again["Message-ID"] != last["Message-ID"]
    assert first["References"] == last["References"]
    assert first.get_content().split() == TEXT.split()
    assert [line for line in box.lines if line.upper().startswith("RCPT")][:2] == [f"rcpt TO:<{to}>" for to in TO]


def test_nothing_a_run_wrote_makes_a_header() -> None:
    evil = "gpt-7: spike\r\nBcc: everyone@example.org\n\nbody\x00\x1b[31m\udce9"
    message = build_mail(notice(title=evil, text="a\r\n.\r\nMAIL FROM:<x@y>\n\udce9"), "s@example.org", TO)
    assert message["Bcc"] is None
    raw = message.as_bytes()
    assert b"\nBcc:" not in raw
    with smtp_server() as box:
        mail(box).deliver(notice(title=evil, text="a\r\n.\r\nMAIL FROM:<x@y>"))
        assert "MAIL FROM:<x@y>" in parsed(box.mails.get(timeout=20)).get_content()
    assert sum(line.upper().startswith("MAIL") for line in box.lines) == 1


def test_no_password_and_no_mail_goes_out_in_the_clear_where_encryption_is_asked_for() -> None:
    with smtp_server() as box, pytest.raises(GiveUp, match="STARTTLS extension not supported by server"):
        mail(box, starttls=True, user="ada", password={"env": "PASSWORD"}).deliver(notice())
    assert not [line for line in box.lines if line.upper().startswith(("AUTH", "MAIL"))]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate, and is not there")
def test_over_tls_the_password_is_told_to_a_server_that_is_vouched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    with smtp_server(certificate) as box:
        channel = mail(box, starttls=True, user="ada", password={"env": "PASSWORD"})
        with pytest.raises(GiveUp, match="its certificate is refused"):
            channel.deliver(notice())
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert channel.deliver(notice()) == "accepted for 2 of 2"
    assert [line.split()[0] for line in box.lines if line.startswith(("STARTTLS", "AUTH"))] == ["STARTTLS", "STARTTLS", "AUTH"]


@pytest.mark.parametrize(
    ("word", "answer", "kind", "words"),
    [
        ("AUTH", "535 bad password", GiveUp, "answered 535: bad password"),
        ("AUTH", "454 later", RetryLater, "answered 454: later"),
        ("MAIL", "550 who are you", GiveUp, "answered 550"),
        ("RCPT", "550 nobody here", GiveUp, "answered 550: nobody here"),
        ("RCPT", "451 greylisted", RetryLater, "answered 451: greylisted"),
        ("DATA", "554 spam", GiveUp, "answered 554: spam"),
        ("EHLO", "\x00garbage", RetryLater, "the mail server"),
    ],
)
def test_a_4xx_is_tried_again_and_a_5xx_is_final(word: str, answer: str, kind: type[Exception], words: str) -> None:
    with smtp_server() as box:
        box.says = {word: answer} | ({"HELO": answer} if word == "EHLO" else {})
        with pytest.raises(kind, match=words):
            mail(box, user="ada", password={"env": "PASSWORD"}).deliver(notice())


def test_of_two_one_refused_is_said() -> None:
    with smtp_server() as box:
        seen: list[str] = []

        class Second(dict[str, str]):
            def __contains__(self, word: object) -> bool:
                if word == "RCPT":
                    seen.append("RCPT")
                return word == "RCPT" and len(seen) == 2

        box.says = Second(RCPT="550 no")
        assert mail(box).deliver(notice()) == "accepted for 1 of 2; bob@example.org was refused"


def test_a_server_that_is_not_there_or_hangs_up_is_tried_again() -> None:
    with raw_server(lambda connection, over: None) as host:
        box = Mailbox(port=int(host.rpartition(":")[2]))
        with pytest.raises(RetryLater, match=r"the mail server 127\.0\.0\.1"):
            mail(box).deliver(notice())
    with pytest.raises(RetryLater, match="refused"):
        mail(box).deliver(notice())
