"""Text of an expression to tokens. Each token knows where it stands, so that every later error can point to it.

A bare name is letters, digits and `_`. Names that hold more (`grad_norm/h.3.mlp`) are written in backquotes, so that
`loss / grad_norm` is always a division and a dot never an attribute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sentinel.policy.expr_tree import LENGTH_MAX
from sentinel.policy.quantities import Malformed

TokenKind = Literal["number", "duration", "name", "metric", "operator", "end"]

_NUMBER = r"(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(?:[eE][+-]?[0-9]{1,3})?"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<duration>{_NUMBER}[smhd](?![A-Za-z0-9_]))
    | (?P<number>{_NUMBER}(?![A-Za-z0-9_.]))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | `(?P<metric>[A-Za-z][A-Za-z0-9_/.\-]{{0,199}})`
    | (?P<operator>&&|\|\||[<>=!]=|[-+*/()<>!,])
    )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\s*")

# What people of other languages write, and what it is called here.
_FOREIGN = {
    "&": "write '&&'", "|": "write '||'", "=": "write '==' to compare", "^": "there is no power; multiply",
    "%": "there is no remainder; write the share as a number, 0.05 for 5 %",
    "[": "write the window as an argument: median(loss, 50 steps)",
    ".": "write names with dots or slashes in backquotes: `grad_norm/h.3`",
    "'": "there is no text in expressions; names with slashes are written in backquotes: `grad_norm/h.3`",
    '"': "there is no text in expressions; names with slashes are written in backquotes: `grad_norm/h.3`",
    "`": "close the backquote behind the name; letters, digits, '_', '/', '.' and '-' may stand in it",
    "?": "there is no choice of values; write two rules", ":": "there is no choice of values; write two rules",
    "#": "comments of YAML stand outside the expression",
    "{": "there are no labels; one run is one set of metrics", "~": "there is no matching of text",
}  # fmt: skip


class BadExpression(Malformed):
    """The only error of lexer and parser: a sentence, a remedy, and `at`, the character (from 0) where it goes wrong."""

    def __init__(self, message: str, remedy: str, at: int) -> None:
        super().__init__(message, remedy, at)


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    at: int


def tokenise(text: str) -> list[Token]:
    """All tokens, an `end` last. Raises BadExpression."""
    if len(text) > LENGTH_MAX:
        raise BadExpression(f"{len(text)} characters, at most {LENGTH_MAX} are read", "write two rules", LENGTH_MAX)
    found: list[Token] = []
    at = 0
    while match := _TOKEN.match(text, at):
        kind = match.lastgroup
        assert kind is not None
        found.append(Token(kind, match[kind], match.start(kind)))  # type: ignore[arg-type]  # the groups are the kinds
        at = match.end()
    blank = _BLANK.match(text, at)
    at = blank.end() if blank else at
    if at < len(text):
        raise _unreadable(text, at)
    found.append(Token("end", "", len(text.rstrip())))
    return found


def _unreadable(text: str, at: int) -> BadExpression:
    sign = text[at]
    if sign in "0123456789":
        word = re.match(r"[0-9A-Za-z_.]{1,20}", text[at:])
        shown = word[0] if word else sign
        remedy = "write 200, 1.3 or 1e-3; a window as '200 steps' or '10m'"
        return BadExpression(f"'{shown}' is not a number", remedy, at)
    remedy = _FOREIGN.get(sign, "known here: + - * / < <= > >= == != && || ! ( ) and names")
    return BadExpression(f"{sign!r} is no sign of expressions", remedy, at)
