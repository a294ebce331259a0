"""Which runs the site shows, and the one thread that looks at them: as often as somebody asks, in small pieces with pauses,
so that a supervisor in the same process keeps its processor.

    a run somebody looks at    each second, and its curves are drawn
    every other run listed     every LIST_S, unless nothing about it can have changed
    nobody asks                nothing, but for the curves of the supervisor's own run, which are kept up slowly
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from sentinel.client.strict_json import printable
from sentinel.clock import Clock, SystemClock
from sentinel.web.answers import RefusedRequest
from sentinel.web.places import find_runs, free_name, is_one_name
from sentinel.web.watched import ServedRun

ASKED_S = 10.0  # somebody who asked so lately still looks
REFRESH_S = 1.0
LIST_S = 5.0
IDLE_S = 10.0
SCAN_S = 10.0
FORGET_S = 600.0
WANTED_MAX = 16
FRESH_S = 1.0  # how long a request waits for a refresh, when the last one is old
PAUSE_S, IDLE_PAUSE_S = 0.02, 0.2  # between two pieces of a long stream, beside a supervisor: while somebody waits, and not
ALONE_PAUSE_S = 0.002
CLOSE_S = 2.0
AMBIGUOUS = "{count} runs of that name are shown here, and which one is meant cannot be told; /api/runs lists them"
GONE = "no run of that name is shown here: its directory is elsewhere, was renamed or removed; /api/runs lists the others"


class Runs:
    """`own`: the run that is supervised in this process. `places`: directories of runs, or runs themselves."""

    def __init__(self, places: Sequence[Path], own: Path | None = None, clock: Clock | None = None) -> None:
        self._places = tuple(place.absolute() for place in places)
        self._own = own.absolute() if own is not None else None
        self._clock = clock or SystemClock()
        self._runs: dict[str, ServedRun] = {}
        self._listed_s = self._scanned_s = float("-inf")
        self._wake = threading.Event()
        self._refreshed = threading.Condition()
        self._is_closing = self._has_complained = self._is_scan_wanted = False
        self._scans = 0
        self._wanted: tuple[str, ...] = ()  # directories that somebody asked for by name
        self.left_out = 0  # runs of the places that are too old to be listed
        self._is_late = False  # a refresh, or a look at the folders, takes longer than anybody waits
        self._thread = threading.Thread(target=self._work, name="sentinel-web-runs", daemon=True)

    def start(self) -> None:
        self._scan()
        self._thread.start()

    def close(self) -> None:
        """Safe to call twice. A refresh that hangs is left behind."""
        self._is_closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    # -- whoever asks --------------------------------------------------------------------------------------------------

    def find(self, name: str) -> ServedRun:
        """The run, looked at a moment ago. Raises RefusedRequest for a name that is not shown."""
        if name not in self._runs:
            self._want(name)
        if name not in self._runs and self._clock.now_s() - self._scanned_s >= REFRESH_S:
            self._await_scan()  # a page links to a run that may be younger than the last look, or older than those listed
        run = self._runs.get(name)
        if run is None:
            raise RefusedRequest(404, GONE)
        run.asked_s = self._clock.now_s()
        self._await_refreshes([run])
        return run

    def find_one(self, directory: str, began: int | None) -> ServedRun:
        """The run in a directory of this name that began in this second; without it the only one in such a directory. Raises
        RefusedRequest: never one of several by chance."""
        meant = self._in_directories(directory, began)
        if not meant:
            self._want(directory)
        if not meant and self._clock.now_s() - self._scanned_s >= REFRESH_S:
            self._await_scan()
            meant = self._in_directories(directory, began)
        if len(meant) != 1:
            raise RefusedRequest(404, AMBIGUOUS.format(count=len(meant)) if meant else GONE)
        return meant[0]

    def _in_directories(self, directory: str, began: int | None) -> list[ServedRun]:
        alike = [run for run in self._runs.values() if printable(run.run_dir.name) == directory]
        for run in alike:
            run.asked_s = self._clock.now_s()
        self._await_refreshes(alike)
        return [run for run in alike if began in (None, run.began)]

    def all(self, named: str = "") -> list[ServedRun]:
        """The supervisor's own first, then by name; only those that were looked at. `named`: the directory of one that is to be
        among them, however old it is."""
        self._listed_s = self._clock.now_s()
        is_new = bool(named) and all(printable(run.run_dir.name) != named for run in self._runs.values())
        if is_new:
            self._want(named)
        if self._listed_s - self._scanned_s > (REFRESH_S if is_new else SCAN_S):
            self._await_scan()
        self._await_refreshes(list(self._runs.values()))
        return [run for run in self._runs.values() if run.snapshot is not None]

    def beside(self, shown: Sequence[ServedRun]) -> list[ServedRun]:
        """The others: of which nothing could be read, or that were not looked at when these were told."""
        return [run for run in self._runs.values() if run not in shown]

    def _want(self, name: str) -> None:
        """It is looked for under this name, too, at the next look at the folders."""
        if is_one_name(name):
            self._wanted = (*(one for one in self._wanted if one != name), name)[-WANTED_MAX:]

    def exposed(self) -> list[ServedRun]:
        """Whose metrics this server exports: its own supervised run alone (others have their own servers), else every run."""
        if self._own is None:
            shown = self.all()
            return [*shown, *(run for run in self.beside(shown) if run.refreshes)]
        own = [run for run in self._runs.values() if run.is_own]
        for run in own:
            run.asked_s = self._clock.now_s()
        self._await_refreshes(own)
        return [run for run in own if run.snapshot is not None or run.refreshes]

    def is_stale(self, run: ServedRun) -> bool:
        """It was asked for, and has not been looked at for much longer than it should be."""
        return self._clock.now_s() - run.refreshed_s > 5 * REFRESH_S

    def is_old(self, run: ServedRun) -> bool:
        """As a row of the list, which is looked at more seldom: it was due, and its directory does not answer."""
        return self._is_late and self._clock.now_s() - run.refreshed_s > 3 * LIST_S

    def _await_refreshes(self, runs: Iterable[ServedRun]) -> None:
        """Wait until those that are due have been refreshed, for FRESH_S at most; not at all behind a refresh that hangs."""
        seen = {run: run.refreshes for run in runs if self._is_due(run, self._clock.now_s() - REFRESH_S)}
        if not seen or self._is_late:
            return
        self._wake.set()
        with self._refreshed:
            is_done = self._refreshed.wait_for(lambda: all(run.refreshes > before for run, before in seen.items()), FRESH_S)
        if not is_done:
            self._is_late = True

    def _await_scan(self) -> None:
        """For FRESH_S at most, and not at all behind a disk that hangs."""
        self._is_scan_wanted, before = True, self._scans
        self._wake.set()
        if self._is_late:
            return
        with self._refreshed:
            is_done = self._refreshed.wait_for(lambda: self._scans > before, FRESH_S)
        if not is_done:
            self._is_late = True

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._is_closing:
            now_s = self._clock.now_s()
            self._wake.clear()
            try:
                if self._is_scan_due(now_s):
                    self._is_scan_wanted = False
                    self._scan()
                wait_s = self._step(now_s)
            except Exception as bug:  # noqa: BLE001 - a bug here may cost the page, and must not end in silence
                self._complain(bug)
                wait_s = IDLE_S
            self._clock.wait(self._wake, wait_s)

    def _is_scan_due(self, now_s: float) -> bool:
        """At most one a second, from the end of one to the next: where each takes seconds, the runs have their turn between."""
        age_s = now_s - self._scanned_s
        return (self._is_scan_wanted and age_s >= REFRESH_S) or (age_s > SCAN_S and now_s - self._listed_s < ASKED_S)

    def _complain(self, bug: Exception) -> None:
        """Once, and without whatever a trainer's line may do to a terminal."""
        if not self._has_complained:
            self._has_complained = True
            words = str(bug).encode("unicode_escape").decode("ascii")[:200]
            with suppress(OSError, ValueError):
                print(f"the page in the browser: {type(bug).__name__}: {words}", file=sys.stderr)

    def _step(self, now_s: float) -> float:
        """One refresh, or one piece of a curve; how long may pass before the next."""
        due = next((run for run in self._runs.values() if self._is_due(run, now_s)), None)
        if due is not None:
            try:
                if due.is_own or now_s - due.asked_s < ASKED_S or due.may_have_changed():
                    due.refresh(now_s)
                else:
                    due.note_refresh(now_s)
            except Exception as bug:
                due.note_failed_refresh(now_s, bug)  # or it would be due for ever, and no other run had its turn
                raise
            finally:
                with self._refreshed:
                    self._is_late = False
                    self._refreshed.notify_all()
            return 0.0
        for run in self._runs.values():
            is_asked = now_s - run.asked_s < ASKED_S
            if run.has_more and (is_asked or run.is_own) and run.draw():
                return ALONE_PAUSE_S if self._own is None else PAUSE_S if is_asked else IDLE_PAUSE_S
            if run.is_drawn and not run.is_own and now_s - max(run.asked_s, run.refreshed_s) > FORGET_S:
                run.forget()
        asked_s = max([self._listed_s, *(run.asked_s for run in self._runs.values())])
        return REFRESH_S / 4 if now_s - asked_s < ASKED_S else IDLE_S

    def _is_due(self, run: ServedRun, now_s: float) -> bool:
        age_s = now_s - run.refreshed_s
        if now_s - run.asked_s < ASKED_S:
            return age_s >= REFRESH_S
        if now_s - self._listed_s < ASKED_S:
            return age_s >= (REFRESH_S if run.is_own else LIST_S)
        return run.is_own and age_s >= IDLE_S

    # -- which runs ----------------------------------------------------------------------------------------------------

    def _scan(self) -> None:
        """Names stay with their directories; those that are gone are no longer listed."""
        found = [self._own] if self._own is not None else []
        left_out = 0
        for place in self._places:
            shown, others = find_runs(place, self._wanted)
            found += [run_dir for run_dir in shown if run_dir not in found]
            left_out += others
        known = {run.run_dir: run for run in self._runs.values()}
        runs: dict[str, ServedRun] = {}
        taken = {run.name for run_dir, run in known.items() if run_dir in found}
        for run_dir in found:
            run = known.get(run_dir) or ServedRun(free_name(run_dir, taken), run_dir, is_own=run_dir == self._own)
            taken.add(run.name)
            runs[run.name] = run
        self.left_out = left_out
        self._runs = runs  # replaced, never changed: others are reading it
        self._scanned_s = self._clock.now_s()
        with self._refreshed:
            self._scans += 1
            self._is_late = False
            self._refreshed.notify_all()
