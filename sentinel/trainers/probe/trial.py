"""What a probe will start, and where it may write: decided, and refused, before anything is started."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.errors import UsageError
from sentinel.launcher.checks import check_command as check_program
from sentinel.trainers.found import list_names
from sentinel.trainers.imported import attached_script_of, hint_of
from sentinel.trainers.launching import check_command
from sentinel.trainers.loading import load_profile
from sentinel.trainers.probe.recognise import NOTHING_KNOWN, Candidate, candidates
from sentinel.trainers.profile import TrainerProfile
from sentinel.trainers.rendering import find_root, flag_value
from sentinel.trainers.shell_script import fit_to_command

TRAINER_FOLDER = "trainer"  # of the probe's own folder: where the trainer's checkpoints are sent


@dataclass(frozen=True, slots=True)
class Trial:
    """`asked`: the profile as it was named; `by`: the flags it was recognised by, None where a person named it. `rivals`:
    profiles that fit the command as well. `command`: as it is started; `moved`: (flag, value before) of what leads to `root` now.
    `root`: of its checkpoints, None where the profile knows none."""

    asked: str
    profile: TrainerProfile
    by: tuple[str, ...] | None
    rivals: tuple[str, ...]
    command: tuple[str, ...]
    cwd: str
    root: Path | None
    real_root: Path | None
    moved: tuple[str, str] | None
    named_folders: tuple[str, ...]


def plan_trial(command: tuple[str, ...], cwd: str, named: str | None, folder: Path, as_it_is: bool) -> Trial:
    """`folder`: the probe's own. Raises UsageError, PolicyError: nothing was started."""
    check_program(command, cwd)
    found = candidates(command) if named is None else ()
    asked = named if named is not None else found[0].profile if found else NOTHING_KNOWN
    profile = fit_to_command(load_profile(asked), command, cwd).profile
    try:
        check_command(profile, command, cwd)
    except UsageError as error:
        if named is not None or not found:
            raise
        by = ", ".join(found[0].flags)
        raise UsageError(f"{error}; or name its profile with --trainer (taken for {asked} because of {by})") from None
    text = find_root(profile.spec, command, cwd)
    real_root = None if text is None else Path(text)
    moved, words = _moved(profile, command, folder)
    root_text = find_root(profile.spec, words, cwd)
    trial = Trial(
        asked=asked,
        profile=profile,
        by=None if named is not None else found[0].flags if found else (),
        rivals=_rivals(found),
        command=words,
        cwd=cwd,
        root=None if root_text is None else Path(root_text),
        real_root=real_root,
        moved=moved,
        named_folders=tuple(name for name in named_folders(words, cwd) if not Path(cwd, name).is_relative_to(folder)),
    )
    _refuse_known_files(trial, as_it_is)
    return trial


def _rivals(found: Sequence[Candidate]) -> tuple[str, ...]:
    """As good as the first."""
    return tuple(one.profile for one in found[1:] if len(one.flags) == len(found[0].flags))


def _moved(profile: TrainerProfile, command: tuple[str, ...], folder: Path) -> tuple[tuple[str, str] | None, tuple[str, ...]]:
    """The command with the folder of its checkpoints within the probe's own, where a flag names it."""
    places = profile.spec.checkpoints
    if places is None or places.path is not None:
        return None, command
    before = flag_value(command, places.root)
    assert before is not None, "check_command has found it"
    words: list[str] = []
    flag = ""
    for at, word in enumerate(command):
        name, equals, _ = word.partition("=")
        if name in places.root and equals:
            flag = name
            words.append(f"{name}={folder / TRAINER_FOLDER}")
        elif at and command[at - 1] in places.root:
            flag = command[at - 1]
            words.append(str(folder / TRAINER_FOLDER))
        else:
            words.append(word)
    return (flag, before), tuple(words)


def named_folders(command: Sequence[str], cwd: str) -> tuple[str, ...]:
    """Folders that stand in the command and are there. It may write into them: nobody knows."""
    found = []
    for word in command[1:]:
        value = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        path = os.path.join(cwd, value)
        if value and not value.startswith("-") and os.path.isdir(path):
            found.append(value)
    return tuple(dict.fromkeys(found))


def _refuse_known_files(trial: Trial, as_it_is: bool) -> None:
    """Nothing is started where it could write over files that are there. Raises UsageError."""
    if as_it_is or trial.moved is not None:
        return
    if trial.root is None and (script := attached_script_of(trial.command, trial.cwd)):
        raise UsageError(
            f"{script} imports sentinel: a loop that speaks its contract needs no profile, and there is nothing to probe, so "
            f"nothing was started; sentinel run --run-dir DIR -- {shlex.join(trial.command)}; or name a profile with --trainer"
        )
    if trial.root is None:
        hint = hint_of(trial.command, trial.cwd)
        raise UsageError(
            f"{shlex.join(trial.command)}: where it writes is not known (no shipped profile's flags stand in it), so nothing was "
            f"started; name its profile with --trainer ({hint or 'sentinel trainers list'}), or add --as-it-is: it then writes "
            "where it always does, over files of an earlier run, too"
        )
    for folder in (trial.root, *_named_by_flag(trial)):
        names = list_names(folder)
        if not names:
            continue
        raise UsageError(
            f"{folder}: the trainer would write there, and there is {', '.join(names)}; name an empty folder, as in "
            f"--trainer {trial.asked.partition(':')[0]}:root=DIR, or add --as-it-is if these files may be written over"
        )


def _named_by_flag(trial: Trial) -> list[Path]:
    """The folder that the command names by the flag of the profile itself, where an option of the profile names another."""
    places = load_profile(trial.asked.partition(":")[0]).spec.checkpoints
    value = flag_value(trial.command, places.root) if places is not None else None
    return [] if value is None else [Path(trial.cwd, value)]
