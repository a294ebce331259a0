"""Starts the trainer as `sentinel run` would, watches it for some steps, ends it, and looks at what it left."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sentinel.checkpoints.manifest import MANIFEST
from sentinel.client.run_layout import stream_path
from sentinel.client.strict_json import loads
from sentinel.clock import Clock
from sentinel.detectors.refused_flags import find_refused, is_same_flag
from sentinel.errors import GiveUp, RetryLater, UsageError
from sentinel.launcher.local import LocalLauncher
from sentinel.model.attempts import AttemptSpec, Exited, ResumePoint, SettingsInForce
from sentinel.model.readings import Receipt, StepReading, TrainerNote
from sentinel.run_files.attempt_files import AttemptFiles, rank_files
from sentinel.run_files.stream_lines import parse_line
from sentinel.signals import INTERRUPTS
from sentinel.trainers.found import find_checkpoints
from sentinel.trainers.launching import Trained
from sentinel.trainers.mismatch import find_mismatch
from sentinel.trainers.probe.recognise import left_behind, printed_format
from sentinel.trainers.probe.seen import EndedBy, Launch, ProbedCheckpoint, Return, Seen
from sentinel.trainers.probe.trial import Trial, named_folders
from sentinel.trainers.sealing import is_sealed, seal_new, sealed_path
from sentinel.trainers.start import read_before

LOOK_S = 0.2
TAIL_LINES = 8
FOLDERS_MAX = 100
TAIL_BYTES = 8 << 10
STREAM_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """`save_every`: steps between checkpoints to ask for; 0: as the command has it."""

    steps: int
    seconds: float
    save_every: int
    tries_resume: bool


def run_probe(trial: Trial, folder: Path, limits: ProbeLimits, clock: Clock, say: Callable[[str], None]) -> Seen:
    """Raises UsageError where the command cannot be started."""
    began_s = clock.wall_s()
    launcher = LocalLauncher(folder)
    trained = Trained(folder, trial.profile, trial.command, trial.cwd)
    can_save = "checkpoint_interval" in trial.profile.settings and limits.save_every > 0
    settings = SettingsInForce(checkpoint_interval=limits.save_every) if can_save else SettingsInForce()
    spec = AttemptSpec(1, trial.command, trial.cwd, None, settings)

    def is_enough(launch: Launch) -> bool:
        steps = [row.step for row in launch.rows]
        return bool(steps) and max(steps) - min(steps) + 1 >= limits.steps and _has_sealed(trial, folder)

    say(f"started: {' '.join(trial.command)}")
    first = _watch(launcher, trained.lay(spec), folder, limits.seconds, clock, is_enough)
    refused = _refused_of(trained, first, "checkpoint_interval") if can_save else ()
    if refused:
        say(f"it refuses {', '.join(refused)}: started again without")
        can_save, spec = False, AttemptSpec(2, trial.command, trial.cwd, None, SettingsInForce())
        first = _watch(launcher, trained.lay(spec), folder, limits.seconds, clock, is_enough)
    kept = _look(trial, folder, first)
    back = None
    whole = [one for one in kept if one.how is not None]
    if whole and first.rows and limits.tries_resume and first.ended_by != "person":
        say(f"started again from the checkpoint of step {whole[0].step}")
        back = _return(launcher, trained, replace(spec, attempt=spec.attempt + 1), whole[0].step, limits, clock)
    logs = AttemptFiles.of(folder, spec.attempt).logs
    printed = tuple(dict.fromkeys(f for end in ("out", "err") if (f := printed_format(logs / f"launcher.{end}")) is not None))
    places, root = trial.profile.spec.checkpoints, trial.root
    left = left_behind(_where_it_may_write(trial), began_s) if not kept else []
    return Seen(
        first=first,
        saves_every=limits.save_every if can_save else None,
        kept=kept,
        mismatch=find_mismatch(places, root) if places is not None and root is not None else None,
        printed=printed,
        left=tuple((str(where), other.profile, other.names[-1]) for where, other in left),
        back=back,
        refused=refused,
    )


def _refused_of(trained: Trained, launch: Launch, key: str) -> tuple[str, ...]:
    """The flags that are added for this, where the launch died because it does not know them."""
    if launch.rows or launch.ended_by != "exit":
        return ()
    names, _ = find_refused(launch.tail)
    return tuple(flag for flag in dict(trained.arguments).get(key, ()) if any(is_same_flag(name, flag) for name in names))


def _watch(
    launcher: LocalLauncher,
    spec: AttemptSpec,
    folder: Path,
    limit_s: float,
    clock: Clock,
    is_enough: Callable[[Launch], bool],
) -> Launch:
    """Start it, look until it is enough, end it. Whatever happens, no process of it is left."""
    began_s, never = clock.now_s(), threading.Event()
    status: int | None = None
    ended_by: EndedBy = "time"
    try:
        launcher.ensure_started(spec)
        while clock.now_s() - began_s < limit_s:
            view = launcher.observe(spec.attempt)
            if isinstance(view, Exited):
                status, ended_by = view.report.command_status, "exit"
                break
            if is_enough(_read(folder, spec.attempt)):
                ended_by = "steps"
                break
            clock.wait(never, LOOK_S)
    except KeyboardInterrupt:
        ended_by = "person"
        INTERRUPTS.came = True
    except (GiveUp, RetryLater) as error:
        raise UsageError(f"it cannot be started: {error}") from error
    finally:
        launcher.ensure_stopped(spec.attempt)
    launch = _read(folder, spec.attempt)
    return replace(launch, seconds=clock.now_s() - began_s, ended_by=ended_by, status=status)


def _read(folder: Path, attempt: int) -> Launch:
    """What the stream of this attempt says by now."""
    files = AttemptFiles.of(folder, attempt)
    rows: list[StepReading] = []
    notes: list[TrainerNote] = []
    receipt: Receipt | None = None
    with suppress(OSError), open(stream_path(folder, attempt), "rb") as file:
        for line in file.read(STREAM_BYTES_MAX).split(b"\n"):
            with suppress(ValueError):
                reading = parse_line(line, attempt) if line else None
                if isinstance(reading, StepReading):
                    rows.append(reading)
                elif isinstance(reading, Receipt):
                    receipt = reading
                elif isinstance(reading, TrainerNote):
                    notes.append(reading)
    with suppress(OSError):
        ranks = len(rank_files(files.heartbeats))
        return Launch(0.0, "time", None, receipt, tuple(rows), tuple(notes), ranks, _tail(files))
    return Launch(0.0, "time", None, receipt, tuple(rows), tuple(notes), 0, _tail(files))


def _tail(files: AttemptFiles) -> tuple[str, ...]:
    """The end of what it printed, standard error last."""
    printed: list[str] = []
    for path in (files.logs / "launcher.out", files.launcher_err):
        with suppress(OSError), open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
            printed += [line for line in lines if line.strip()][-TAIL_LINES:]
    return tuple(printed)


def _where_it_may_write(trial: Trial) -> list[Path]:
    """The folders in its command, where it was started, and those in there: as they are after its end."""
    cwd = Path(trial.cwd)
    with suppress(OSError):
        inside = [Path(entry.path) for entry in os.scandir(cwd) if entry.is_dir(follow_symlinks=False)]
        return [cwd, *(cwd / name for name in named_folders(trial.command, trial.cwd)), *sorted(inside)[:FOLDERS_MAX]]
    return [cwd]


def _has_sealed(trial: Trial, folder: Path) -> bool:
    """Whether a checkpoint is sealed, where one can be expected."""
    places, root = trial.profile.spec.checkpoints, trial.root
    if places is None or root is None:
        return True
    with suppress(OSError):
        return any(is_sealed(folder, one) for one in find_checkpoints(places, root))
    return False


def _look(trial: Trial, folder: Path, first: Launch) -> tuple[ProbedCheckpoint, ...]:
    """The checkpoints that the trainer left; what the follower had no time for is sealed now."""
    places, root = trial.profile.spec.checkpoints, trial.root
    if places is None or root is None:
        return ()
    far_future_s = float("inf")  # its trainer is dead: whatever stopped changing is done
    seconds = {note.step: float(note.data.get("seconds", 0.0)) for note in first.notes if note.event == "checkpoint_committed"}
    try:
        others = read_before(folder)  # they lay there before, and are none of this probe
        there = [one for one in find_checkpoints(places, root) if one.key not in others]
        for sealed in seal_new(folder, places, there, 1, others, lambda: far_future_s):
            seconds[sealed.step] = sealed.seconds
    except OSError as error:
        raise UsageError(f"{root}: its checkpoints cannot be sealed: {error}; name another folder with --run-dir") from error
    return tuple(
        ProbedCheckpoint(
            step=one.step,
            name=one.path.name,
            size=sum(size for _, size, _ in one.signature),
            is_complete=one.is_complete(places, far_future_s),
            missing=one.missing,
            how=_how(folder, one.step) if is_sealed(folder, one) else None,
            seconds=seconds.get(one.step),
        )
        for one in there
    )


def _how(folder: Path, step: int) -> str:
    return str(loads((sealed_path(folder, step) / MANIFEST).read_bytes())["sealed"]["how"])


def _return(launcher: LocalLauncher, trained: Trained, spec: AttemptSpec, step: int, limits: ProbeLimits, clock: Clock) -> Return:
    """Start it from the checkpoint of this step, as a rollback would, until its first rows say where it went on."""
    path = str(sealed_path(trained.run_dir, step).relative_to(trained.run_dir))
    try:
        laid = trained.lay(replace(spec, resume=ResumePoint(step, path)))
    except GiveUp as error:
        return Return(step, None, "exit", None, (str(error),))
    launch = _watch(launcher, laid, trained.run_dir, limits.seconds, clock, lambda launch: launch.receipt is not None)
    began = None if launch.receipt is None else launch.receipt.resume_step
    refused = _refused_of(trained, launch, "resume")
    return Return(step, began, launch.ended_by, launch.status, () if began == step else launch.tail, refused)
