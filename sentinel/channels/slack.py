"""A Slack incoming webhook. The text is plain: nothing that a run wrote can mention a channel or draw a link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sentinel.channels.http_call import HttpRequest, send
from sentinel.channels.notice import Notice
from sentinel.channels.secrets import Vault
from sentinel.channels.wording import cut, headline, web_links
from sentinel.client.strict_json import dumps
from sentinel.policy.schema_paging import RouteSettings, Secret

HEADER_CHARS_MAX = 150  # Slack's limits: of a header, and of a section with room for what escaping adds
SECTION_CHARS_MAX = 2800
SECTIONS_MAX = 4
WEBHOOK_VARIABLE = "SENTINEL_SLACK_WEBHOOK"  # with --page


class SlackRoute(RouteSettings):
    """A Slack incoming webhook."""

    webhook: Secret
    """Its URL, which is a secret."""


class Slack:
    def __init__(self, settings: SlackRoute, vault: Vault) -> None:
        self._settings = settings
        self._vault = vault

    def deliver(self, notice: Notice) -> str:
        url = self._vault.read(self._settings.webhook)
        answer = send(HttpRequest("Slack", url, dumps(build_message(notice)).encode(), scrub=self._vault.scrub))
        return f"accepted ({answer.status})"


def short_form(value: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """`--page slack`"""
    del environ
    if value:
        raise ValueError(f"takes no value here; the address is a secret: set {WEBHOOK_VARIABLE} and write --page slack")
    return {"webhook": Secret(env=WEBHOOK_VARIABLE)}


def build_message(notice: Notice) -> dict[str, Any]:
    """What is posted: `text` for notifications, `blocks` for the channel."""
    title = headline(notice)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(title, HEADER_CHARS_MAX), "emoji": False}}
    ]
    blocks += [_section(f"```{piece}```") for piece in _pieces(notice.text)]
    links = "  ".join(f"<{_escaped(url).replace('|', '%7C')}|{_escaped(name)}>" for name, url in web_links(notice).items())
    if links:
        blocks.append(_section(cut(links, SECTION_CHARS_MAX)))
    return {"text": _escaped(cut(title, SECTION_CHARS_MAX)), "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _pieces(text: str) -> list[str]:
    """The text in sections that Slack takes, cut between lines where there are any."""
    lines = [line[i : i + 1000] for line in _escaped(text).split("\n") for i in range(0, max(len(line), 1), 1000)]
    pieces: list[str] = []
    for line in lines:
        if pieces and len(pieces[-1]) + len(line) < SECTION_CHARS_MAX:
            pieces[-1] += f"\n{line}"
        else:
            pieces.append(line)
    if len(pieces) > SECTIONS_MAX:
        pieces = [*pieces[:SECTIONS_MAX], "… (the report has the rest)"]
    return [re.sub(r"\A\n+|\n+\Z", "", piece) or " " for piece in pieces]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("```", "'''")
