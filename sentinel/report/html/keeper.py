"""Reports that write themselves: of an incident when a person was paged about it and when it is over, of the run at its end.

A thread of its own looks at the run's newest state, and reads the journal and the streams as any onlooker does. A full disk, a
hung one, or a bug costs the reports and nothing else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sentinel.client.run_layout import incident_report_path
from sentinel.errors import SentinelError
from sentinel.model.incidents import Incident
from sentinel.model.state import RunState

EVERY_S = 2.0
CLOSE_S = 20.0
CAUGHT_UP_MAX = 8  # closed incidents without a report that a new supervisor finds: the newest get theirs

Version = tuple[object, ...]


class ReportKeeper:
    def __init__(self, run_dir: Path, latest: Callable[[], RunState], every_s: float = EVERY_S) -> None:
        """`latest`: how the run stands; called from the thread."""
        self._run_dir = run_dir
        self._latest = latest
        self._every_s = every_s
        self._written: dict[int, Version] | None = None
        self._seen: dict[int, Version] = {}
        self._trouble = ""
        self._closing = threading.Event()
        self._is_late = False
        self._thread = threading.Thread(target=self._work, name="sentinel-reports", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is due, for CLOSE_S at most, and say what is missing then. Safe to call twice."""
        self._closing.set()
        self._thread.join(CLOSE_S)
        was_late, self._is_late = self._is_late, True
        missing = self._trouble or ("it took too long" if self._thread.is_alive() else "")
        if missing and not was_late:
            with suppress(OSError, ValueError):
                remedy = f"`sentinel report {self._run_dir}` writes them"
                print(f"{self._run_dir}: its reports are not complete ({missing}); {remedy}", file=sys.stderr)

    def _work(self) -> None:
        is_last = False
        while not (is_last or self._is_late):
            is_last = self._closing.wait(self._every_s)
            state = self._latest()
            if is_last and not state.ended:
                return  # the journal is out of reach, or another supervisor goes on: nobody is to wait for reports
            for number in self._due(state, is_last):
                if not self._is_late:
                    self._write(number, with_texts=not is_last)
        if not self._is_late and self._latest().attempts:
            self._write(None, with_texts=False)

    def _due(self, state: RunState, is_last: bool) -> list[int]:
        """Incidents whose report is to be written, or written again. One must have stood still for a round: only then does the
        journal hold what the state says, its evidence and how its page went out."""
        worth = {one.id: _version(one) for one in state.incidents if one.is_closed or one.pages}
        if self._written is None:
            self._written = self._found(state)
        stable = {number: version for number, version in worth.items() if is_last or self._seen.get(number) == version}
        self._seen = worth
        due = [number for number, version in stable.items() if self._written.get(number) != version]
        self._written |= {number: stable[number] for number in due}
        return due

    def _found(self, state: RunState) -> dict[int, Version]:
        """What an earlier supervisor has reported, and what is too old to begin with."""
        closed = [one for one in state.incidents if one.is_closed]
        with suppress(OSError):
            there = {one.id for one in closed if incident_report_path(self._run_dir, one.id).is_file()}
            return {one.id: _version(one) for one in closed if one.id in there or one not in closed[-CAUGHT_UP_MAX:]}
        return {}

    def _write(self, number: int | None, with_texts: bool) -> None:
        try:
            from sentinel.report.html.writing import report_command  # here, because jinja2 takes its time to load

            report_command(self._run_dir, number, None, with_texts)
        except (SentinelError, OSError) as error:
            self._trouble = str(error)
        except Exception as bug:  # noqa: BLE001 - a bug here may cost the report, and must not end in silence
            self._trouble = f"{type(bug).__name__}: {bug}"


def _version(incident: Incident) -> Version:
    page = incident.page
    deliveries = tuple((one.route, one.delivered) for one in page.routes) if page is not None else ()
    called = (page.number, page.resolved, page.hold, deliveries) if page is not None else None
    return (incident.state, incident.pages, incident.acknowledged_by, len(incident.tries), incident.verdict, called)
