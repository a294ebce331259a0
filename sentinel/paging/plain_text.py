"""Text as people are sent it: no character that a terminal should not be given, and no line longer than it may be."""

from __future__ import annotations


def plain(text: str) -> str:
    """Lines stay lines; a character that no terminal should be given, or that none can write, becomes an escape."""
    return "\n".join(_line(line) for line in text.replace("\r\n", "\n").split("\n"))


def one_line(text: str, chars_max: int) -> str:
    """On one line, and no longer than that."""
    whole = _line(" ".join(text.split()))
    return whole if len(whole) <= chars_max else whole[: chars_max - 1] + "…"


def _line(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else " " if c == "\t" else c.encode("unicode_escape").decode("ascii") for c in line)
