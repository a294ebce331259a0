"""`sentinel mirror push`: a run pushed to its mirror, once or for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sentinel.client.atomic_file import ensure_directory
from sentinel.client.closed_files import open_closed
from sentinel.client.strict_json import dumps
from sentinel.clock import SystemClock
from sentinel.errors import JournalError, UsageError
from sentinel.journal.run_file import read_run_file
from sentinel.mirrors.opening import check_place, describe_shared_fate
from sentinel.mirrors.pushing import Mirroring, forget_mirror
from sentinel.mirrors.settings import MirrorSettings
from sentinel.mirrors.stores import MirrorError, Store
from sentinel.run_files.mirror_standing import (
    MirrorStanding,
    Part,
    PartStanding,
    mirror_folder,
    read_mirror_standing,
    write_mirror_standing,
)
from sentinel.signals import stop_event
from sentinel.telemetry.lasting_helper import stop_at_eof

AGAIN_S = 30.0  # after the first failure; doubled with each, up to
AGAIN_S_MAX = 300.0
NICE = 10  # behind everything else on the machine
Say = Callable[[str], None]


def mirror_settings(run_dir: Path, asked: Mapping[str, str] | None = None) -> tuple[MirrorSettings, str]:
    """Those of run.json, or those that are asked for; and the run's id. Raises UsageError."""
    run = read_run_file(run_dir)
    texts = asked or run.mirror
    if not texts:
        raise UsageError(f"{run_dir}: has no mirror; give it one with --to, or start the run with `sentinel run --mirror TO`")
    return MirrorSettings.of(f"{run_dir}: mirror", texts), run.id


def push(run_dir: Path, asked: Mapping[str, str] | None, follow: bool, until_eof: bool, anew: bool, say: Say) -> bool:
    """Push what is due; with `follow`, go on until this is interrupted; whether all of it is there. `until_eof`: as the
    supervisor's helper: interrupted also when nobody holds its standard input any more, and what it says of its standing is JSON.

    Raises UsageError. What the mirror's place does not do is said.
    """
    settings, run_id = mirror_settings(run_dir, asked)
    check_place(settings.to, run_dir)
    with suppress(OSError):
        os.nice(NICE)
    with stop_event() as stop:
        if until_eof:
            stop_at_eof(stop)
        with only_pusher(run_dir, stop if until_eof else None) as is_ours:
            if not is_ours:
                return False
            if anew:
                forget_mirror(run_dir)
            if words := describe_shared_fate(settings.to, run_dir):
                say(words)
            pushing = Pushing(run_dir, settings, run_id, say, tells=until_eof)
            if follow:
                pushing.follow(stop)
                return pushing.is_complete
            return pushing.once(stop)


class Pushing:
    """The parts, each in a thread; their standing, in a file and told."""

    def __init__(self, run_dir: Path, settings: MirrorSettings, run_id: str, say: Say, tells: bool) -> None:
        self._run_dir, self._say, self._tells = run_dir, say, tells
        self._clock = SystemClock()
        self._mirroring = Mirroring(run_dir, settings, run_id)
        known = read_mirror_standing(run_dir)
        before = known.parts if known is not None and known.to == settings.to else {}
        parts = {
            part: replace(before.get(part, PartStanding()), every_s=self._mirroring.every_s(part), error="")
            for part in self._mirroring.parts
        }
        self._standing = MirrorStanding(settings.to, self._clock.wall_s(), parts)
        self._turn = threading.Lock()
        self._reported_errors: dict[Part, str] = {}
        self._follows = False
        self._show()

    @property
    def is_complete(self) -> bool:
        return not any(one.error for one in self._standing.parts.values())

    def once(self, stop: threading.Event) -> bool:
        """One after the other: the journal first, which the rest is read with."""
        for part in self._mirroring.parts:
            if not stop.is_set():
                self._push(part, None, stop)
            found = self._standing.parts[part]
            if not found.error:
                self._say(f"{part}: {found.there or 'not pushed'}")
        return self.is_complete

    def follow(self, stop: threading.Event) -> None:
        self._follows = True
        parts = self._mirroring.parts
        threads = [threading.Thread(target=self._follow, args=(part, stop), name=f"mirror-{part}") for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _follow(self, part: Part, stop: threading.Event) -> None:
        """Until it is interrupted, and then once more, so that the end is there."""
        store: Store | None = None
        failures, is_last = 0, False
        while not is_last:
            is_last = stop.is_set()
            store, is_pushed = self._push(part, store, stop)
            failures = 0 if is_pushed else failures + 1
            wait_s = self._mirroring.every_s(part)
            if failures:
                wait_s = min(max(AGAIN_S * 2 ** min(failures - 1, 8), AGAIN_S), AGAIN_S_MAX)
            if not is_last:
                stop.wait(wait_s)

    def _push(self, part: Part, store: Store | None, stop: threading.Event) -> tuple[Store | None, bool]:
        """The store to go on with, None after a failure: the next one is opened anew; and whether it worked."""
        try:
            store = store or self._mirroring.open()
            self._note(part, self._mirroring.push(part, store, stop))
            return store, True
        except (MirrorError, UsageError, JournalError, OSError) as error:
            before = self._standing.parts[part]
            self._note(part, replace(before, error=str(error)))
            if self._reported_errors.get(part) != str(error):
                self._reported_errors[part] = str(error)
                self._say(f"{part} not mirrored: {error}{'; tried again after a pause' if self._follows else ''}")
            return None, False

    def _note(self, part: Part, found: PartStanding) -> None:
        with self._turn:
            if not found.error:
                self._reported_errors.pop(part, None)
            self._standing = replace(self._standing, parts={**self._standing.parts, part: found})
            self._show()

    def _show(self) -> None:
        with suppress(OSError):
            write_mirror_standing(self._run_dir, self._standing)
        if self._tells:
            self._say(dumps(self._standing.document()))


@contextmanager
def only_pusher(run_dir: Path, waits: threading.Event | None) -> Iterator[bool]:
    """Held by whoever pushes. `waits`: for one before to end what it has begun; False where it was set meanwhile.

    Raises UsageError.
    """
    path = mirror_folder(run_dir) / "push.lock"
    try:
        ensure_directory(path.parent)
        lock = open_closed(path, os.O_RDWR)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}; change the rights of this user") from error
    try:
        yield _hold(run_dir, lock, waits)
    finally:
        os.close(lock)


def _hold(run_dir: Path, lock: int, waits: threading.Event | None) -> bool:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if waits is None:
                who = "a supervisor's process, or a second `sentinel mirror push`,"
                raise UsageError(f"{run_dir}: {who} pushes it already; leave it to that one") from None
            if waits.wait(1.0):
                return False
        except OSError as error:
            raise UsageError(f"{run_dir}: its filesystem has no file locks ({error.strerror}); mount it with locks") from error
