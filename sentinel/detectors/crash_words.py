"""The words without which a pattern cannot fit, taken from the pattern itself: a log of gigabytes is mostly lines without any.

Of each alternative the longest run of letters outside every group and quantifier is required in the line; where there is none,
one word of a group that has to fit. A pattern with an alternative without either has none: a test sees to it that there is none.
"""

from __future__ import annotations

SHORTEST = 3
_QUANTIFIERS = "?*{"
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
    index = 0
    while index < len(alternative):
        char = alternative[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = _class_end(alternative, index)
        elif char == "(":
            end = _closing(alternative, index)
            inside = _inside(alternative[index : end + 1])
            if inside and alternative[end + 1 : end + 2] not in tuple(_QUANTIFIERS):
                words = required_words(inside)
                if words and min(map(len, words)) > min(map(len, best), default=0):
                    best = words
            index = end
        index += 1
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


def _closing(expression: str, at: int) -> int:
    """The place of the bracket that closes the group at `at`."""
    depth, index = 0, at
    while index < len(expression):
        char = expression[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = _class_end(expression, index)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return index
        index += 1
    return len(expression) - 1


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
    begin = index = 0
    while index < len(expression):
        char = expression[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = _class_end(expression, index)
        elif char == "(":
            index = _closing(expression, index)
        elif char == "|":
            parts.append(expression[begin:index])
            begin = index + 1
        index += 1
    return [*parts, expression[begin:]]


def _longest(alternative: str) -> str:
    runs = [""]
    index = 0
    while index < len(alternative):
        char = alternative[index]
        literal = ""
        if char == "\\":
            index += 1
            escaped = alternative[index]
            literal = "" if escaped.isalnum() else escaped
        elif char == "[":
            index = _class_end(alternative, index)
        elif char == "(":
            index = _closing(alternative, index)
        elif char not in _SPECIAL:
            literal = char
        follows = alternative[index + 1 : index + 2]
        if literal and not (follows and follows in _QUANTIFIERS):
            runs[-1] += literal.lower()
        else:
            runs.append("")
        if follows == "{":
            index = alternative.index("}", index)
        elif follows and follows in "?*+":
            index += 1
            if follows != "+":
                runs.append("")
        index += 1
    return max((run.strip() for run in runs), key=len)
