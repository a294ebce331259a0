"""A command that does not show every value which the arguments of a profile need: its flags stand in a shell script, or in a file
of settings, or the user has left one out.

Such a command is taken as it is. A setting whose arguments need a value that only that file holds is not offered, unless an
option of the profile names the value (`--trainer megatron:root=out,lr=3e-4`). What a profile takes for the trainer's default is
not known then either: the file may say otherwise. Whether a script hands on what Sentinel adds is read from its text. Where it
does not, no setting is offered that would be an argument; where that cannot be told, it is said to be unknown.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentinel.client.regular_file import read_regular, regular
from sentinel.trainers.handing_on import HandsOn, hands_on
from sentinel.trainers.loading import shipped_profiles
from sentinel.trainers.lost_status import STATUS_REMEDY, lost_status
from sentinel.trainers.profile import PLACEHOLDER, TrainerProfile
from sentinel.trainers.rendering import ARGUMENTS_VARIABLE, flag_value

SHELLS = frozenset(("sh", "bash", "dash", "ksh", "zsh", "ash"))
# Programs that start another one, which is named behind options of their own.
WRAPPERS = frozenset((
    "env", "srun", "mpirun", "mpiexec", "sudo", "nice", "ionice", "nohup", "timeout", "time", "stdbuf", "setsid", "taskset",
    "numactl", "chrt", "unshare", "xvfb-run", "singularity", "apptainer", "docker", "podman", "enroot",
))  # fmt: skip
WITH_A_VALUE = frozenset(("-o", "-O", "+o", "+O", "--rcfile", "--init-file"))  # options of a shell
_HARMLESS = frozenset("cilsuvx")  # options of a shell that do not change what follows a command that failed
SCRIPT_BYTES_MAX = 1 << 20
_SHEBANG_BYTES = 256


@dataclass(frozen=True, slots=True)
class ShellScript:
    """A script that a shell reads. `text`: the one behind -c; then `named` says so, and `has_name` whether a word follows it,
    which the shell takes for $0. `has_options`: the shell was given some that may change what a failure does, such as -e."""

    named: str
    text: str | None = None
    has_name: bool = True
    has_options: bool = False


@dataclass(frozen=True, slots=True)
class Fitted:
    """The profile as far as it can drive this command, and what a person should know of the rest."""

    profile: TrainerProfile
    remarks: tuple[str, ...] = ()


def fit_to_command(profile: TrainerProfile, command: Sequence[str], cwd: str) -> Fitted:
    """As it is, for a command in which every value stands that the arguments of its settings need."""
    script = script_of(command, cwd)
    hidden = script.named if script is not None else settings_file_of(profile, command)
    remarks: list[str] = []
    kept = dict(profile.spec.settings)
    for key in profile.settings:
        lacking = _lacking(profile, key, command, counts_defaults=hidden is None)
        if lacking:
            del kept[key]
            options = ",".join(f"{name}=NUMBER" for name in lacking)
            flags = " and ".join(" or ".join(profile.spec.flags[name]) for name in lacking)
            why = "which is not in the command" if hidden is None else f"and {hidden} may hold that where it cannot be seen"
            remedy = ("add it to the command, or " if hidden is None else "") + "name it"
            named = profile.metadata.name if profile.metadata.name in shipped_profiles() else "FILE"
            where = f"--trainer {named}:{options}"
            remarks.append(f"--trainer: {key} is not offered: it needs {flags}, {why}; {remedy}: {where}")
    skip = profile.spec.skip
    if script is not None:
        found = _hands_on(script, cwd, is_appended=profile.spec.arguments == "append")
        if found.verdict == "no":
            kept, skip = {}, None
        if found.verdict != "yes" and _adds_arguments(profile):
            remarks.append(_remark(script, found, offered=(*kept, *(("skip",) if skip else ()))))
        if lost := lost_status_of(command, cwd):
            remarks.append(f"--trainer: {lost}: a trainer that dies there may look as if it had finished; {STATUS_REMEDY}")
    spec = profile.spec.model_copy(update={"settings": kept, "skip": skip})
    return Fitted(profile.model_copy(update={"spec": spec}), tuple(remarks))


def _adds_arguments(profile: TrainerProfile) -> bool:
    return bool(profile.settings or profile.spec.skip or profile.spec.resume.arguments)


def _remark(script: ShellScript, found: HandsOn, offered: Sequence[str]) -> str:
    remedy = f"write ${ARGUMENTS_VARIABLE} behind its arguments in the line that starts it"
    if found.verdict == "no":
        return (
            f'--trainer: {script.named} hands on neither ${ARGUMENTS_VARIABLE} nor "$@" ({found.reason}), so what a relaunch '
            f"adds does not reach the trainer, and no setting is offered; {remedy}"
        )
    named = f" ({', '.join(offered)})" if offered else ""
    return (
        f"--trainer: whether {script.named} hands what a relaunch adds{named} to the trainer is not known: {found.reason}; "
        f"to be sure, {remedy}"
    )


def script_of(command: Sequence[str], cwd: str) -> ShellScript | None:
    """The script in the command; None where no shell is seen to read one."""
    for at, word in enumerate(command):
        name = os.path.basename(word)
        if name in SHELLS:
            return _behind_shell(command[at + 1 :])
        if word.endswith(".sh") or _has_shebang(Path(cwd, word)):
            return ShellScript(word)
        is_ahead = name in WRAPPERS or (at > 0 and (word.startswith("-") or "=" in word or not _is_program(word, cwd)))
        if word.endswith(".py") or not is_ahead:
            return None
    return None


def _is_program(word: str, cwd: str) -> bool:
    """Something that a wrapper may start, and no value of its options."""
    return os.path.basename(word).startswith(("python", "torchrun", "deepspeed", "accelerate")) or (
        "/" in word and os.access(Path(cwd, word), os.X_OK) and Path(cwd, word).is_file()
    )


def _behind_shell(words: Sequence[str]) -> ShellScript | None:
    at, reads_text, has_options = 0, False, False
    while at < len(words) and words[at][:1] in ("-", "+") and len(words[at]) > 1:
        word = words[at]
        at += 1
        if word == "--":
            break
        is_short = not word.startswith("--")
        reads_text |= is_short and word[0] == "-" and "c" in word
        has_options |= not is_short or not set(word[1:]) <= _HARMLESS
        if word in WITH_A_VALUE or (is_short and word[-1] in "oO"):
            at += 1
    if at >= len(words):
        return None
    if not reads_text:
        return ShellScript(words[at], has_options=has_options)
    return ShellScript("the text behind -c", words[at], at + 1 < len(words), has_options)


def settings_file_of(profile: TrainerProfile, command: Sequence[str]) -> str | None:
    """A file in the command from which the trainer takes settings as well, as far as the profile knows of such files."""
    patterns = profile.spec.settings_files
    started = next((at for at, word in enumerate(command) if word.endswith(".py")), len(command))
    behind = [word.partition("=")[2] or word for word in command[started + 1 :]]
    return next((word for word in behind if any(fnmatch.fnmatchcase(word, pattern) for pattern in patterns)), None)


def _has_shebang(path: Path) -> bool:
    """A shell is named in its first line; also where options stand behind it."""
    try:
        with open(path, "rb", opener=regular) as file:
            first = file.read(_SHEBANG_BYTES).split(b"\n", 1)[0]
    except (OSError, ValueError):
        return False
    words = [os.path.basename(word) for word in first.removeprefix(b"#!").decode("utf-8", "replace").split()]
    return first.startswith(b"#!") and any(word in SHELLS for word in words[:3])


def _lacking(profile: TrainerProfile, key: str, command: Sequence[str], counts_defaults: bool) -> list[str]:
    """The profile's names of values that the arguments of this setting need, and that nobody has named. `counts_defaults`: the
    trainer's own value is known where the command does not say."""
    spec = profile.spec
    words = [word for template in spec.templates(key).values() for word in template]
    names = dict.fromkeys(name for word in words for match in PLACEHOLDER.finditer(word) for name in (match[1], match[2]))
    known = {*spec.named, *(spec.defaults if counts_defaults else ())}
    unknown = [name for name in names if name in spec.flags and name not in known]
    return [name for name in unknown if flag_value(command, spec.flags[name]) is None]


def _hands_on(script: ShellScript, cwd: str, is_appended: bool) -> HandsOn:
    try:
        found = hands_on(_text_of(script, cwd), is_appended)
    except (OSError, ValueError) as error:
        return HandsOn("unknown", f"it cannot be read ({error})")
    if found.by == "positional" and not script.has_name:
        return HandsOn("no", "the shell takes the first word behind the text for $0, not for $1: write a name there")
    return found


def _text_of(script: ShellScript, cwd: str) -> str:
    """Raises OSError, ValueError."""
    if script.text is not None:
        return script.text
    return read_regular(Path(cwd, script.named), SCRIPT_BYTES_MAX).decode("utf-8", "replace")


def lost_status_of(command: Sequence[str], cwd: str) -> str:
    """Where the command is a shell script whose text shows that it may leave with 0 whatever its trainer left with: what of it
    shows that. Empty where it does not, or cannot be read."""
    script = script_of(command, cwd)
    if script is None or script.has_options:
        return ""
    try:
        found = lost_status(_text_of(script, cwd))
    except (OSError, ValueError):
        return ""
    return f"{script.named}, {found}" if found else ""
