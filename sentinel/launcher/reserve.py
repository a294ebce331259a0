"""The supervisor's side of a reserve: made while the run trains, given up when memory is short, handed the next attempt.

    reserve.look(now_s, attempt, is_settled)      from the loop, at every whole look: never waits
    reserve.take(spec, grace_s)                   from a launch; what came of it is seen in the attempt's files

A reserve that is of no use costs a cold start and nothing else. docs/design/warm.md has the whole.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import warm_offer_path
from sentinel.client.strict_json import dumps
from sentinel.launcher.environment import read_recorded
from sentinel.launcher.exit_report import read_object
from sentinel.launcher.keeper_line import KeeperLine, start_keeper_ahead
from sentinel.launcher.memory import free_ratio
from sentinel.launcher.reserve_start import StartThread
from sentinel.launcher.warm_command import NotWarm, read_command
from sentinel.model.amounts import time_words
from sentinel.model.attempts import AttemptSpec
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.run_files.warm_standing import State, WarmStanding, write_warm

AGAIN_S = 60.0  # after one that died or was given up
COMING_MAX_S = 300.0  # imports of minutes come from a filesystem that does not answer
FREE_MIN, FREE_TO_MAKE = 0.10, 0.20  # of the memory: less, and it is given up; at least so much, and one is made


@dataclass(slots=True, kw_only=True)
class ReserveLine(KeeperLine):
    """A reserve keeper's. `attempt`: under which it was made. `made_s`: session seconds."""

    attempt: int
    made_s: float
    is_ready: bool = False


