"""A person is paged when a run's journal is not whole. No incident can be opened for it: there is no journal to write it in.

Who was paged stands in journal-lost.json, so that a supervisor that is started again and again (systemd) pages once for the same
loss, and so that the page is taken back when the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from sentinel.channels.contract import TRY_S
from sentinel.channels.notice import TEXT_CHARS_MAX, TITLE_CHARS_MAX, Notice, dedup_key
from sentinel.channels.opening import open_channel
from sentinel.channels.wording import cut, one_line, titled
from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import LOST_NAME
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import GiveUp, JournalError, LostHistory, RetryLater, UsageError
from sentinel.journal.run_file import find_run_file
from sentinel.paging.patience import Patience
from sentinel.policy.schema_paging import Paging, Route

NO_INCIDENT = 0  # incidents are numbered from 1


class JournalPages:
    """The pages about one run's journal.

    Args:
        run_dir: The run's directory; who was paged is kept in it, as far as that can be written.
        paging: The routes.
        is_asked: Whether a page is wanted at all. Whoever types `sentinel stop` reads the error where it stands.
    """

    def __init__(self, run_dir: Path, paging: Paging, *, is_asked: bool = True) -> None:
        self._run_dir = run_dir
        self._routes = paging.routes
        self._is_asked = is_asked

    def page(self, error: JournalError, wall_s: float, say: Callable[[str], None]) -> None:
        """Send the page on every route that has not taken it for this very loss. What comes of each is said."""
        if not self._is_asked:
            return
        told, missing = self._read(), _missing(error)
        names = set(told["routes"]) if told is not None and told["missing"] == missing else set()
        for route in self._routes:
            if route.name not in names and self._send(route, "trigger", error.message, wall_s, say):
                names.add(route.name)
        with suppress(OSError):  # it is only so that nobody is paged twice
            write_atomically(self._run_dir / LOST_NAME, dumps({"missing": missing, "routes": sorted(names)}).encode() + b"\n")

    def withdraw(self, wall_s: float, say: Callable[[str], None]) -> None:
        """The run goes on: whoever was paged is told so, once."""
        told = self._read()
        if told is None:
            return
        for route in self._routes:
            if route.name in told["routes"]:
                self._send(route, "resolve", "The journal is whole, and the run goes on.", wall_s, say)
        with suppress(OSError):
            (self._run_dir / LOST_NAME).unlink()

    def _send(
        self, route: Route, stage: Literal["trigger", "resolve"], text: str, wall_s: float, say: Callable[[str], None]
    ) -> bool:
        notice = _notice(self._run_dir, route.name, stage, text, wall_s)
        try:
            channel = open_channel(route, self._run_dir)
            detail = Patience(route.name).within(TRY_S, lambda: channel.deliver(notice))
        except (RetryLater, GiveUp) as error:
            say(f"{self._run_dir}: the page by {route.name} about its journal is NOT DELIVERED: {error}")
            return False
        what = "page" if stage == "trigger" else "end of the page"
        say(f"{self._run_dir}: {route.name} has the {what} about its journal: {detail}")
        return True

    def _read(self) -> dict[str, Any] | None:
        """None where nobody was paged, or where it cannot be read."""
        try:
            plain = loads(read_regular(self._run_dir / LOST_NAME))
            return {"missing": list(plain["missing"]), "routes": [str(name) for name in plain["routes"]]}
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _missing(error: JournalError) -> list[str]:
    return list(error.missing) if isinstance(error, LostHistory) else [error.message]


def _notice(run_dir: Path, route: str, stage: Literal["trigger", "resolve"], text: str, wall_s: float) -> Notice:
    run = _run_id(run_dir)
    title = one_line(titled(f"{run}: the journal is not whole, and nobody supervises the run", stage, ""))
    answers = (f"sentinel journal verify {run_dir}", f"sentinel journal salvage {run_dir}") if stage == "trigger" else ()
    return Notice(
        stage=stage, key=f"{run}/journal-lost/{route}/{stage}", dedup_key=dedup_key(run, NO_INCIDENT), run=run,
        incident=NO_INCIDENT, severity="critical", title=cut(title, TITLE_CHARS_MAX),
        text=cut(text, TEXT_CHARS_MAX), at_s=wall_s, facts={"kind": "journal_lost"}, answers=answers,
    )  # fmt: skip


def _run_id(run_dir: Path) -> str:
    with suppress(UsageError):
        run = find_run_file(run_dir)
        if run is not None:
            return run.id
    return run_dir.name
