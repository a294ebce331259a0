"""The supervisor's side of a trainer under a profile: what is launched for it, and the sealing of what it left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from sentinel.checkpoints.manifest import MANIFEST
from sentinel.client.regular_file import read_regular
from sentinel.client.run_layout import attempts_folder, stream_path
from sentinel.client.strict_json import loads
from sentinel.errors import GiveUp, UsageError
from sentinel.launcher.exit_report import read_report
from sentinel.model.actions import Request
from sentinel.model.attempts import EXIT_FINISHED, AttemptSpec, SettingsInForce
from sentinel.run_files.attempt_files import AttemptFiles
from sentinel.run_files.stream import read_receipt
from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.profile import CheckpointFiles, TrainerProfile
from sentinel.trainers.rendering import find_root, render, saves_at, stands
from sentinel.trainers.sealing import seal_new, sealed_path
from sentinel.trainers.shell_script import lost_status_of
from sentinel.trainers.sources import places_of
from sentinel.trainers.spec import TrainerSpec
from sentinel.trainers.start import BEFORE_NAME, forget_before, read_before


@dataclass(frozen=True, slots=True)
class Trained:
    """One run under a profile."""

    run_dir: Path
    profile: TrainerProfile
    command: tuple[str, ...]
    cwd: str

    def lay(self, spec: AttemptSpec) -> AttemptSpec:
        """The attempt as it is started: the trainer's words with those of the profile, behind what makes its folder ready.

        Raises GiveUp: a setting that was asked for cannot be put into words.
        """
        is_first = spec.resume is None and not any(stream_path(self.run_dir, earlier).exists() for earlier in range(spec.attempt))
        step = None if spec.resume is None else spec.resume.step
        try:
            path = None if step is None else _path_of(self.run_dir, step)
            rendered = render(self.profile, spec.argv, spec.cwd, spec.overrides, spec.resume, path, is_first)
        except (UsageError, OSError, ValueError) as error:
            raise GiveUp(str(error)) from error
        trainer = TrainerSpec(
            profile=self.profile,
            argv=rendered.argv,
            environment=rendered.environment,
            cwd=spec.cwd,
            root=None if rendered.root is None else Path(rendered.root),
            asserted=rendered.asserted,
            resume_step=step,
            is_first=is_first,
        )
        words = (sys.executable, "-P", "-m", "sentinel.trainers.start", str(self.run_dir), str(spec.attempt))
        return replace(spec, argv=words, trainer=trainer.to_json())

    @property
    def arguments(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The flags that are added, by what they are for (`resume`, `skip`, a setting), without those that the command has
        itself: where it refuses one of these, the profile is wrong about this trainer."""
        spec = self.profile.spec
        words = {key: tuple(chain.from_iterable(spec.templates(key).values())) for key in self.profile.settings}
        words |= {"resume": spec.resume.arguments, "skip": () if spec.skip is None else spec.skip.arguments}
        found = {key: dict.fromkeys(w.partition("=")[0] for w in added if w.startswith("-")) for key, added in words.items()}
        own = {key: tuple(flag for flag in flags if not stands(self.command, flag)) for key, flags in found.items()}
        return tuple((key, flags) for key, flags in own.items() if flags)

    @property
    def status_lost(self) -> str:
        """What shows that the command may leave with 0 whatever the trainer left with; empty where nothing does."""
        return lost_status_of(self.command, self.cwd)

    @property
    def rows_late(self) -> bool:
        """Whether its rows come from files: loggers write those in blocks, and what they hold is lost with the trainer."""
        return self.profile.spec.metrics.from_ not in ("output", "none")

    @property
    def stop_answer_s(self) -> float:
        """How long a stop that is planned waits for the trainer to save and to end; 0 where it cannot be asked for that."""
        stop = saves_at(self.profile, self.command)
        return 0.0 if stop is None else stop.within

    def stop_signal(self, request: Request) -> signal.Signals | None:
        """What asks the trainer for this; None where nothing does. Nothing makes it end without saving."""
        stop = saves_at(self.profile, self.command)
        return None if stop is None or request != "stop_after_checkpoint" else signal.Signals[stop.signal]

    @property
    def roots(self) -> tuple[Path, ...]:
        """Where the trainer itself saves to; none where its profile says nothing of it."""
        root = find_root(self.profile.spec, self.command, self.cwd)
        return () if root is None else (Path(root),)

    @property
    def logs(self) -> tuple[str, ...]:
        """Absolute paths and patterns of the files of lines that the profile reads rows from."""
        metrics = self.profile.spec.metrics
        if metrics.from_ != "file":
            return ()
        root = find_root(self.profile.spec, self.command, self.cwd)
        return tuple(place for place in places_of(metrics, str(root), self.cwd) if "tfevents" not in os.path.basename(place))

    def saved(self) -> tuple[Path, ...]:
        """The checkpoints that lie in the trainer's folder; none where it cannot be read."""
        places = self.profile.spec.checkpoints
        with suppress(OSError):
            return () if places is None else tuple(found.path for root in self.roots for found in find_checkpoints(places, root))
        return ()

    def seal(self) -> None:
        """Seal what the attempt before left complete: nothing writes there now. Raises OSError."""
        places = self.profile.spec.checkpoints
        root = find_root(self.profile.spec, self.command, self.cwd)
        if places is None or root is None or not (self.run_dir / BEFORE_NAME).exists():
            return  # nothing of this run was started yet: what lies there is somebody else's
        names = [path.parent.name for path in attempts_folder(self.run_dir).glob("*/spec.json")]
        newest = max((int(name) for name in names if name.isdecimal()), default=0)
        self._adopt(places, Path(root), newest)
        # what changed right before that may be half of a checkpoint
        died_s = _died_s(self.run_dir, newest, says_how=not self.status_lost)
        there, others = find_checkpoints(places, Path(root)), read_before(self.run_dir)
        for _ in seal_new(self.run_dir, places, there, newest, others, lambda: died_s):
            pass

    def _adopt(self, places: CheckpointFiles, root: Path, attempt: int) -> None:
        """What the trainer went on from by itself is this run's. Its follower sees to that, unless it ended between its receipt
        and that: then a relaunch would find no checkpoint, and the trainer go on from this one again. Raises OSError."""
        receipt = read_receipt(self.run_dir, attempt)
        if receipt is not None and receipt.adopted and receipt.resume_step > 0:
            forget_before(self.run_dir, root, places, receipt.resume_step)


