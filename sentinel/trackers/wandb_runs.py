"""Weights & Biases: an attempt is a run, a run of Sentinel's is a group, and a rollback is a fork of the run it goes on from.

W&B's history only grows, so a run that went back cannot be told in one. A forked run (`fork_from`, wandb 0.16.5) shows its
parent's history up to the step it goes on from, which is the lineage that survives. Servers without forks refuse it; then the run
begins at its first step, and its configuration says where it came from.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentinel.client.atomic_file import ensure_directory
from sentinel.model.readings import StepReading
from sentinel.trackers.contract import AttemptRun, End, TrackerError

MODES = ("", "online", "offline")
EXITS: Mapping[End, int] = {"finished": 0, "failed": 1, "stopped": 1, "going on": 1}


@dataclass(frozen=True, slots=True)
class WandbSettings:
    """mode: empty leaves it to WANDB_MODE and `wandb login`. fork: `no` for a server that has no forks. dir: where wandb keeps
    its files; by default the run directory's folder `trackers`."""

    project: str = "sentinel"
    entity: str = ""
    mode: str = ""
    fork: str = "yes"
    dir: str = ""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode={self.mode}: is online or offline")
        if self.fork not in ("yes", "no"):
            raise ValueError(f"fork={self.fork}: is yes or no")
        if not self.project:
            raise ValueError("project=: is empty; name a project, or leave the option out")


def _library() -> Any:
    """Raises TrackerError for one that is there and cannot be used: a dependency is missing, or of a version it does not know."""
    try:
        return importlib.import_module("wandb")
    except (ImportError, AttributeError, TypeError) as error:
        remedy = "install it again: pip install 'training-sentinel[wandb]'"
        raise TrackerError(f"wandb: the library cannot be imported: {_sentence(error)}; {remedy}") from error


class WandbRuns:
    """One open run at a time. `wandb` takes a row in well under a millisecond and uploads from a process of its own."""

    def __init__(self, settings: WandbSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = Path(settings.dir) if settings.dir else folder
        self._run: Any = None
        self._key = ""
        self._url = ""

    def open(self, run: AttemptRun) -> None:
        wandb = _library()
        try:
            ensure_directory(self._folder)
        except OSError as error:
            raise TrackerError(
                f"wandb: {self._folder} cannot be its folder: {error.strerror}; name another: dir=FOLDER"
            ) from error
        wants_fork = run.fork is not None and not run.is_known and self._settings.fork == "yes"
        try:
            if wants_fork:
                assert run.fork is not None
                try:
                    self._run = self._init(run, fork_from=f"{run.fork.key}?_step={run.fork.step}")
                except wandb.Error as error:
                    if isinstance(error, wandb.errors.AuthenticationError):
                        raise
                    self._run = self._init(run, resume="allow")
                    self._run.summary["sentinel.fork_refused"] = str(error)
            else:
                self._run = self._init(run, resume="allow")
        except (wandb.Error, OSError, ValueError) as error:
            self._run = None
            raise TrackerError(f"wandb: {_sentence(error)}") from error
        self._key, self._url = run.key, self._run.url or ""

    def _init(self, run: AttemptRun, **how: str) -> Any:
        wandb: Any = importlib.import_module("wandb")
        chosen = self._settings
        return wandb.init(
            project=chosen.project, entity=chosen.entity or None, mode=chosen.mode or None, dir=os.fspath(self._folder),
            id=run.key, name=run.name, group=run.group, job_type="attempt", tags=["sentinel"],
            config={"sentinel": dict(run.config)},
            reinit="create_new", settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True, x_disable_meta=True,
            ),
            **how,
        )  # fmt: skip

    def log(self, rows: Sequence[StepReading]) -> None:
        wandb: Any = importlib.import_module("wandb")
        try:
            for row in rows:
                self._run.log({**row.metrics, "_timestamp": row.time_s}, step=row.step)
        except (wandb.Error, OSError) as error:
            raise TrackerError(f"wandb: {_sentence(error)}") from error

    def tell(self, run: AttemptRun, facts: Mapping[str, Any]) -> None:
        if self._run is not None and run.key == self._key:
            self._run.summary["sentinel"] = dict(facts)

    def close(self, end: End) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        if end == "going on":
            run.mark_preempting()  # W&B's word for a run that some process goes on with
        run.finish(exit_code=EXITS[end])

    def end(self, group: str, end: End) -> None:
        """A group of W&B's is a name and has no end."""

    def where(self) -> str:
        if self._url:
            return f"look at it in W&B: {self._url}"
        return f"upload it with: wandb sync {self._folder / 'wandb'}/offline-run-*"


def _sentence(error: Exception) -> str:
    words = str(error).strip().splitlines()
    return words[0] if words else type(error).__name__
