"""The world a launcher acts in, as far as its conformance tests need one: start jobs, hurt them, look at what is left.

A launcher joins the suite by implementing `World` and adding a factory to `WORLDS` in conftest.py; the default one's is
`LocalWorld`. Whatever the suite says of one must then hold for every other, but for what a test marked `kept` asks: that
processes are seen, signalled and reaped one by one, which takes a keeper beside them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import psutil

from sentinel.launcher.contract import Launcher
from sentinel.launcher.local import LocalLauncher
from sentinel.model.attempts import AttemptSpec, AttemptView, SettingsInForce

HERE = Path(__file__).parent
DEADLINE_S = 30.0
LOOK_EVERY_S = 0.01


@dataclass(frozen=True)
class Job:
    """What the trainer double does. It runs until told to leave; `leave_with` maps a rank (or "all") to its exit code."""

    ranks: int = 1
    leave_with: Mapping[str, int] = field(default_factory=dict)
    records: bool = True
    beats: bool = True
    ignores_sigterm: bool = False
    helpers: int = 0  # processes per rank with sessions of their own and nothing of sentinel's in their environment


class World(Protocol):
    """One run directory and its processes. Everything a supervisor would remember is in the world, not in the launcher."""

    def launcher(self) -> Launcher:
        """A new supervisor's launcher, which remembers nothing."""
        ...

    def observe(self, attempt: int) -> AttemptView:
        """What a new supervisor sees at its first look."""
        ...

    def spec(self, attempt: int, job: Job) -> AttemptSpec: ...

    def bad_spec(self, attempt: int) -> AttemptSpec:
        """A command that can never be started."""
        ...

    def start_and_die(self, spec: AttemptSpec) -> None:
        """A supervisor starts the attempt and is killed in the next moment."""
        ...

    def until_running(self, attempt: int, job: Job) -> None:
        """Every rank has shown a heartbeat (or, in a job without, has begun)."""
        ...

    def until_view(self, attempt: int, kind: type[Any], deadline_s: float = DEADLINE_S) -> Any:
        """Wait until `observe` gives this kind of view, and return it."""
        ...

    def let_leave(self, attempt: int) -> None: ...

    def signal_rank(self, attempt: int, rank: int, signal_number: int) -> None: ...

    def signal_keeper(self, attempt: int, signal_number: int) -> None: ...

    def signalled(self, attempt: int, ranks: int) -> None:
        """Wait until so many ranks have received SIGUSR1."""
        ...

    def starts(self, attempt: int) -> int:
        """How often the job was really started."""
        ...

    def living(self, attempt: int) -> list[int]:
        """What lives of the attempt, without its keeper, by a look at the world that is not the launcher's."""
        ...

    def close(self) -> None:
        """End everything, and fail if something could not be ended or stays behind."""
        ...


