"""Whether a shell script hands on what is added to its command: to the trainer, in the arguments of the line that starts it.

The verdict is *yes* or *no* only where the text shows it. A script that gives the trainer a piece of its arguments, or starts it
by way of another script, may do either: that is *unknown*.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sentinel.trainers.rendering import ARGUMENTS_VARIABLE
from sentinel.trainers.shell_words import NotRead, ShellCommand, ShellText, ShellWord, read_script

STARTERS = ("python", "torchrun", "deepspeed", "accelerate", "srun", "mpirun", "mpiexec", "pdsh", "jsrun", "ray")
IN_FRONT = frozenset(
    ("exec", "command", "nohup", "time", "nice", "env", "sudo", "setsid", "stdbuf", "timeout", "numactl", "taskset")
)
# Scripts that are read elsewhere, and may find the variable in their environment.
READ_ELSEWHERE = frozenset(
    (".", "source", "bash", "sh", "zsh", "dash", "ksh", "make", "sbatch", "qsub", "xargs", "ssh", "parallel")
)
SAYS_ONLY = frozenset(("echo", "printf", "test", "[", "[["))
POSITIONAL = frozenset("@*")
PIECES = frozenset("123456789")
EVAL_DEPTH_MAX = 3


@dataclass(frozen=True, slots=True)
class HandsOn:
    """`by`: what it hands on, where it does."""

    verdict: Literal["yes", "no", "unknown"]
    reason: str = ""
    by: Literal["", "positional", "variable"] = ""


def hands_on(text: str, is_appended: bool = True) -> HandsOn:
    """`is_appended`: what is added stands behind the command as well, and not in the variable alone."""
    try:
        script = read_script(text)
        commands = list(_with_evaluated(script.commands))
    except NotRead as error:
        return HandsOn("unknown", f"its text is not understood: {error}")
    script = replace(script, commands=commands)
    lines = lines_that_train(commands)
    if not lines:
        return HandsOn("unknown", "no line in it is seen to start a trainer")
    trainer = _target(lines[-1])
    found = [_of_line(one, script, is_appended) for one in lines]
    if all(one.verdict == "yes" for one in found):
        return found[-1]
    if all(one.verdict == "no" for one in found):
        return found[-1] if (where := _elsewhere(script)) is None else HandsOn("unknown", where)
    doubt = next((one for one in found if one.verdict == "unknown"), None)
    return doubt or HandsOn("unknown", f"some of the lines that start {trainer} hand it on, some do not")


def lines_that_train(commands: Sequence[ShellCommand]) -> list[ShellCommand]:
    """The last one that starts a trainer, and others that start the same."""
    starts = [one for one in commands if _starts_trainer(one)]
    return [one for one in starts if _target(one) == _target(starts[-1])]


def _with_evaluated(commands: Sequence[ShellCommand], depth: int = 0) -> Iterable[ShellCommand]:
    """With what `eval` runs in the place of it. Raises NotRead."""
    for command in commands:
        if command.words and command.words[0].text == "eval" and depth < EVAL_DEPTH_MAX:
            inner = read_script(" ".join(word.text for word in command.words[1:])).commands
            yield from _with_evaluated([replace(one, line=command.line, within=command.within) for one in inner], depth + 1)
        else:
            yield command


def _program(command: ShellCommand) -> Sequence[ShellWord]:
    """Its words from the program on."""
    words = command.words
    while words and (os.path.basename(words[0].text) in IN_FRONT):
        words = words[1:]
        while words and (words[0].text.startswith("-") or "=" in words[0].text or words[0].text[:1].isdigit()):
            words = words[1:]
    return words


def _starts_trainer(command: ShellCommand) -> bool:
    words = _program(command)
    if not words or words[0].text in (".", "source", *SAYS_ONLY):
        return False
    return os.path.basename(words[0].text).startswith(STARTERS) or any(word.text.endswith((".py", ".sh")) for word in words)


def _target(command: ShellCommand) -> str:
    """What it starts: the script, else the module behind -m, else the program."""
    words = [word.text for word in _program(command)]
    script = next((word for word in words if word.endswith((".py", ".sh"))), None)
    module = next((word for at, word in enumerate(words) if at and words[at - 1] == "-m"), None)
    return script or module or words[0]


def _of_line(command: ShellCommand, script: ShellText, is_appended: bool) -> HandsOn:
    words, where = _program(command), f"line {command.line}"
    target = _target(command)
    if any(os.path.basename(word.text) in READ_ELSEWHERE or word.text.endswith(".sh") for word in words):
        return HandsOn("unknown", f"{where} starts another script, which was not read")
    whole = frozenset().union(*(word.whole for word in words))
    if ARGUMENTS_VARIABLE in whole:
        if any(name == ARGUMENTS_VARIABLE for one in script.commands for name in _changed(one)):
            return HandsOn("unknown", f"it changes ${ARGUMENTS_VARIABLE} itself")
        return HandsOn("yes", by="variable")
    by_name = _by_name(whole, script, is_appended)
    if by_name is not None:
        return by_name
    if whole & POSITIONAL and is_appended:
        return _positional(command, script)
    part = frozenset().union(*(word.part for word in words))
    if (whole | part) & PIECES or part & (POSITIONAL | {ARGUMENTS_VARIABLE}):
        return HandsOn("unknown", f"{where} hands on a piece of them")
    return HandsOn("no", f"{where} starts {target} with neither")


def _by_name(whole: frozenset[str], script: ShellText, is_appended: bool) -> HandsOn | None:
    """By a variable of the script's own that holds them. None where no such variable stands there."""
    for name in sorted(whole):
        values = [(adds, word) for one in script.commands for assigned, adds, word in _assigned(one) if assigned == name]
        holds = [bool(word.whole & ({ARGUMENTS_VARIABLE} | (POSITIONAL if is_appended else frozenset()))) for _, word in values]
        if any(holds):
            sets = [held for (adds, _), held in zip(values, holds, strict=True) if not adds]
            if len(sets) > 1 and not all(sets):
                return HandsOn("unknown", f"${name} holds them at some times and not at others")
            if any(_shifts(one) for one in script.commands):
                return HandsOn("unknown", f"${name} holds what is left of them")
            variable = any(ARGUMENTS_VARIABLE in word.whole for _, word in values)
            return HandsOn("yes", by="variable" if variable else "positional")
        if any(word.whole | word.part for _, word in values):
            return HandsOn("unknown", f"what ${name} holds is made of other variables")
    return None


