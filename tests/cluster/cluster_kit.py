"""A Slurm of isolated nodes on this machine, and what the tests ask of a run on it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from sentinel.client.run_layout import JOURNAL_NAME
from sentinel.errors import JournalError
from sentinel.journal.store import Journal
from sentinel.launcher.slurm.attempt import run_prefix
from sentinel.model.facts import Entry

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOOP = [sys.executable, str(HERE / "ranked_loop.py")]


def wait_for(what: str, ready: Callable[[], Any], deadline_s: float = 90.0) -> Any:
    """The first true answer of `ready`. Raises AssertionError when there is none in time."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if answer := ready():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"no {what} within {deadline_s:.0f} s")


class Cluster:
    """Three nodes, n1 to n3. `scratch`: of this cluster alone."""

    def __init__(self, scratch: Path, nodes: int = 3, base: int = 18000) -> None:
        self.scratch = scratch
        self.environ = dict(os.environ) | {"R": str(scratch), "NODES": str(nodes), "BASE": str(base)}
        self.environ["SLURM_CONF"] = str(scratch / "slurm.conf")
        try:
            self._script("nodes_up.sh")
        except subprocess.SubprocessError:
            self.down()
            raise

    def down(self) -> None:
        self._script("nodes_down.sh")

    def off(self, node: str) -> None:
        self._script("node_off.sh", node)

    def on(self, node: str) -> None:
        self._script("node_on.sh", node)

    def is_on(self, node: str) -> bool:
        return Path(f"/proc/{int((self.scratch / f'node.{node}.pid').read_text())}/task").exists()

    def controller(self, signal_number: int) -> None:
        os.kill(int((self.scratch / "slurmctld.pid").read_text()), signal_number)

    def configure(self, **settings: int) -> None:
        """Change slurm.conf while Slurm runs: how soon it notices that a node is gone."""
        path = self.scratch / "slurm.conf"
        text = path.read_text()
        for name, value in settings.items():
            text, found = re.subn(rf"(?m)^{name}=.*$", f"{name}={value}", text)
            assert found == 1, f"{name} stands in slurm.conf {found} times"
        path.write_text(text)
        self.ask("scontrol", "reconfigure")

    def ask(self, *words: str) -> str:
        done = subprocess.run(words, env=self.environ, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def submit(self, run: Run, nodes: int = 3, *more: str) -> None:
        """A batch job on so many nodes, whose script is the run's command line."""
        script = self.scratch / f"{run.log.stem}.sbatch"
        options = [
            f"--nodes={nodes}",
            "--ntasks-per-node=1",
            "--no-kill",
            "--requeue",
            "--open-mode=append",
            f"--output={run.log}",
            *more,
        ]
        lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), f"cd {ROOT}", f"export PYTHONPATH={ROOT}"]
        script.write_text("\n".join([*lines, run.script, f"echo left with $? | tee {run.left}"]) + "\n")
        run.job = self.ask("sbatch", "--parsable", str(script)).strip()

    def steps(self, run: Run) -> list[tuple[str, str]]:
        """Id and name of every step of the run's attempts that squeue lists."""
        lines = self.ask("squeue", "--steps", "--noheader", "--jobs", run.job, "--Format", "stepid:64,stepname:128").splitlines()
        return [(words[0], words[1]) for line in lines if (words := line.split())[1].startswith("s-")]

    def log(self, daemon: str) -> str:
        return (self.scratch / "log" / f"{daemon}.log").read_text(errors="replace")

    def job_state(self, job: str) -> str:
        """As squeue has it; empty where there is no such job."""
        return self.ask("squeue", "--noheader", "--states", "all", "--jobs", job, "--format", "%T").strip()

    def _script(self, name: str, *words: str) -> None:
        with open(self.scratch / "scripts.log", "ab") as log:  # a pipe would stay open in the daemons
            subprocess.run([str(HERE / name), *words], env=self.environ, stdout=log, stderr=log, timeout=60, check=True)


