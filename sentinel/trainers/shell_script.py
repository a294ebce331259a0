"""A command that is a script of the shell: the flags of its trainer stand in the script, where no profile sees them.

Such a command is taken as it is. A setting whose arguments need a value that only the script holds is not offered, unless an
option of the profile names the value (`--trainer megatron:root=out,lr=3e-4`). What a person should know of that is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.regular_file import read_regular
from sentinel.trainers.profile import PLACEHOLDER, TrainerProfile
from sentinel.trainers.rendering import ARGUMENTS_VARIABLE, flag_value

SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
SCRIPT_BYTES_MAX = 1 << 20
_PASSED_ON = re.compile(rf"\$\{{?{ARGUMENTS_VARIABLE}\b|\$[@*]|\$\{{[@*]")


@dataclass(frozen=True, slots=True)
class Fitted:
    """The profile as far as it can drive this command, and what a person should know of the rest."""

    profile: TrainerProfile
    remarks: tuple[str, ...] = ()


def fit_to_command(profile: TrainerProfile, command: Sequence[str], cwd: str) -> Fitted:
    """As it is, for a command that is no script of the shell."""
    script = script_of(command)
    if script is None:
        return Fitted(profile)
    remarks: list[str] = []
    kept = dict(profile.spec.settings)
    for key in profile.settings:
        lacking = _lacking(profile, key, command)
        if lacking:
            del kept[key]
            options = ",".join(f"{name}=NUMBER" for name in lacking)
            flags = " and ".join(" or ".join(profile.spec.flags[name]) for name in lacking)
            remarks.append(
                f"--trainer: {key} is not offered: it needs {flags}, which stands in {script} where it cannot be seen; "
                f"name it: --trainer {profile.metadata.name}:{options}"
            )
    if not _passes_on(script, cwd):
        remarks.append(
            f"--trainer: {script} passes on neither ${ARGUMENTS_VARIABLE} nor \"$@\", so what a relaunch adds does not reach the "
            f"trainer; write ${ARGUMENTS_VARIABLE} behind its arguments in the line that starts it"
        )
    spec = profile.spec.model_copy(update={"settings": kept})
    return Fitted(profile.model_copy(update={"spec": spec}), tuple(remarks))


def script_of(command: Sequence[str]) -> str | None:
    """The script in the command, as it is named there; the text behind `-c` too. None where no shell reads one."""
    for at, word in enumerate(command):
        if word.endswith(".sh"):
            return word
        if os.path.basename(word) in SHELLS:
            return next((other for other in command[at + 1 :] if not other.startswith("-")), None)
        if word.endswith(".py"):
            return None
    return None


def _lacking(profile: TrainerProfile, key: str, command: Sequence[str]) -> list[str]:
    """The profile's names of values that the arguments of this setting need, and that are known from nowhere."""
    spec = profile.spec
    words = [word for template in spec.templates(key).values() for word in template]
    names = dict.fromkeys(name for word in words for match in PLACEHOLDER.finditer(word) for name in (match[1], match[2]))
    unknown = [name for name in names if name in spec.flags and name not in spec.defaults]
    return [name for name in unknown if flag_value(command, spec.flags[name]) is None]


def _passes_on(script: str, cwd: str) -> bool:
    """Also where it cannot be read: then nothing is said."""
    path = Path(cwd, script)
    if "\n" in script or " " in script:  # the text behind -c
        return _PASSED_ON.search(script) is not None
    try:
        return _PASSED_ON.search(read_regular(path, SCRIPT_BYTES_MAX).decode("utf-8", "replace")) is not None
    except OSError:
        return True