def _positional(command: ShellCommand, script: ShellText) -> HandsOn:
    if any(_shifts(one) for one in script.commands):
        return HandsOn("unknown", 'it takes words out of "$@" (shift, set) before')
    if command.within is not None:
        calls = [one for one in script.commands if one.words and _program(one) and _program(one)[0].text == command.within]
        handed = [one.within is None and any(word.whole & POSITIONAL for word in one.words) for one in calls]
        if not handed or not all(handed):
            return HandsOn(
                "unknown", f'line {command.line} stands in the function {command.within}, whose "$@" are its own arguments'
            )
    return HandsOn("yes", by="positional")


def _shifts(command: ShellCommand) -> bool:
    if not command.words:
        return False
    name, rest = command.words[0].text, [word.text for word in command.words[1:]]
    while name == "set" and rest and rest[0][:1] in ("-", "+") and rest[0] != "--":
        rest = rest[2 if rest[0].endswith("o") else 1 :]  # set -euo pipefail
    return name in ("shift", "getopts") or (name == "set" and bool(rest))


def _assigned(command: ShellCommand) -> list[tuple[str, bool, ShellWord]]:
    """Also by `export NAME=…` and its like."""
    found = list(command.assigned)
    if command.words and command.words[0].text in ("export", "declare", "local", "readonly", "typeset"):
        for word in command.words[1:]:
            name, equals, _ = word.text.partition("=")
            if equals:
                found.append((name.removesuffix("+"), name.endswith("+"), word))
    return found


def _changed(command: ShellCommand) -> list[str]:
    unset = [word.text for word in command.words[1:]] if command.words and command.words[0].text in ("unset", "read") else []
    return [*(name for name, _, _ in _assigned(command)), *unset]


def _elsewhere(script: ShellText) -> str | None:
    """Where they may be handed on all the same."""
    for one in script.commands:
        if one.words and os.path.basename(one.words[0].text) in READ_ELSEWHERE:
            return f"line {one.line} reads another script"
        if one.words and one.words[0].text in SAYS_ONLY:
            continue
        names = frozenset().union(*(word.whole | word.part for word in (*one.words, *(word for _, _, word in one.assigned))))
        if names & (POSITIONAL | PIECES | {ARGUMENTS_VARIABLE}):
            return f"line {one.line} uses them for something else"
    if any(f"${ARGUMENTS_VARIABLE}" in text or "$@" in text for text in script.here_documents):
        return "a here-document in it names them"
    return None
