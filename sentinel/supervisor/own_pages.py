"""Pages about the supervisor itself. No incident can be opened for them: there is no journal to write it in, or no loop to
decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sentinel.channels.contract import TRY_S
from sentinel.channels.notice import TEXT_CHARS_MAX, TITLE_CHARS_MAX, Notice, dedup_key
from sentinel.channels.opening import open_channel
from sentinel.channels.wording import cut, one_line, titled
from sentinel.errors import GiveUp, RetryLater
from sentinel.paging.patience import Patience
from sentinel.policy.schema_paging import Route

NO_INCIDENT = 0  # incidents are numbered from 1

Stage = Literal["trigger", "resolve"]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OwnPage:
    """What is wrong. `about`: in a few words, for what is said of the delivery. `topic`: keeps it apart from other pages of its
    kind at the service that is called; empty for the first. `answers`: commands for the person who is called."""

    kind: str
    about: str
    title: str
    answers: tuple[str, ...]
    topic: str = ""


def send_own_page(run_dir: Path, run: str, route: Route, page: OwnPage, stage: Stage, text: str, wall_s: float, say: Say) -> bool:
    """Whether the route took it; what came of it is said. Waits for one try, and reads nothing of the run directory."""
    notice = _notice(run, route.name, page, stage, text, wall_s)
    try:
        channel = open_channel(route, run_dir)
        detail = Patience(route.name).within(TRY_S, lambda: channel.deliver(notice))
    except (RetryLater, GiveUp) as error:
        say(f"{run_dir}: the page by {route.name} about {page.about} is NOT DELIVERED: {error}")
        return False
    what = "page" if stage == "trigger" else "end of the page"
    say(f"{run_dir}: {route.name} has the {what} about {page.about}: {detail}")
    return True


def _notice(run: str, route: str, page: OwnPage, stage: Stage, text: str, wall_s: float) -> Notice:
    key = "/".join(part for part in (dedup_key(run, NO_INCIDENT), page.topic) if part)
    return Notice(
        stage=stage, key=f"{run}/{page.kind.replace('_', '-')}/{route}/{stage}", dedup_key=key, run=run,
        incident=NO_INCIDENT, severity="critical", title=cut(one_line(titled(page.title, stage, "")), TITLE_CHARS_MAX),
        text=cut(text, TEXT_CHARS_MAX), at_s=wall_s, facts={"kind": page.kind},
        answers=page.answers if stage == "trigger" else (),
    )  # fmt: skip
