"""Mail through an SMTP server. All mails of one incident are one thread; one delivered twice carries the same Message-ID."""

from __future__ import annotations

import hashlib
import smtplib
import socket
import ssl
from contextlib import closing, suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

from sentinel.channels.contract import AGAIN_S, CALL_S
from sentinel.channels.notice import Notice
from sentinel.channels.reach import is_here
from sentinel.channels.secrets import Vault
from sentinel.channels.wording import cut, headline, one_line
from sentinel.errors import GiveUp, RetryLater
from sentinel.policy.schema_fields import Flag, Text, written
from sentinel.policy.schema_paging import Address, Addresses, Port, RouteSettings, Secret

TLS_PORT = 465  # encrypted from the first byte, so that there is nothing to start
SUBJECT_CHARS_MAX = 200
WORDS_MAX = 200


class EmailRoute(RouteSettings):
    """Mail through an SMTP server."""

    to: Addresses
    """Who gets it."""
    sender: Address = written(..., alias="from")
    """Who it says it is from."""
    host: Text
    """The SMTP server."""
    port: Port = 587
    """Its port."""
    starttls: Flag = True
    """Encrypt before anything is sent; refuse to go on without."""
    user: Text | None = None
    """For SMTP AUTH."""
    password: Secret | None = None
    """For SMTP AUTH."""


class Mail:
    def __init__(self, settings: EmailRoute, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def deliver(self, notice: Notice) -> str:
        settings = self._settings
        what = f"the mail server {settings.host}:{settings.port}"
        message = build_mail(notice, settings.sender, settings.to)
        try:
            with closing(self._connect()) as server:
                refused = self._send(server, message)
        except smtplib.SMTPNotSupportedError as error:
            raise GiveUp(f"{what}: {error}; is the port right, and does it speak TLS?") from None
        except smtplib.SMTPRecipientsRefused as error:
            code, answer = next(iter(error.recipients.values()))
            raise self._refusal(what, code, answer) from None
        except smtplib.SMTPResponseException as error:
            raise self._refusal(what, error.smtp_code, error.smtp_error) from None
        except ssl.SSLCertVerificationError as error:
            raise GiveUp(f"{what}: its certificate is refused: {error.verify_message}") from None
        except (smtplib.SMTPException, OSError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise RetryLater(f"{what}: {reason}", AGAIN_S) from None
        taken = len(settings.to) - len(refused)
        return f"accepted for {taken} of {len(settings.to)}" + "".join(f"; {address} was refused" for address in refused)

    def _connect(self) -> smtplib.SMTP:
        host, port, name = self._settings.host, self._settings.port, socket.gethostname()
        if port == TLS_PORT:
            return smtplib.SMTP_SSL(host, port, name, timeout=CALL_S, context=ssl.create_default_context())
        return smtplib.SMTP(host, port, name, timeout=CALL_S)

    def _send(self, server: smtplib.SMTP, message: EmailMessage) -> list[str]:
        """Those who were refused, where others were not."""
        settings = self._settings
        if settings.starttls and settings.port != TLS_PORT:
            server.starttls(context=ssl.create_default_context())
        if settings.user is not None and settings.password is not None:
            if not (settings.starttls or settings.port == TLS_PORT or is_here(settings.host)):
                raise GiveUp(f"the mail server {settings.host}: the password would travel in the clear; write starttls: true")
            server.login(settings.user, self._vault.read(settings.password))
        refused = server.send_message(message, settings.sender, settings.to)
        with suppress(smtplib.SMTPException, OSError):
            server.quit()  # the mail is accepted, whatever comes of the farewell
        return sorted(refused)

    def _refusal(self, what: str, code: int, answer: bytes | str) -> GiveUp | RetryLater:
        text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
        words = f"{what} answered {code}: {cut(one_line(self._vault.scrub(text)), WORDS_MAX)}"
        return GiveUp(words) if code >= 500 else RetryLater(words, AGAIN_S)


def build_mail(notice: Notice, sender: str, to: tuple[str, ...]) -> EmailMessage:
    """The mail, with nothing of a run's words in a header but the subject, on one line."""
    domain = sender.rpartition("@")[2]
    thread, own = (f"<{hashlib.sha256(key.encode()).hexdigest()[:40]}@{domain}>" for key in (notice.dedup_key, notice.key))
    message = EmailMessage()
    message["Subject"] = cut(one_line("".join(c if c.isprintable() else " " for c in headline(notice))), SUBJECT_CHARS_MAX)
    message["From"] = sender
    message["To"] = ", ".join(to)
    message["Date"] = format_datetime(datetime.fromtimestamp(notice.at_s, UTC))
    message["Message-ID"] = own
    message["In-Reply-To"] = thread
    message["References"] = thread
    message["Auto-Submitted"] = "auto-generated"
    message["X-Sentinel-Key"] = hashlib.sha256(notice.dedup_key.encode()).hexdigest()[:40]
    message.set_content(notice.text.encode("utf-8", "replace").decode() + "\n")
    return message
