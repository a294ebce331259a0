"""Regular expressions of users over the lines of logs: the one door to google-re2, whose time grows with the text and never with
its square, whatever the pattern and whatever a program prints.

    pattern = compile_pattern(r"uncorrectable ECC error on GPU (?P<gpu>[0-9]+)")
    pattern.first(block)               # of whole lines: MatchedLine(line, groups, at), or None

A pattern is looked for within a line: `^` and `$` are its ends, and nothing matches across them. What cannot be done in linear
time (references back, looks ahead) is refused. The library is loaded with the first pattern.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

INSTALL = "pip install 'training-sentinel[logs]'"
MEMORY_BYTES = 8 << 20  # of one pattern; where its automaton needs more it is slower, and still linear
_NOT_BY_LINE = re.compile(r"\(\?[a-zA-Z]*-[a-zA-Z]*m")
_ENDS = re.compile(r"(?<!\\)(?:\\\\)*\\([Az])")


class BadPattern(ValueError):
    """Cannot be used; `remedy` says what to write, `at` where in the text (from 0) it goes wrong."""

    def __init__(self, message: str, remedy: str, at: int = 0) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.at = at


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A line in which a pattern was found, its named groups (those that took part), and where in the block it begins."""

    line: str
    groups: tuple[tuple[str, str], ...]
    at: int


class LinePattern:
    """Made by `compile_pattern`."""

    __slots__ = ("_compiled", "names", "text")

    def __init__(self, text: str, compiled: Any) -> None:
        self.text = text
        self._compiled = compiled
        self.names: tuple[str, ...] = tuple(name.decode() for name in compiled.groupindex)

    def first(self, block: bytes) -> MatchedLine | None:
        """The first line of whole lines that it is found in."""
        found = self._compiled.search(block)
        if found is None:
            return None
        begin = block.rfind(b"\n", 0, found.start()) + 1
        end = block.find(b"\n", found.end())
        groups = ((name.decode(), _text(value)) for name, value in found.groupdict().items() if value is not None)
        return MatchedLine(_text(block[begin : end if end >= 0 else None]), tuple(groups), begin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinePattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"LinePattern({self.text!r})"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return compile_pattern, (self.text,)


@functools.lru_cache(maxsize=512)
def compile_pattern(text: str) -> LinePattern:
    """Raises BadPattern."""
    try:
        import re2
    except ImportError:
        raise BadPattern("patterns over logs need google-re2, which is not installed here", INSTALL) from None
    if found := _NOT_BY_LINE.search(text):
        raise BadPattern("'-m' would make ^ and $ the ends of a text, and there are only lines", "leave it out", found.start())
    if found := _ENDS.search(text):
        raise BadPattern(f"'\\{found[1]}' is the end of a text, and there are only lines", "write ^ or $", found.start(1) - 1)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    options.never_nl = True  # so that no match goes beyond its line
    try:
        pattern = LinePattern(text, re2.compile(b"(?m)" + text.encode(), options))
    except re2.error as error:
        raise _refused(text, error.args[0]) from None
    if pattern.first(b"") is not None:
        raise BadPattern("it is found in an empty line: it would be found in every line", "write what the line must hold")
    return pattern


def _refused(text: str, description: object) -> BadPattern:
    """RE2 says what is wrong and ends with the piece that is."""
    words = description.decode("utf-8", "replace") if isinstance(description, bytes) else str(description)
    message, _, piece = words.partition(": ")
    piece = piece.removeprefix("(?m)")
    at = text.find(piece) if piece and piece in text else len(text)
    remedy = "the syntax is RE2's (https://github.com/google/re2/wiki/Syntax)"
    if "perl operator" in message or "escape" in message:
        remedy = f"looks ahead, looks back and references are not in {remedy.removeprefix('the syntax is ')}"
    if "repetition size" in message or "too large" in message:
        remedy = "repeat at most 1000 times"
    if message == "missing )":
        message, at = "a bracket is not closed", text.rfind("(")
    if message.startswith("unexpected"):
        at = text.rfind(")")
    return BadPattern(f"this is no pattern: {message}", remedy, max(at, 0))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
