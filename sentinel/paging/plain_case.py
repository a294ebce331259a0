"""The shortest notice of a page: the engine's own words, and how to answer. It is what is sent when the whole case cannot be
built."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from sentinel.channels.notice import TEXT_CHARS_MAX, TITLE_CHARS_MAX, Notice, dedup_key
from sentinel.channels.wording import CALLS, cut, one_line, titled
from sentinel.model.actions import SendPage

_CONTROL = re.compile(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def plain_notice(run_dir: Path, run: str, page: SendPage, wall_s: float) -> Notice:
    ack = f"sentinel ack {page.incident} {shlex.quote(str(run_dir))}"
    answers = (ack,) if page.stage in CALLS else ()
    text = cut(_CONTROL.sub(" ", "\n".join([page.text, *answers])), TEXT_CHARS_MAX)
    title = cut(one_line(_CONTROL.sub(" ", titled(page.title, page.stage, page.by))), TITLE_CHARS_MAX)
    named = (page.stage, page.key, dedup_key(run, page.incident), run, page.incident, page.severity)
    return Notice(*named, title, text, wall_s, page.by, {}, answers)
