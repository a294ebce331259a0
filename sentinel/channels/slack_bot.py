"""Slack by an app's bot: all messages of a run in one thread, and buttons that answer a page.

The first message of a run opens its thread; RUN_DIR/slack.json remembers it by channel. Calls for a person are shown in the
channel as well (`reply_broadcast`), so that nobody must be looking into the thread. A button carries the run's directory, when
it began, the incident and the rung; Slack sends its press, signed, to the page (`sentinel.web.slack`).

https://docs.slack.dev/reference/methods/chat.postMessage
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from sentinel.channels.contract import AGAIN_S, Channel
from sentinel.channels.http_call import HttpRequest, host_of, send
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.channels.slack import Slack, SlackRoute, build_message
from sentinel.channels.wording import CALLS
from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.strict_json import dumps, loads, printable
from sentinel.errors import GiveUp, RetryLater

THREADS_NAME = "slack.json"
VERSION = 1
LATER = ("ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org")
NO_THREAD = ("thread_not_found", "message_not_found")
REMEDIES = {
    "invalid_auth": "the token is no bot token of this workspace; put the right one there",
    "not_authed": "the token is no bot token of this workspace; put the right one there",
    "token_revoked": "the token was revoked; install the app again and put its new token there",
    "missing_scope": "give the app the scope chat:write, and install it again",
    "channel_not_found": "there is no such channel, or the bot is not in it: /invite the bot there",
    "not_in_channel": "/invite the bot into the channel",
    "is_archived": "bring the channel back, or name another",
}
BUTTONS = {"acknowledge": ("Acknowledge", None), "approve": ("Approve", "primary"), "deny": ("Deny", "danger")}
ACTION = "sentinel_"


def open_slack(settings: SlackRoute, vault: Vault, run_dir: Path | None) -> Channel:
    if settings.webhook is not None:
        return Slack(settings.webhook, vault)
    return SlackBot(settings, vault, run_dir)


class SlackBot:
    """`run_dir` None: outside any run (a test page), which has no thread and no buttons. One thread at a time."""

    def __init__(self, settings: SlackRoute, vault: Vault, run_dir: Path | None) -> None:
        self._settings = settings
        self._vault = vault
        self._run_dir = run_dir

    def deliver(self, notice: Notice) -> str:
        message = build_message(notice)
        if notice.asks and self._run_dir is not None and self._settings.signing_secret is not None:
            message["blocks"].append(build_buttons(notice, printable(self._run_dir.absolute().name)))
        return self._post(message, is_call=notice.stage in CALLS)

    def say(self, words: str) -> str:
        """A sentence into the run's thread. Raises as `deliver`."""
        escaped = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return self._post({"text": escaped}, is_call=False)

    def _post(self, message: dict[str, Any], is_call: bool) -> str:
        thread = self._thread()
        found = self._call(message, thread, is_call)
        if thread is not None and found.get("error") in NO_THREAD:  # somebody has deleted its first message
            thread, found = None, self._call(message, None, is_call)
        if found.get("ok") is not True:
            raise _refusal(str(found.get("error", "nothing that it says why")))
        if thread is None:
            self._remember(found.get("ts"))
        return "posted" if thread is None else "posted in the run's thread"

    def _call(self, message: dict[str, Any], thread: str | None, is_call: bool) -> dict[str, Any]:
        assert self._settings.token is not None, "a route of a bot has a token"
        url = self._settings.url
        payload = message | {"channel": self._settings.channel, "unfurl_links": False, "unfurl_media": False}
        payload |= {} if thread is None else {"thread_ts": thread, "reply_broadcast": is_call}
        headers = {
            "Authorization": f"Bearer {self._vault.read(self._settings.token)}",
            "Content-Type": "application/json; charset=utf-8",
        }
        answer = send(HttpRequest(f"Slack at {host_of(url)}", url, dumps(payload).encode(), headers, scrub=self._vault.scrub))
        try:
            found = loads(answer.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise RetryLater("Slack: its answer is no JSON object", AGAIN_S)
        return found

    def _thread(self) -> str | None:
        """Where the run's messages stand in this channel; None before the first."""
        if self._run_dir is None:
            return None
        try:
            known = loads(read_regular(self._run_dir / THREADS_NAME))
            found = known["threads"].get(self._settings.channel) if known["v"] == VERSION else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return found if isinstance(found, str) else None

    def _remember(self, thread: object) -> None:
        """A disk that says no costs the thread, and not the page."""
        if self._run_dir is None or not isinstance(thread, str):
            return
        path = self._run_dir / THREADS_NAME
        threads: dict[str, Any] = {}
        with suppress(OSError, ValueError, TypeError, KeyError):
            threads = dict(loads(read_regular(path))["threads"])
        with suppress(OSError):
            write_atomically(path, dumps({"v": VERSION, "threads": threads | {self._settings.channel: thread}}).encode())


def build_buttons(notice: Notice, run: str) -> dict[str, Any]:
    """`run`: the name of its directory, by which the page knows it; when it began tells it from others of that name."""
    return {"type": "actions", "elements": [_button(verb, rung, notice, run) for verb, rung in notice.asks.items()]}


def _button(verb: str, rung: int | None, notice: Notice, run: str) -> dict[str, Any]:
    incident = notice.incident
    words, style = BUTTONS[verb]
    label = words if rung is None else f"{words} rung {rung + 1}"
    button: dict[str, Any] = {
        "type": "button",
        "action_id": f"{ACTION}{verb}",
        "text": {"type": "plain_text", "text": label, "emoji": False},
        "value": dumps({"run": run, "began": notice.began, "incident": incident, "rung": rung}),
    }
    if rung is not None:
        sure = f"{words} rung {rung + 1} of incident {incident} of run {run}?"
        button["confirm"] = {
            "title": {"type": "plain_text", "text": "Sure?"}, "text": {"type": "plain_text", "text": sure[:300]},
            "confirm": {"type": "plain_text", "text": words}, "deny": {"type": "plain_text", "text": "Cancel"},
        }  # fmt: skip
    return button if style is None else button | {"style": style}


def _refusal(error: str) -> RetryLater | GiveUp:
    word = "".join(c if c.isprintable() else " " for c in error)[:100]
    if word in LATER:
        return RetryLater(f"Slack answered {word}", AGAIN_S)
    remedy = REMEDIES.get(word)
    return GiveUp(f"Slack refuses: {word}" + (f"; {remedy}" if remedy else ""))
