"""The words without which a pattern cannot fit, taken from the pattern itself: a log of gigabytes is mostly lines without any.

Of each alternative the longest run of letters outside every group and quantifier is required in the line; where there is none,
one word of a group that has to fit. A pattern with an alternative without either has none: a test sees to it that there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

SHORTEST = 3
_MAY_BE_ABSENT = "?*{"
_SPECIAL = ".^$+?*{}()[]|\\"


def required_words(expression: str) -> tuple[str, ...]:
    """Lower-case words of which every line that the expression fits holds one; () where there are none."""
    words: list[str] = []
    for alternative in _alternatives(_without_flags(expression)):
        longest = _longest(alternative)
        of_it = (longest,) if len(longest) >= SHORTEST else _of_groups(alternative)
        if not of_it:
            return ()
        words += of_it
    return tuple(dict.fromkeys(words))


def _of_groups(alternative: str) -> tuple[str, ...]:
    """The words of the group that tells most, of those that have to fit."""
    best: tuple[str, ...] = ()
    for start, end, after in _items(alternative):
        if alternative[start] == "(" and alternative[end:after][:1] not in tuple(_MAY_BE_ABSENT):
            inside = _inside(alternative[start:end])
            words = required_words(inside) if inside else ()
            if words and min(map(len, words)) > min(map(len, best), default=0):
                best = words
    return best


def _inside(group: str) -> str:
    """What stands in a group; empty for one that only looks ahead or back."""
    for begins in ("(?:", "(?i:"):
        if group.startswith(begins):
            return group[len(begins) : -1]
    return "" if group.startswith("(?") else group[1:-1]


def _without_flags(expression: str) -> str:
    """Without '(?i)' in front; an expression that is one group with flags, '(?i:…)', is its inside."""
    expression = expression.removeprefix("(?i)")
    if expression.startswith("(?i:") and _closing(expression, 0) == len(expression) - 1:
        return expression[4:-1]
    return expression


def _items(expression: str, start: int = 0) -> Iterator[tuple[int, int, int]]:
    """One character, escape, class or whole group after the other: where it begins and ends, and where its quantifier ends."""
    while start < len(expression):
        match expression[start]:
            case "\\":
                end = start + 2
            case "[":
                end = _class_end(expression, start) + 1
            case "(":
                end = _closing(expression, start) + 1
            case _:
                end = start + 1
        after = end
        if expression[end : end + 1] == "{":
            after = expression.index("}", end) + 1
        while after < len(expression) and expression[after] in "?*+":  # also a lazy or a possessive one
            after += 1
        yield start, end, after
        start = after


def _closing(expression: str, at: int) -> int:
    """The place of the bracket that closes the group at `at`."""
    first = next(place for place in range(at + 1, len(expression)) if expression[place] != "?")  # '(?:' has no quantifier
    return next((start for start, _, _ in _items(expression, first) if expression[start] == ")"), len(expression) - 1)


def _class_end(expression: str, at: int) -> int:
    index = at + 1
    if expression[index : index + 1] == "^":
        index += 1
    if expression[index : index + 1] == "]":
        index += 1
    while index < len(expression) and expression[index] != "]":
        index += 2 if expression[index] == "\\" else 1
    return index


def _alternatives(expression: str) -> list[str]:
    parts: list[str] = []
    begin = 0
    for start, end, _ in _items(expression):
        if expression[start] == "|":
            parts.append(expression[begin:start])
            begin = end
    return [*parts, expression[begin:]]


def _longest(alternative: str) -> str:
    """The longest run of characters that stand there whatever the line is."""
    runs = [""]
    for start, end, after in _items(alternative):
        item, quantifier = alternative[start:end], alternative[end:after]
        literal = "" if item in _SPECIAL or len(item) > 2 or item[0] == "[" else item
        if item[0] == "\\":
            literal = "" if item[1].isalnum() else item[1]
        if not literal or quantifier[:1] in tuple(_MAY_BE_ABSENT):
            runs.append("")
            continue
        runs[-1] += literal.lower()
        if quantifier:  # it may come again: the next run begins with it
            runs.append(literal.lower())
    return max((run.strip() for run in runs), key=len)
