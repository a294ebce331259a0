"""What a notice is called where there is room for one line, and how long texts are cut. The words of the case itself are the
notice's."""

from __future__ import annotations

import hashlib

from sentinel.channels.notice import Notice
from sentinel.channels.reach import host_name, is_here
from sentinel.model.actions import Stage

CALLS: tuple[Stage, ...] = ("trigger", "update")  # what is said to somebody who is to act

def headline(notice: Notice) -> str:
    """`PAGE (critical) gpt-7: spike since step 71`: one line, whatever the title holds, which itself says a later stage."""
    return one_line(f"PAGE ({notice.severity}) {notice.title}" if notice.stage in CALLS else notice.title)


def titled(title: str, stage: Stage, by: str) -> str:
    """A title that says its stage: `Resolved by ada@desk: gpt-7: spike since step 71`."""
    word = {"trigger": "", "update": "Changed", "acknowledge": "Seen", "resolve": "Resolved", "message": "Repaired"}[stage]
    return f"{word}{f' by {by}' if by else ''}: {title}" if word else title


def one_line(text: str) -> str:
    return " ".join(text.split())


def cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


def short_key(key: str, chars: int) -> str:
    """A key that fits: itself, or its beginning and a digest of it, so that different keys stay different."""
    if len(key) <= chars:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"{key[: chars - len(digest) - 1]}-{digest}"


def web_links(notice: Notice) -> dict[str, str]:
    """The links that lead somewhere from another machine: no paths of files, nothing on the loopback of this one."""
    urls = {name: url for name, url in notice.links.items() if url.startswith(("https://", "http://"))}
    return {name: url for name, url in urls.items() if not is_here(host_name(url))}
