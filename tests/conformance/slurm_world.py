"""The launcher `slurm`, over doubles of Slurm's programs that start real processes on this machine."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

from sentinel.launcher.registry import LaunchPlace, open_launcher
from sentinel.launcher.slurm.steps import SlurmLauncher
from sentinel.model.attempts import AttemptSpec, SettingsInForce
from tests.conformance.command_world import CommandWorld
from tests.conformance.launcher_world import DEADLINE_S, HERE, Job, LocalWorld, wait_for

PROGRAMS = ("srun", "squeue", "scancel", "scontrol")


def _words_of(pid: int) -> list[str]:
    """Of its command line, paths by their last part."""
    try:
        return [os.path.basename(word) for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
    except OSError:
        return []


class SlurmWorld(CommandWorld):
    """No keeper. A rank is a task of the step: torchrun is not needed to have two."""

    kind = "slurm"

    def __init__(self, run_dir: Path, real_torchrun: bool = False) -> None:
        LocalWorld.__init__(self, run_dir, real_torchrun)
        self._launchers = []
        self._opened: list[SlurmLauncher] = []
        self._ranks = 1
        self._before = {name: os.environ.get(name) for name in ("PATH", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "DOUBLE_OF_SLURM")}
        programs, steps = run_dir / "slurm", run_dir / "steps"
        for folder in (programs, steps):
            folder.mkdir()
        for name in PROGRAMS:
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {HERE}/slurm_programs.py {name} "$@"\n')
            program.chmod(0o755)
        path = f"{programs}:{os.environ['PATH']}"
        os.environ.update({"PATH": path, "SLURM_JOB_ID": "71", "SLURM_JOB_NUM_NODES": "1", "DOUBLE_OF_SLURM": str(steps)})

    @property
    def options(self) -> dict[str, str]:
        return {"every": "0.05s", "ranks_per_node": str(self._ranks)}

    def launcher(self) -> SlurmLauncher:  # type: ignore[override]
        launcher = open_launcher(self.kind, self.options, LaunchPlace(self.run_dir, supervises=True))
        assert isinstance(launcher, SlurmLauncher)
        self._opened.append(launcher)
        return launcher

    def spec(self, attempt: int, job: Job) -> AttemptSpec:
        self._attempts.add(attempt)
        self._ranks = job.ranks
        for launcher in self._opened:  # the suite opens it before it says what is to be started
            launcher._settings = replace(launcher._settings, ranks_per_node=str(job.ranks))
        program = (sys.executable, "-I", "-S", str(HERE / "rank_double.py"), json.dumps(asdict(job)))
        return AttemptSpec(attempt, program, str(self.run_dir), None, SettingsInForce())

    def living(self, attempt: int) -> list[int]:
        """The shells in front of tasks are no part of the training."""
        return [pid for pid in super().living(attempt) if "rank_double.py" in _words_of(pid)[3:4]]

    def close(self) -> None:
        try:
            for attempt in self._attempts:
                self.launcher().ensure_stopped(attempt)
            for thread in threading.enumerate():  # a question under way has a child, which it reaps
                if thread.name == "slurm":
                    thread.join(DEADLINE_S)
            clients = [client for launcher in self._opened for client in launcher._clients.values()]
            wait_for(lambda: all(client.poll() is not None for client in clients), "the clients to leave")
            super().close()
        finally:
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
