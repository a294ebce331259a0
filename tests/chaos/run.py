"""A run of the bundled trainer at its smallest, two ranks under torchrun, and the `sentinel run` that supervises it.

Everything is a process of its own: what strikes them from here is what would strike them anywhere.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from sentinel.cli.bundled_trainer import fault_words, launch_words, precision_words
from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError
from sentinel.journal.store import Journal
from sentinel.model.facts import Entry
from tests import warm

RANKS = 2
EVERY = 20  # steps between checkpoints
LOOK_S = 0.02
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
POLICY = HERE / "policy.yaml"


class Unfinished(AssertionError):
    """Something that had to come did not come in time."""


@dataclass
class ChaosRun:
    """One run. `words`: of the trainer, beside its sizes. `struck_s`: wall time of the fault, once it has struck."""

    run_dir: Path
    steps: int
    words: Sequence[str] = ()
    precision: str = "fp32"
    every: int = EVERY
    sentinel: subprocess.Popen[bytes] | None = None
    struck_s: float | None = None
    furthest_step: int = 0  # that was reported when the fault struck
    starts: int = 0
    peak_bytes: int = 0  # of any supervisor
    _offsets: dict[Path, int] = field(default_factory=dict)

    # -- the supervisor ------------------------------------------------------------------------------------------------

    def start(self) -> ChaosRun:
        """`sentinel run`, from the beginning or where it stands."""
        self.starts += 1
        options = ["--policy", str(POLICY), "--listen", "off", *warm.run_options()]
        words = ["run", "--run-dir", str(self.run_dir), *options, "--", *self.command()]
        with self.log_path.open("ab") as log:
            self.sentinel = subprocess.Popen(
                [sys.executable, "-m", "sentinel", *words],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return self

    def command(self) -> list[str]:
        sizes = f"schedule.steps={self.steps}", "data.batch_size=16", "data.seq_len=128", f"checkpoint.every={self.every}"
        hidden = ["env", "CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=1"]
        setting = ["--set", *sizes, "parallel.threads=1"]
        words = [*precision_words(self.precision), *setting, *warm.trainer_words(RANKS), *self.words]
        return [*hidden, *launch_words(RANKS), "--preset", "micro", *words]

    @property
    def log_path(self) -> Path:
        return self.run_dir.parent / f"{self.run_dir.name}.log"

    @property
    def supervisor(self) -> int:
        assert self.sentinel is not None, "the run was started"
        return self.sentinel.pid

    def wait(self, within_s: float) -> int:
        """The exit code of `sentinel run`. Raises Unfinished."""
        assert self.sentinel is not None, "the run was started"
        end_s = time.monotonic() + within_s
        while (code := self.sentinel.poll()) is None:
            if time.monotonic() > end_s:
                raise Unfinished(f"sentinel run was not over within {within_s:.0f} s")
            self.note_memory()
            time.sleep(0.2)
        return code

    def kill_supervisor(self) -> None:
        assert self.sentinel is not None, "the run was started"
        self.sentinel.kill()
        self.sentinel.wait()

    def note_memory(self) -> int:
        """Resident bytes of the supervisor just now; 0 where it is gone."""
        try:
            now = psutil.Process(self.supervisor).memory_info().rss
        except psutil.NoSuchProcess:
            return 0
        self.peak_bytes = max(self.peak_bytes, now)
        return now

    def end(self) -> None:
        """Nothing of the run is left behind, however it ended."""
        if self.sentinel is not None and self.sentinel.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.supervisor, signal.SIGCONT)
            self.kill_supervisor()
        for pid in self.living():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # -- its processes -------------------------------------------------------------------------------------------------

    def living(self) -> list[int]:
        """Processes that carry the run's mark: keeper, torchrun and ranks."""
        mark = f"SENTINEL_RUN_DIR={os.path.realpath(self.run_dir)}".encode()
        found = []
        for process in psutil.process_iter():
            if mark in _environment(process.pid):
                found.append(process.pid)
        return found

    def rank(self, rank: int) -> int:
        """The process of a rank."""
        found: int = wait_for(f"rank {rank}", lambda: self._pid_of(rank))
        return found

    def launcher(self) -> int:
        """torchrun's process."""
        return psutil.Process(self.rank(0)).ppid()

    def keeper(self) -> int:
        return int(json.loads((self.attempt_dir() / "keeper.json").read_text())["pid"])

    def _pid_of(self, rank: int) -> int | None:
        """By its environment: its heartbeats may be what was taken away. The newest, where another still dies."""
        ranks = [pid for pid in self.living() if f"RANK={rank}".encode() in _environment(pid)]
        return max(ranks, default=None)

    # -- its files -----------------------------------------------------------------------------------------------------

    def attempts(self) -> list[Path]:
        folder = self.run_dir / "attempts"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def attempt_dir(self) -> Path:
        """Of the newest attempt."""
        return self.attempts()[-1]

    def checkpoints(self) -> list[Path]:
        """The committed ones, by step."""
        return sorted(path.parent for path in (self.run_dir / "checkpoints").glob("step-*/manifest.json"))

    def lines(self, attempt: Path) -> Iterator[dict[str, Any]]:
        """The lines of a stream that can be read."""
        try:
            text = (attempt / "metrics.jsonl").read_bytes()
        except OSError:
            return
        for line in text.split(b"\n"):
            with suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    yield found

    def surviving(self) -> dict[int, dict[str, Any]]:
        """Step → its line on the surviving lineage: a later attempt overwrites what it trained again."""
        steps: dict[int, dict[str, Any]] = {}
        for attempt in self.attempts():
            for line in self.lines(attempt):
                if line.get("kind") == "start":
                    steps = {step: kept for step, kept in steps.items() if step <= line["resume_step"]}
                elif line.get("kind") == "step":
                    steps[line["step"]] = line
        return steps

    def newest_step(self) -> int:
        """The last one that any attempt has reported."""
        newest = 0
        for attempt in self.attempts()[-2:]:
            with suppress(OSError):
                text = (attempt / "metrics.jsonl").read_bytes()[-8192:]
                for line in reversed(text.split(b"\n")):
                    if line.startswith(b'{"kind":"step"'):
                        with suppress(ValueError):
                            newest = max(newest, json.loads(line)["step"])
                            break
        return newest

    def facts(self) -> list[Entry]:
        """The journal, oldest first; empty where it cannot be read."""
        try:
            with Journal.open(self.run_dir / JOURNAL_NAME, read_only=True) as journal:
                return list(journal.read_entries())
        except JournalError:
            return []

    # -- waiting -------------------------------------------------------------------------------------------------------

    def wait_for_step(self, step: int, within_s: float = 120.0) -> None:
        """Raises Unfinished, also where the supervisor has left before."""
        assert self.sentinel is not None, "the run was started"

        def reached() -> bool:
            return self.newest_step() >= step or (self.sentinel is not None and self.sentinel.poll() is not None)

        wait_for(f"step {step}", reached, within_s)
        if self.newest_step() < step:
            raise Unfinished(f"sentinel run left with {self.sentinel.poll()} before step {step}")

    def struck(self) -> None:
        """The fault strikes now."""
        self.furthest_step, self.struck_s = self.newest_step(), time.time()


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def wait_for(what: str, ready: Callable[[], Any], within_s: float = 60.0) -> Any:
    """What `ready` answers in the end. Raises Unfinished."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        asked_s = time.monotonic()
        if answer := ready():
            return answer
        time.sleep(max(LOOK_S, 2 * (time.monotonic() - asked_s)))
    raise Unfinished(f"no {what} within {within_s:.0f} s")


def faults_of_trainer(*texts: str) -> list[str]:
    """Words for the trainer's own fault injection (trainer/faults.py)."""
    return fault_words(texts)


@contextmanager
def small_disk(place: Path, mebibytes: int, inodes: int) -> Iterator[Path]:
    """A filesystem of its own, in memory. Raises Unfinished where it cannot be mounted."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,nr_inodes={inodes}", "tmpfs", str(place)]
    made = subprocess.run(mount, capture_output=True, text=True)
    if made.returncode:
        raise Unfinished(f"{place}: no small disk could be mounted: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], capture_output=True)


def fill(place: Path, leave_bytes: int = 0) -> io.FileIO:
    """Take all the room there is on its filesystem but so many bytes; closing and removing the file gives it back."""
    file = (place / "filler").open("wb", buffering=0)
    room = os.statvfs(place)
    left = room.f_bavail * room.f_frsize - leave_bytes
    with suppress(OSError):
        while left > 0:
            left -= file.write(b"\0" * min(left, 1 << 16)) or 0
    return file


def remove(run_dir: Path) -> None:
    shutil.rmtree(run_dir, ignore_errors=True)
