"""The launcher `command`, over a scheduler of three shell scripts that starts real processes on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from sentinel.launcher.command import CommandLauncher
from sentinel.launcher.registry import LaunchPlace, open_launcher
from sentinel.model.attempts import AttemptSpec, AttemptView, Unseen
from tests.conformance.launcher_world import Job, LocalWorld, is_living, wait_for

# SCHEDULED is in the environment of the job alone, not in that of the shell around it or of a command of the launcher.
SCRIPTS = {
    "start": """
        command -v "$1" >/dev/null || { echo "no such program: $1"; exit 127; }
        logs="$SENTINEL_RUN_DIR/attempts/$(printf %04d "$SENTINEL_ATTEMPT")/logs"
        touch "$SENTINEL_JOB.submitted"
        job=$SENTINEL_JOB setsid sh -c '
            logs=$1; shift
            SCHEDULED=$job "$@" >"$logs/launcher.out" 2>"$logs/launcher.err"
            echo "exited $?" >"$job.new" && mv "$job.new" "$job.ended"
        ' job "$logs" "$@" >/dev/null 2>&1 &
    """,
    "status": """
        if test -e "$SENTINEL_JOB.ended"; then cat "$SENTINEL_JOB.ended"
        elif test -e "$SENTINEL_JOB.submitted"; then echo running
        else echo none; fi
    """,
    "stop": """
        for place in $(grep -lsz "^SCHEDULED=$SENTINEL_JOB$" /proc/[0-9]*/environ); do
            place=${place%/environ}
            kill -KILL "${place#/proc/}"
        done
    """,
}


class CommandWorld(LocalWorld):
    """No keeper, and no rank that could be signalled: what the scheduler says is all that is seen. `kind`: of the launcher."""

    kind = "command"

    def __init__(self, run_dir: Path, real_torchrun: bool = False) -> None:
        super().__init__(run_dir, real_torchrun)
        self._scheduler = run_dir / "scheduler"
        self._scheduler.mkdir()
        for name, script in SCRIPTS.items():
            (self._scheduler / f"{name}.sh").write_text(f"cd '{self._scheduler}'\n{script}")
        self._launchers: list[CommandLauncher] = []

    @property
    def options(self) -> dict[str, str]:
        return {name: f'sh {self._scheduler}/{name}.sh "$@"' for name in SCRIPTS} | {"every": "0.01s"}

    def launcher(self) -> CommandLauncher:
        launcher = open_launcher(self.kind, self.options, LaunchPlace(self.run_dir, supervises=True))
        assert isinstance(launcher, CommandLauncher)
        self._launchers.append(launcher)
        return launcher

    def observe(self, attempt: int) -> AttemptView:
        """What a new supervisor sees as soon as the scheduler has answered it."""
        launcher = self.launcher()
        view = launcher.observe(attempt)
        while isinstance(view, Unseen) and "has not been asked yet" in view.reason:
            view = wait_for(lambda: launcher.observe(attempt), "a view")
        return view

    def start_and_die(self, spec: AttemptSpec) -> None:
        self._start_and_die(spec, f"open_launcher({self.kind!r}, {self.options!r}, LaunchPlace(sys.argv[1], supervises=True))")

    def until_running(self, attempt: int, job: Job) -> None:
        super().until_running(attempt, job)
        wait_for(lambda: self.living(attempt), "the job")

    def living(self, attempt: int) -> list[int]:
        found = []
        for process in psutil.process_iter():
            try:
                environ = process.environ()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            is_here = environ.get("SENTINEL_RUN_DIR") == os.path.realpath(self.run_dir)
            if is_here and environ.get("SENTINEL_ATTEMPT") == str(attempt) and "SCHEDULED" in environ and is_living(process):
                found.append(process.pid)
        return found

    def close(self) -> None:
        for launcher in self._launchers:
            if launcher._query is not None:  # the supervisor of that launcher is gone, and its question with it
                launcher._query.end()
        super().close()
