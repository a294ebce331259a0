"""How problems in a policy file are described and printed: place, sentence, the line itself, a caret, the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from sentinel.errors import Problem, UsageError

SHOWN_MAX = 20
LINE_WIDTH_MAX = 110

# What ends a line for YAML; str.splitlines knows more, and would count wrong.
LINE_ENDS = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

Location = tuple[str | int, ...]


def path_text(location: Location) -> str:
    """`("spec", "rules", 2, "for")` as `spec.rules[2].for`; the document itself is `document`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "document"


def location_of(path: str) -> Location:
    """The parts of a path again; keys with dots or brackets are not told apart from paths."""
    found: list[str | int] = []
    for part in path.split("."):
        name, *indices = part.split("[")
        found.append(name)
        found += [int(index.rstrip("]")) for index in indices]
    return tuple(found)


def nearest(word: str, known: tuple[str, ...]) -> str | None:
    """The known word this one was probably meant to be."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(word: str, known: tuple[str, ...], noun: str) -> str:
    """A remedy for a word nobody knows: the nearest known one, and all of them."""
    listed = f"{noun}: {', '.join(known)}" if known else ""
    near = nearest(word, known)
    return f"did you mean '{near}'? {listed}" if near else listed


def split_options(flag: str, asked: str) -> tuple[str, dict[str, str]]:
    """`NAME:option=value,option=value` of a command line: the name and its options. Raises UsageError, which names the flag."""
    name, _, rest = asked.partition(":")
    options: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        option, equals, value = part.partition("=")
        if not equals or not option.strip():
            raise UsageError(f"{flag} {asked}: '{part}' is no option; write NAME:option=value,option=value")
        if option.strip() in options:
            raise UsageError(f"{flag} {asked}: '{option.strip()}' is given twice; give it once")
        options[option.strip()] = value.strip()
    return name, options


def print_problems(file: str, text: str, problems: Sequence[Problem], others: Mapping[str, str] | None = None) -> str:
    """All problems, in the order given; after the first twenty only their number. `others`: texts of other files, by the
    name that a problem gives its file."""
    texts = {**(others or {}), "": text}
    lines = {name: LINE_ENDS.split(texts[name]) for name in {problem.file for problem in problems}}
    for problem in problems:
        if problem.hides and 0 < problem.line <= len(lines[problem.file]):
            lines[problem.file][problem.line - 1] = _without_value(lines[problem.file][problem.line - 1], problem)
    shown = []
    for problem in problems[:SHOWN_MAX]:
        shown.append(_print_one(problem.file or file, lines[problem.file], problem))
        shown += [f"  extended by: {file}"] if problem.file else []
    if len(problems) > SHOWN_MAX:
        shown.append(f"{file}: and {len(problems) - SHOWN_MAX} more")
    return "\n".join(shown)


def _print_one(file: str, lines: list[str], problem: Problem) -> str:
    kind = "warning: " if problem.severity == "warning" else ""
    place = f"{file}:{problem.line}:{problem.column}" if problem.line else file
    out = [f"{place}: {kind}{problem.path}: {problem.message}" if problem.path else f"{place}: {kind}{problem.message}"]
    if 0 < problem.line <= len(lines):
        out += _line_with_caret(lines[problem.line - 1], problem.column)
    if problem.remedy:
        out.append(f"  remedy: {problem.remedy}")
    return "\n".join(out)


def _without_value(line: str, problem: Problem) -> str:
    """The line up to the key whose value may be a secret: it stays off terminals and out of the logs of a CI."""
    end, key = problem.column - 1, problem.path.rpartition(".")[2]
    return f"{line[:end]}{key}: …" if line.startswith(f"{key}:", end) else f"{line[:end]}…"


def _line_with_caret(line: str, column: int) -> list[str]:
    """The line and a caret under `column`; of a very long line, the part around it. Tabs stay tabs, so the caret fits. No caret
    where a secret before it was left out."""
    if column - 1 > len(line):
        return [f"  {line}"]
    start = max(0, column - 1 - LINE_WIDTH_MAX // 2) if len(line) > LINE_WIDTH_MAX else 0
    part = line[start : start + LINE_WIDTH_MAX]
    pad = "".join("\t" if char == "\t" else " " for char in line[start : column - 1])
    return [f"  {part}", f"  {pad}^"]