def wait_for(look: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """The first true value of `look`; an AssertionError naming `what` when it stays false."""
    deadline = time.monotonic() + deadline_s
    while not (seen := look()):
        assert time.monotonic() < deadline, f"waited {deadline_s:g} s for {what}"
        time.sleep(LOOK_EVERY_S)
    return seen


class LocalWorld:
    """Real processes on this machine. Jobs of several ranks run under torchrun's double, or under torchrun itself."""

    def __init__(self, run_dir: Path, real_torchrun: bool = False) -> None:
        self.run_dir = run_dir
        self._real_torchrun = real_torchrun
        self._attempts: set[int] = set()
        self._helpers: list[psutil.Process] = []
        self._others = {child.pid for child in psutil.Process().children()}  # of earlier tests in this process

    def launcher(self) -> Launcher:
        return LocalLauncher(self.run_dir)

    def observe(self, attempt: int) -> AttemptView:
        return self.launcher().observe(attempt)

    def spec(self, attempt: int, job: Job) -> AttemptSpec:
        self._attempts.add(attempt)
        program = [sys.executable, "-I", "-S", str(HERE / "rank_double.py"), json.dumps(asdict(job))]
        if job.ranks > 1 and self._real_torchrun:
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={job.ranks}"]
            program = [*torchrun, program[-2], program[-1]]
        elif job.ranks > 1:
            program = [sys.executable, "-I", "-S", str(HERE / "torchrun_double.py"), str(job.ranks), *program]
        return AttemptSpec(attempt, tuple(program), str(self.run_dir), None, SettingsInForce())

    def bad_spec(self, attempt: int) -> AttemptSpec:
        self._attempts.add(attempt)
        return AttemptSpec(attempt, ("/no/such/program",), str(self.run_dir), None, SettingsInForce())

    def start_and_die(self, spec: AttemptSpec) -> None:
        self._start_and_die(spec, "open_launcher('local', {}, LaunchPlace(sys.argv[1]))")

    def _start_and_die(self, spec: AttemptSpec, launcher: str) -> None:
        """`launcher`: the expression that opens it over the run directory in argv[1]."""
        program = (
            "import json, os, signal, sys\n"
            "from sentinel.launcher.registry import LaunchPlace, open_launcher\n"
            "from sentinel.model.attempts import AttemptSpec, SettingsInForce\n"
            "argv = json.loads(sys.argv[2])\n"
            f"spec = AttemptSpec({spec.attempt}, tuple(argv), sys.argv[1], None, SettingsInForce())\n"
            f"{launcher}.ensure_started(spec)\n"
            "os.kill(0, signal.SIGKILL)\n"  # itself and its whole process group, as a service manager would
        )
        command = [sys.executable, "-c", program, str(self.run_dir), json.dumps(spec.argv)]
        ended = subprocess.run(command, start_new_session=True, timeout=DEADLINE_S, check=False)
        assert ended.returncode == -signal.SIGKILL, "the supervisor was to die of SIGKILL"

    def folder(self, attempt: int) -> Path:
        return self.run_dir / "attempts" / f"{attempt:04d}"

    def until_running(self, attempt: int, job: Job) -> None:
        folder = self.folder(attempt)
        if job.beats:
            wait_for(lambda: len(list(folder.glob("heartbeats/rank-*.json"))) == job.ranks, f"{job.ranks} heartbeats")
        else:
            wait_for(lambda: self.starts(attempt), "rank 0 to begin")
        for pid in self.living(attempt):
            self._helpers += psutil.Process(pid).children(recursive=True)

    def until_view(self, attempt: int, kind: type[Any], deadline_s: float = DEADLINE_S) -> Any:
        launcher = self.launcher()

        def look() -> AttemptView | None:
            view = launcher.observe(attempt)
            return view if isinstance(view, kind) else None

        return wait_for(look, f"{kind.__name__}, not {launcher.observe(attempt)}", deadline_s)

    def let_leave(self, attempt: int) -> None:
        (self.folder(attempt) / "leave").touch()

    def signal_rank(self, attempt: int, rank: int, signal_number: int) -> None:
        os.kill(json.loads((self.folder(attempt) / "heartbeats" / f"rank-{rank:05d}.json").read_text())["pid"], signal_number)

    def signal_keeper(self, attempt: int, signal_number: int) -> None:
        keeper = psutil.Process(self._keeper_pid(attempt))
        keeper.send_signal(signal_number)
        if signal_number == signal.SIGKILL:
            wait_for(lambda: not is_living(keeper), "the keeper to die")

    def signalled(self, attempt: int, ranks: int) -> None:
        wait_for(lambda: len(list(self.folder(attempt).glob("signalled-?"))) == ranks, f"SIGUSR1 at {ranks} ranks")

    def starts(self, attempt: int) -> int:
        path = self.folder(attempt) / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def living(self, attempt: int) -> list[int]:
        mark = {"SENTINEL_RUN_DIR": os.path.realpath(self.run_dir), "SENTINEL_ATTEMPT": str(attempt)}
        found = []
        for process in psutil.process_iter():
            try:
                if is_living(process) and mark.items() <= process.environ().items():
                    found.append(process.pid)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def close(self) -> None:
        for attempt in self._attempts:
            self.launcher().ensure_stopped(attempt)
        for attempt in self._attempts:
            assert self.living(attempt) == [], f"strays of attempt {attempt}"
            if (self.folder(attempt) / "keeper.json").exists():
                wait_for(partial(_is_gone, self._keeper_pid(attempt)), "the keeper to leave")
        assert [process for process in self._helpers if is_living(process)] == [], "strays without a mark"
        wait_for(lambda: not self._zombies(), "the launcher to reap its children")  # a question's child is one for an instant

    def _zombies(self) -> list[psutil.Process]:
        ours = (child for child in psutil.Process().children() if child.pid not in self._others)
        return [child for child in ours if _is_zombie(child)]

    def _keeper_pid(self, attempt: int) -> int:
        return int(json.loads((self.folder(attempt) / "keeper.json").read_text())["pid"])


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_gone(pid: int) -> bool:
    try:
        return not is_living(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def is_living(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
