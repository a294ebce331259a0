"""A person is paged when a run's journal is not whole, or cannot be written for long. No incident can be opened for it: there is
no journal to write it in.

Who was paged about a loss stands in journal-lost.json, so that a supervisor that is started again and again (systemd) pages once
for it, and so that the page is taken back when the run goes on. Who was paged about an outage is kept in memory: that file lies
on the very disk.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import write_atomically
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import LOST_NAME
from sentinel.client.strict_json import dumps, loads
from sentinel.errors import JournalError, LostHistory, OutOfReach, SentinelError, UsageError
from sentinel.journal.run_file import find_run_file
from sentinel.policy.schema_paging import Paging, Route
from sentinel.supervisor.own_pages import OwnPage, Stage, send_own_page

# Titles and commands are completed with the run's name and its directory.
_LOSS = OwnPage(
    "journal_lost", "its journal", "the journal is not whole, and nobody supervises the run",
    ("journal verify", "journal salvage"),
)  # fmt: skip
_OUTAGE = OwnPage(
    "journal_blocked", "its outage", "the run directory cannot be written, and nothing is done for the run until it can",
    ("status",), "outage",
)  # fmt: skip
_AWAY = replace(
    _OUTAGE, title="the run directory cannot be reached, and nothing is done for the run until it can"
)  # the same page to whoever was called: the one becomes the other


class JournalPages:
    """The pages about one run's journal.

    Args:
        run_dir: The run's directory; who was paged is kept in it, as far as that can be written.
        paging: The routes.
        run: What the run is called; empty: what its directory says then.
        is_asked: Whether a page is wanted at all. Whoever types `sentinel stop` reads the error where it stands.
    """

    def __init__(self, run_dir: Path, paging: Paging, *, run: str = "", is_asked: bool = True) -> None:
        self._run_dir = run_dir
        self._routes = paging.routes
        self._run, self._is_asked = run, is_asked  # the name is kept, for the directory may be out of reach
        self._paged_of_outage: set[str] = set()

    def page(self, error: JournalError, wall_s: float, say: Callable[[str], None]) -> None:
        """Send the page on every route that has not taken it for this very loss. What comes of each is said."""
        if not self._is_asked:
            return
        record, missing = self._read(), _missing(error)
        names = set(record["routes"]) if record is not None and record["missing"] == missing else set()
        for route in self._routes:
            if route.name not in names and self._send(route, _LOSS, "trigger", error.message, wall_s, say):
                names.add(route.name)
        with suppress(OSError):  # it is only so that nobody is paged twice
            write_atomically(self._run_dir / LOST_NAME, dumps({"missing": missing, "routes": sorted(names)}).encode() + b"\n")

    def page_outage(self, error: SentinelError, wall_s: float, say: Callable[[str], None]) -> None:
        """On every route that has not taken it: nothing is done for the run until this has passed."""
        page = _AWAY if isinstance(error, OutOfReach) else _OUTAGE
        for route in self._routes if self._is_asked else ():
            if route.name not in self._paged_of_outage and self._send(route, page, "trigger", error.message, wall_s, say):
                self._paged_of_outage.add(route.name)

    def withdraw(self, wall_s: float, say: Callable[[str], None]) -> None:
        """The run goes on: whoever was paged is told so, once."""
        for route in self._routes:
            if route.name in self._paged_of_outage:
                self._send(route, _OUTAGE, "resolve", "The journal can be written, and the run is supervised again.", wall_s, say)
        self._paged_of_outage.clear()
        record = self._read()
        if record is None:
            return
        for route in self._routes:
            if route.name in record["routes"]:
                self._send(route, _LOSS, "resolve", "The journal is whole, and the run goes on.", wall_s, say)
        with suppress(OSError):
            (self._run_dir / LOST_NAME).unlink()

    def _send(self, route: Route, of: OwnPage, stage: Stage, text: str, wall_s: float, say: Callable[[str], None]) -> bool:
        run = self._run or _run_id(self._run_dir)
        answers = tuple(f"sentinel {verb} {self._run_dir}" for verb in of.answers)
        page = replace(of, title=f"{run}: {of.title}", answers=answers)
        return send_own_page(self._run_dir, run, route, page, stage, text, wall_s, say)

    def _read(self) -> dict[str, Any] | None:
        """None where nobody was paged, or where it cannot be read."""
        try:
            plain = loads(read_regular(self._run_dir / LOST_NAME))
            return {"missing": list(plain["missing"]), "routes": [str(name) for name in plain["routes"]]}
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _missing(error: JournalError) -> list[str]:
    return list(error.missing) if isinstance(error, LostHistory) else [error.message]


def _run_id(run_dir: Path) -> str:
    with suppress(UsageError):
        run = find_run_file(run_dir)
        if run is not None:
            return run.id
    return run_dir.name