class Run:
    """One run under the launcher slurm, supervised in the batch step of a job."""

    def __init__(
        self, run_dir: Path, steps: int, step_s: float = 0.05, *options: str, policy: str = "demo", train: list[str] | None = None
    ) -> None:
        """`train`: the command of a rank, in place of a loop of so many steps."""
        self.run_dir, self.job = run_dir, ""
        base = run_dir.parent / re.sub(r"[^a-z0-9]", "-", run_dir.name)  # a run directory may be called anything
        self.log, self.left = base.with_suffix(".log"), base.with_suffix(".left")
        words = [sys.executable, "-m", "sentinel", "run", "--run-dir", str(run_dir), "--policy", policy]
        words += ["--listen", "off", "--launcher", "slurm", "--launcher-option", "every=1s", *options]
        self.command = shlex.join([*words, "--", *(train or [*LOOP, str(steps), str(step_s)])])
        self.script = self.command  # of the batch job; a test may do more before

    @property
    def status(self) -> int | None:
        """With which the supervisor left; None while it has not."""
        return int(self.left.read_text().split()[-1]) if self.left.exists() and self.left.read_text().strip() else None

    def step_name(self, attempt: int) -> str:
        return f"{run_prefix(self.run_dir)}{attempt}"

    def facts(self) -> list[Entry]:
        try:
            with Journal.open(self.run_dir / JOURNAL_NAME, read_only=True) as journal:
                return list(journal.read_entries())
        except JournalError:
            return []

    def of(self, *kinds: type[Any]) -> list[Any]:
        return [entry.fact for entry in self.facts() if isinstance(entry.fact, kinds)]

    def time_of(self, kind: type[Any], at: int = -1) -> float:
        return [entry for entry in self.facts() if isinstance(entry.fact, kind)][at].at_s

    def newest_step(self, attempt: int) -> int:
        place = self.run_dir / "attempts" / f"{attempt:04d}" / "heartbeats" / "rank-00000.json"
        try:
            return int(json.loads(place.read_text())["step"])
        except (FileNotFoundError, ValueError):
            return 0

    def until_step(self, attempt: int, step: int, deadline_s: float = 90.0) -> None:
        wait_for(f"step {step} of attempt {attempt}; {self.tail()}", lambda: self.newest_step(attempt) >= step, deadline_s)

    def until_left(self, deadline_s: float = 120.0) -> int:
        def has_left() -> bool:
            return self.status is not None

        wait_for(f"end of the run {self.run_dir}", has_left, deadline_s)
        assert self.status is not None
        return self.status

    def spans(self) -> dict[int, tuple[float, float]]:
        """Of each attempt, from when to when processes of it were there, by their own notes."""
        found: dict[int, tuple[float, float]] = {}
        for place in (self.run_dir / "ran").iterdir():
            attempt = int(place.name.split("-")[0])
            times = [float(line.split()[1]) for line in place.read_text().splitlines()]
            low, high = found.get(attempt, (times[0], times[-1]))
            found[attempt] = (min(low, times[0]), max(high, times[-1]))
        return found

    def processes(self, attempt: int) -> list[str]:
        """RANK-NODE-PID of each process that ever ran in the attempt; a pid counts in its node."""
        return sorted(place.name.split("-", 1)[1] for place in (self.run_dir / "ran").glob(f"{attempt}-*"))

    def tail(self) -> str:
        return self.log.read_text()[-1500:] if self.log.exists() else "no log"


class Listing:
    """What squeue lists of a run's steps, all the time: two attempts must never be there at once.

    with Listing(cluster, run) as listing: ...
    """

    def __init__(self, cluster: Cluster, run: Run, every_s: float = 0.1) -> None:
        self._cluster, self._run, self._every_s = cluster, run, every_s
        self.seen: list[frozenset[str]] = []  # the names at once, one after the other
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="listing", daemon=True)

    def __enter__(self) -> Listing:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._is_over.set()
        self._thread.join(30.0)

    @property
    def doubles(self) -> list[frozenset[str]]:
        """Where several were there."""
        return [names for names in self.seen if len(names) > 1]

    def _look(self) -> None:
        while not self._is_over.wait(self._every_s):
            with suppress(AssertionError, subprocess.TimeoutExpired):  # a controller that is away lists nothing
                listed = [name for _, name in self._cluster.steps(self._run)]
                names = frozenset(f"{number} {name}" for number, name in enumerate(sorted(listed)))
                if not self.seen or self.seen[-1] != names:
                    self.seen.append(names)


def kill_in_node(cluster: Cluster, name: str, pattern: str, number: int = signal.SIGKILL) -> None:
    """A signal to the processes of a node whose command line has the pattern."""
    root = int((cluster.scratch / f"node.{name}.pid").read_text())
    child = int(Path(f"/proc/{root}/task/{root}/children").read_text().split()[0])
    subprocess.run(
        ["nsenter", "--target", str(child), "--pid", "--mount", "pkill", f"-{number}", "-f", pattern], check=True, timeout=20
    )


def ready_script(run: Run) -> str:
    """deploy/slurm/steps.sbatch as it stands there, with the run's own command. Sentinel runs elsewhere than the standby lies."""
    text = (ROOT / "deploy" / "slurm" / "steps.sbatch").read_text()
    head, _, rest = text.partition("command=(")
    assert head.startswith("#!"), "the head is Slurm's, and another here"
    _, _, rest = rest.partition("train.py)\n")
    script = f"command=({run.command})\n{rest}"
    script = script.replace("standby.sh", str(ROOT / "deploy" / "slurm" / "standby.sh")).replace(
        "standby-%j.%t.out", f"{run.log}.%t"
    )
    return script.replace('exit "$code"', f'echo left with "$code" | tee {run.left}; exit "$code"')


def attempts_overlap(run: Run) -> bool:
    spans = sorted(run.spans().items())
    return any(later[1][0] < earlier[1][1] for earlier, later in pairwise(spans))


def tell(name: str, **figures: float) -> None:
    """What was measured, for whoever reads the output."""
    print(f"\n{name}: " + ", ".join(f"{key} {value:.1f} s" for key, value in figures.items()))
