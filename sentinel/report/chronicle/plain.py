"""Text of others within Markdown: reasons that quote a log, notes of people, command lines. It stays text whatever it holds.

    >>> print(plain("[here](x) | grad_norm *rises*"))
    \\[here\\](x) \\| grad_norm \\*rises\\*
"""

from __future__ import annotations

import re

from sentinel.terminal.clean import clean

CHARS_MAX = 400

_MARKUP = re.compile(r"([\\`*<>\[\]|~&$@#]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.)", re.IGNORECASE)
_LIST = re.compile(r"^(\d*)([-+=.)])(?=\s|$)")


def plain(text: str, chars_max: int = CHARS_MAX) -> str:
    """One line in which nothing is markup, no link is made and no list begun."""
    line = " ".join(clean(" ".join(text.split()), chars_max).split())
    return _LIST.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", line))


def code(text: str, chars_max: int = CHARS_MAX) -> str:
    """One line as code, whatever backticks it holds."""
    line = " ".join(clean(" ".join(text.split()), chars_max).split()) or " "
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {line} {fence}" if longest else f"`{line}`"
