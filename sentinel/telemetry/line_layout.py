"""Printed lines of one layout, read in one go: nearly every line of a log differs from the line before it in its numbers alone.

`LineLayouts.learn` is told where in a line the numbers stood that the slow reading took. The line's text between its numbers
becomes a pattern; from the second line of a pattern on it is used. What the pattern does not match exactly is read the slow way.

>>> layouts = LineLayouts()
>>> for line in (b"iter 1: loss 2.5", b"iter 2: loss 2.4"): layouts.learn(line, line, {"step": (5, 1.0), "loss": (13, 1.0)})
>>> layouts.read(b"iter 3: loss 2.25")
{'step': 3.0, 'loss': 2.25}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from sentinel.telemetry.printed_pairs import NUMBER

_NUMBER = re.compile(rb"(?<![\w.])" + NUMBER + rb"(?![\d.])", re.IGNORECASE)
_TOKEN = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|(?<![\w.])(" + NUMBER + rb")(?![\d.])", re.IGNORECASE)
_PLAIN_NUMBER = rb"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI][nN][fF])"
_GROUPED_NUMBER = rb"[-+]?\d{1,3}(?:,\d{3})*(?:\.\d+)?"
_WHOLE_NUMBER = rb"\d{1,30}"
_BLANKS = re.compile(rb"(?:\\ )+")
LAYOUTS_MAX = 3  # of training lines, of evaluations, and of one other kind
COMPILED_MAX = 64  # of one log: where layouts keep changing, they save nothing
PATTERN_BYTES_MAX = 8192


class _Layout:
    """`fields`: name, whether its numbers have commas, its factor; in the order of the pattern's groups."""

    __slots__ = ("_factors", "_grouped", "_names", "_pattern")

    def __init__(self, pattern: bytes, fields: list[tuple[str, bool, float]]) -> None:
        self._pattern = re.compile(pattern)
        self._names = tuple(name for name, _, _ in fields)
        self._grouped = tuple(index for index, (_, grouped, _) in enumerate(fields) if grouped)
        self._factors = tuple((name, factor) for name, _, factor in fields if factor != 1.0)

    def read(self, line: bytes) -> dict[str, float] | None:
        found = self._pattern.fullmatch(line)
        if found is None:
            return None
        texts: Sequence[bytes] = found.groups()
        if self._grouped:
            texts = list(texts)
            for index in self._grouped:
                texts[index] = texts[index].replace(b",", b"")
        values = dict(zip(self._names, map(float, texts)))  # noqa: B905 - a group a name, and this is every line of a log
        for name, factor in self._factors:
            values[name] *= factor
        return values


class LineLayouts:
    """`wholes`: the names whose numbers are whole."""

    def __init__(self, wholes: Collection[str] = ()) -> None:
        self._wholes = wholes
        self._layouts: list[_Layout] = []
        self._newest = b""  # pattern of the line learned last
        self._compiled = 0

    def read(self, line: bytes) -> dict[str, float] | None:
        """The numbers of a line whose layout is known, by the names they were learned under."""
        for layout in self._layouts:
            values = layout.read(line)
            if values is not None:
                return values
        return None

    def learn(self, line: bytes, plain: bytes, spots: Mapping[str, tuple[int, float]]) -> None:
        """`spots`: by name, where its number begins in the plain form of the line, and its factor."""
        if self._compiled >= COMPILED_MAX:
            return
        numbers = list(_NUMBER.finditer(plain))
        by_start = {number.start(): index for index, number in enumerate(numbers)}
        if any(start not in by_start for start, _ in spots.values()):
            return
        wanted = {by_start[start]: (name, factor) for name, (start, factor) in spots.items()}
        pattern, fields, texts = _pattern_of(line, wanted, self._wholes)
        if texts != [number[0] for number in numbers] or len(pattern) > PATTERN_BYTES_MAX or len(fields) != len(spots):
            return
        if pattern == self._newest:
            self._compiled += 1
            self._layouts = [_Layout(pattern, fields), *self._layouts[: LAYOUTS_MAX - 1]]
        self._newest = pattern


def _pattern_of(
    line: bytes, wanted: Mapping[int, tuple[str, float]], wholes: Collection[str]
) -> tuple[bytes, list[tuple[str, bool, float]], list[bytes]]:
    """The pattern, its fields, and every number of the line."""
    parts: list[bytes] = []
    fields: list[tuple[str, bool, float]] = []
    texts: list[bytes] = []
    place = 0
    for token in _TOKEN.finditer(line):
        text = token[1]
        if text is None:
            continue  # a colour stays what it is
        parts.append(_literal(line[place : token.start()]))
        place = token.end()
        grouped = b"," in text
        field = wanted.get(len(texts))
        is_whole = field is not None and field[0] in wholes
        number = _GROUPED_NUMBER if grouped else _WHOLE_NUMBER if is_whole else _PLAIN_NUMBER
        texts.append(text)
        if field is not None:
            fields.append((field[0], grouped, field[1]))
        parts.append(b"(%s)" % number if field is not None else number)
    parts.append(_literal(line[place:].rstrip(b"\r")) + rb"\r?")
    return b"".join(parts), fields, texts


def _literal(text: bytes) -> bytes:
    """The text as it is; padding in front of a number may be shorter or longer."""
    if text.endswith(b" "):
        bare = text.rstrip(b" ")
        padding = rb"\ *" if bare.endswith((b":", b"=", b"|", b"(")) else rb"\ +"
        return _BLANKS.sub(rb"\\ +", re.escape(bare)) + padding
    return _BLANKS.sub(rb"\\ +", re.escape(text))
