"""A real `sentinel run` in a process of its own (see forked_sentinel), and what the tests ask of its run directory."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError
from sentinel.journal.store import Journal
from sentinel.model.facts import Entry
from tests import warm
from tests.integration.forked_sentinel import ForkedSentinel, run_sentinel

HERE = Path(__file__).resolve().parent
DEADLINE_S = 90.0


def wait_for(what: str, ready: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """Poll until `ready` answers; a test never waits longer than the deadline nor a fixed time. What is costly to ask is asked
    less often: what is waited for needs the processor, too."""
    end = time.monotonic() + deadline_s
    while (asked := time.monotonic()) < end:
        answer = ready()
        if answer:
            return answer
        time.sleep(max(0.02, 2 * (time.monotonic() - asked)))
    raise AssertionError(f"no {what} within {deadline_s:.0f} s")


@dataclass
class Supervised:
    run_dir: Path
    command: list[str]
    policy: str = "demo"
    options: list[str] = field(default_factory=list)
    child: ForkedSentinel | None = None

    def start(self, dies_at: str | None = None) -> Supervised:
        """`sentinel run`, without a page unless one is asked for; with `dies_at`, one that is killed at that place (see
        mortal_supervisor)."""
        page = [] if "--listen" in self.options else ["--listen", "off"]
        options = [*self.options, *(word for word in warm.run_options() if word not in self.options and self.can_be_warm)]
        words = ["run", "--run-dir", str(self.run_dir), "--policy", self.policy, *options, *page, "--", *self.command]
        log = self.run_dir.parent / f"{self.run_dir.name}.log"
        log.touch()  # whoever asks for it before the forked process has opened it
        self.child = ForkedSentinel(words, log, log, dies_at=dies_at)
        return self

    @property
    def can_be_warm(self) -> bool:
        return "--launcher" not in self.options

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        assert self.child is not None
        return self.child.wait(deadline_s)

    @property
    def has_ended(self) -> bool:
        return self.child is not None and self.child.poll() is not None

    def kill(self) -> None:
        """kill -9 of the supervisor, not of what it supervises."""
        assert self.child is not None
        self.child.send_signal(signal.SIGKILL)
        self.child.wait(10)

    def facts(self) -> list[Entry]:
        """The journal, oldest first; empty before there is one. It is opened read-only and disturbs nobody."""
        try:
            with Journal.open(self.run_dir / JOURNAL_NAME, read_only=True) as journal:
                return list(journal.read_entries())
        except JournalError:
            return []

    @property
    def log(self) -> str:
        return (self.run_dir.parent / f"{self.run_dir.name}.log").read_text()

    def lines(self, attempt: int) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self._texts(attempt)]

    def _texts(self, attempt: int) -> list[str]:
        """The whole lines of an attempt's stream."""
        try:
            text = (self.run_dir / "attempts" / f"{attempt:04d}" / "metrics.jsonl").read_text()
        except FileNotFoundError:
            return []
        return text[: text.rfind("\n") + 1].splitlines()

    def last_step(self, attempt: int) -> int:
        newest_first = (json.loads(text) for text in reversed(self._texts(attempt)))
        return next((int(line["step"]) for line in newest_first if line["kind"] == "step"), 0)

    def attempts(self) -> list[int]:
        folder = self.run_dir / "attempts"
        return sorted(int(p.name) for p in folder.iterdir()) if folder.is_dir() else []

    def surviving(self) -> dict[int, dict[str, Any]]:
        """Step → its line on the surviving lineage: a later attempt overwrites what it trained again."""
        steps: dict[int, dict[str, Any]] = {}
        for attempt in self.attempts():
            lines = self.lines(attempt)
            start = next((line for line in lines if line["kind"] == "start"), None)
            if start is not None:
                steps = {step: line for step, line in steps.items() if step <= start["resume_step"]}
            steps |= {line["step"]: line for line in lines if line["kind"] == "step"}
        return steps

    def incidents(self) -> list[dict[str, Any]]:
        return self._json("incidents")

    def status(self) -> dict[str, Any]:
        return self._json("status")

    def _json(self, verb: str) -> Any:
        done = run_sentinel(verb, str(self.run_dir), "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def living(self) -> list[int]:
        """Processes that carry this run's mark in their environment, keepers included."""
        mark = f"SENTINEL_RUN_DIR={os.path.realpath(self.run_dir)}".encode()
        found = []
        for process in psutil.process_iter():
            try:
                environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark in environment:
                found.append(process.pid)
        return found


def double(steps: int, step_s: float = 0.005, **faults: object) -> list[str]:
    words = [sys.executable, str(HERE / "double_trainer.py"), str(steps), str(step_s)]
    for name, value in faults.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words
