"""A command that cannot be started, and source that is not there, are refused before there is a run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping

from sentinel.errors import UsageError
from sentinel.launcher.warm_command import NotWarm, read_command
from sentinel.policy.quantities import Malformed, parse_positive_duration


def check_command(command: tuple[str, ...], cwd: str) -> None:
    """Raises UsageError."""
    if not command:
        raise UsageError("no command to run; write it after --, as in: sentinel run -- torchrun --nproc-per-node 8 train.py")
    program = command[0]
    found = shutil.which(program if os.sep not in program else os.path.join(cwd, program))
    if found is None:
        where = "is not on the PATH" if os.sep not in program else f"is not an executable file (seen from {cwd})"
        raise UsageError(f"{program}: {where}; check the first word after --")


def check_local(command: tuple[str, ...], cwd: str, *, direct: bool) -> None:
    """Raises UsageError."""
    check_command(command, cwd)
    if direct:
        try:
            read_command(command, cwd)
        except NotWarm as error:
            raise UsageError(f"--direct: this command is one that only torchrun can start: {error}; leave --direct out") from None


def check_durations(options: Mapping[str, str]) -> None:
    """Launcher options that are each a length of time. Raises ValueError."""
    for name, text in options.items():
        try:
            parse_positive_duration(text)
        except Malformed as error:
            raise ValueError(f"--launcher-option {name}: {error}; {error.remedy}") from None


def refuse_direct(options: Mapping[str, str]) -> None:
    """Under a trainer profile. Raises UsageError."""
    if options.get("direct") == "on":
        raise UsageError("--direct: under --trainer the command is started as it stands; leave one of the two out")


def remark_on_warm(options: Mapping[str, str], command: tuple[str, ...], cwd: str, *, is_under_profile: bool) -> str:
    """Why no launch of this run can be a warm one, where that was asked for; empty where it may be. Nothing fails by it."""
    if options.get("warm") != "on":
        return ""
    try:
        why = "a trainer under --trainer is started by its profile" if is_under_profile else ""
        read_command(command, cwd)
    except NotWarm as error:
        why = why or str(error)
    return f"--warm: every launch of this run will be a cold one: {why}; leave --warm out (--no-warm)" if why else ""


def check_code(paths: Iterable[str], cwd: str) -> None:
    """Raises UsageError."""
    for path in paths:
        if not os.path.exists(os.path.join(cwd, path)):
            raise UsageError(f"--code {path}: is not there (seen from {cwd}); name files or directories of the program's source")