def _died_s(run_dir: Path, attempt: int, says_how: bool) -> float:
    """When its keeper wrote down the end of the attempt; where it did not, now. Never, for one that ended in order: all that it
    saved is whole. `says_how`: its status tells whether it did."""
    files = AttemptFiles.of(run_dir, attempt)
    with suppress(OSError, ValueError):
        report = read_report(files)
        if says_how and report is not None and report.command_status == EXIT_FINISHED:
            return float("inf")
    with suppress(OSError):
        return files.exit.stat().st_mtime
    return time.time()


def _path_of(run_dir: Path, step: int) -> str:
    """Where the trainer finds the sealed checkpoint of this step."""
    return str(loads(read_regular(sealed_path(run_dir, step) / MANIFEST))["sealed"]["path"])


def check_command(profile: TrainerProfile, command: Sequence[str], cwd: str) -> None:
    """Refuse a command that the profile cannot drive, before anything is started. Raises UsageError."""
    render(profile, command, cwd, SettingsInForce(), None, None, is_first=True)
    for key in profile.settings:
        if "*" in "".join(profile.spec.templates(key).get("", ())):
            asked = replace(SettingsInForce(), **{key: 1.0})  # type: ignore[arg-type]  # such arguments take a number
            render(profile, command, cwd, asked, None, None, is_first=True)