class Reserve:
    """One supervisor's. `withheld`: variables that nothing it starts inherits. `free`: the share of memory that is left.
    `start_thread`: starts a thread that has the priority and the processors of the ranks, which the supervisor's own have not."""

    def __init__(
        self, run_dir: Path, withheld: frozenset[str] = frozenset(), free: Callable[[], float | None] = free_ratio
    ) -> None:
        self._run_dir = run_dir
        self._withheld = withheld
        self._free = free
        self.start_thread: StartThread | None = None
        self._held: ReserveLine | None = None
        self._lock = threading.Lock()  # a launch comes from another thread than the looks
        self._not_before_s = 0.0
        self._useless: set[int] = set()  # attempts whose offer can never be made good
        self._standing = WarmStanding("none", "no attempt has trained yet")
        self._tell(self._standing)

    def look(self, now_s: float, attempt: int, is_settled: bool) -> None:
        """`attempt`: the one that is watched; `is_settled`: it trains, and nothing is being repaired."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._held is not None:
                self._watch(now_s)
            elif is_settled and attempt not in self._useless and now_s >= self._not_before_s:
                self._not_before_s = now_s + AGAIN_S
                self._make(now_s, attempt)
        finally:
            self._lock.release()

    def take(self, spec: AttemptSpec, grace_s: float, direct: bool = False) -> None:
        """Hand the attempt over, whose spec.json is written. Where that does not start it, it may be started cold: one that
        answers late finds the attempt taken, as any second keeper does. `grace_s`, `direct`: as LocalLauncher has them."""
        with self._lock:
            held, self._held = self._held, None
            if held is None:
                cold = self._standing.why
            else:
                self._not_before_s = 0.0
                with held.line:
                    cold = self._unfit(held, spec) or self._hand(held, spec.attempt, grace_s, direct)
            last = f"attempt {spec.attempt}: {f'cold: {cold}' if cold else 'warm'}"
            self._tell(WarmStanding("none", f"attempt {spec.attempt} has only begun", last=last))

    def _hand(self, held: ReserveLine, attempt: int, grace_s: float, direct: bool) -> str:
        """Why it was no warm start; empty where it was one."""
        answer = held.hand(AttemptFiles(self._run_dir, attempt), grace_s, direct)
        return str(answer.get("cold", answer.get("gone", "the reserve did not answer")))

    def close(self) -> None:
        """The end of the socket ends what is behind it."""
        with self._lock:
            if self._held is not None:
                self._give_up("the supervisor has ended", float("inf"))

    def _unfit(self, held: ReserveLine, spec: AttemptSpec) -> str:
        if not held.is_ready:
            return "the reserve was not ready yet"
        before = read_recorded(AttemptFiles.of(self._run_dir, held.attempt))
        if before is None or spec.environment is None:
            return "it is not known what the reserve was made from"
        if before != spec.environment:
            return "source, configuration, libraries or variables are others than those the reserve was made from"
        return ""

    def _watch(self, now_s: float) -> None:
        assert self._held is not None
        share = self._free()
        if share is not None and share < FREE_MIN:
            self._give_up(f"memory was short: {share:.0%} of it was left", now_s)
            return
        try:
            messages = self._held.lines()
        except BlockingIOError:
            messages = []
        except (OSError, ValueError) as error:
            self._give_up(f"it could not be heard: {error}", now_s)
            return
        if messages is None:
            self._give_up("its processes were ended by somebody", now_s)
            return
        for one in messages:
            if "gone" in one:
                self._give_up(str(one["gone"]), now_s)
                return
            if "standing" in one:
                self._note(one["standing"])
        if not self._held.is_ready and now_s - self._held.made_s > COMING_MAX_S:
            self._give_up(f"it was not ready after {time_words(COMING_MAX_S)}", now_s)

    def _note(self, standing: dict[str, Any]) -> None:
        assert self._held is not None
        ready, ranks = int(standing["ready"]), int(standing["ranks"])
        self._held.is_ready = ready == ranks
        state: State = "ready" if self._held.is_ready else "coming"
        found = replace(self._standing, state=state, ranks=ranks, ready=ready, memory_bytes=int(standing["bytes"]))
        self._tell(found)

    def _make(self, now_s: float, attempt: int) -> None:
        share = self._free()
        if share is None or share < FREE_TO_MAKE:
            left = "unknown" if share is None else f"{share:.0%}"
            self._none(f"memory: what is left is {left}, and one is made from {FREE_TO_MAKE:.0%} on")
            return
        files = AttemptFiles.of(self._run_dir, attempt)
        try:
            spec = read_object(files.spec) or {}
            modules = (read_object(warm_offer_path(self._run_dir, attempt)) or {}).get("modules")
            if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
                self._none("the trainer offers no imports (sentinel.client.warm.offer); it is started cold")
                return
            if spec.get("trainer") is not None:
                raise NotWarm("a trainer under a profile is started and followed by its profile")
            argv, cwd = [str(word) for word in spec.get("argv") or ()], str(spec.get("cwd"))
            ranks = read_command(argv, cwd).ranks or 1
            make = {"argv": argv, "cwd": cwd, "modules": modules, "log": str(self._run_dir / "warm.err")}
            self._held = ReserveLine(self._start({"make": make}), attempt=attempt, made_s=now_s)
            self._tell(replace(self._standing, state="coming", why="", ranks=ranks, ready=0, memory_bytes=0))
        except NotWarm as error:
            self._useless.add(attempt)
            self._none(f"this command is started cold: {error}")
        except OSError as error:
            self._none(f"it could not be made: {error}")

    def _start(self, make: dict[str, Any]) -> socket.socket:
        line = start_keeper_ahead(self._withheld, self.start_thread)
        line.send(dumps(make).encode() + b"\n")
        return line

    def _give_up(self, why: str, now_s: float) -> None:
        assert self._held is not None
        self._held.line.close()
        self._held = None
        self._not_before_s = now_s + AGAIN_S
        self._none(why)

    def _none(self, why: str) -> None:
        self._tell(WarmStanding("none", why, last=self._standing.last))

    def _tell(self, standing: WarmStanding) -> None:
        if standing != self._standing or standing.state == "none":
            self._standing = standing
            write_warm(self._run_dir, standing)
