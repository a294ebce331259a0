"""Whether the exit status of the trainer in a shell script gets lost: the script then leaves with 0 although the trainer died.

`python train.py | tee log` is the usual case: the shell tells the status of tee. Only what the text shows counts. Where a
script looks at the status itself, or nests the line, it may hand it on by other means: then nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sentinel.trainers.handing_on import SAYS_ONLY, lines_that_train
from sentinel.trainers.shell_words import NotRead, ShellCommand, ShellText, read_script

STATUS_REMEDY = "write 'set -eo pipefail' as its first line"
_ALWAYS_0 = frozenset(("true", ":", *SAYS_ONLY)) - {"test", "[", "[["}
_LOOKS_ITSELF = frozenset(("PIPESTATUS", "pipestatus", "?"))


def lost_status(text: str) -> str:
    """What of it loses the status, with its line; empty where nothing is seen to."""
    try:
        script = read_script(text)
    except NotRead:
        return ""
    lines = lines_that_train(script.commands)
    found = [_lost_by(line, script) for line in lines]
    return found[-1] if found and all(found) and not _looks_itself(script.commands) else ""


def _lost_by(line: ShellCommand, script: ShellText) -> str:
    behind = script.commands[next(at for at, one in enumerate(script.commands) if one is line) + 1 :]
    follows = behind[0].words[0].text if behind and behind[0].words else ""
    where = f"line {line.line}"
    if line.end in ("|", "|&"):
        return "" if _is_set(script.commands, "pipefail", "") else f"{where} pipes the trainer into {follows} without pipefail"
    if line.end == "||" and follows in _ALWAYS_0 and behind[0].end != "&&":
        return f"{where} hides the trainer's exit status behind '|| {follows}'"
    is_last = not behind or line.words[0].text == "exec"
    if line.end not in ("", ";", "\n") or is_last or not script.is_plain or _is_set(script.commands, "errexit", "e"):
        return ""
    return f"line {behind[-1].line} follows the trainer's whatever that left with (no 'set -e')"


def _is_set(commands: Iterable[ShellCommand], name: str, letter: str) -> bool:
    """By `set -o NAME` or its letter, wherever in the script, and although it may be taken back."""
    for command in commands:
        words = [word.text for word in command.words]
        short = [word[1:] for word in words[1:] if word[:1] == "-" and word[1:2] != "-"]
        if words[:1] == ["set"] and (name in words or any(letter and letter in one for one in short)):
            return True
    return False


def _looks_itself(commands: Sequence[ShellCommand]) -> bool:
    for command in commands:
        words = (*command.words, *(word for _, _, word in command.assigned))
        if any((word.whole | word.part) & _LOOKS_ITSELF for word in words):
            return True
        if command.words and command.words[0].text in ("trap", "shopt"):
            return True
    return False
