"""Findings that no rule takes: a question to the author for each of them, and one for all that stand at the same place.

A policy without `extends` that has a rule or two leaves out most kinds. Judged one by one, because a policy that extends another
causes each by a line of its own; told together, because ten paragraphs that differ in a word are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sentinel.errors import Problem

PATH = "spec.rules"


@dataclass(frozen=True, slots=True)
class Unruled(Problem):
    """`pairs`: kinds of findings, each with the detector that makes it."""

    pairs: tuple[tuple[str, str], ...] = ()


def unruled(kind: str, detector: str) -> Unruled:
    return Unruled(PATH, _message([kind]), _remedy([kind], [detector]), "warning", pairs=((kind, detector),))


def gathered(problems: Sequence[Problem]) -> list[Problem]:
    """Each where the first of its like stood. Of located problems: what is not at the same place has not the same cause."""
    kept: list[Problem] = []
    places: dict[tuple[str, str, int, int], int] = {}
    for problem in problems:
        place = (problem.file, problem.path, problem.line, problem.column)
        first = kept[places[place]] if isinstance(problem, Unruled) and place in places else None
        if isinstance(first, Unruled) and isinstance(problem, Unruled):
            kept[places[place]] = _joined(first, problem)
            continue
        if isinstance(problem, Unruled):
            places[place] = len(kept)
        kept.append(problem)
    return kept


def _joined(first: Unruled, other: Unruled) -> Unruled:
    """What was said behind the message (whom the policy extends) stays."""
    pairs = (*first.pairs, *other.pairs)
    kinds, detectors = [kind for kind, _ in pairs], list(dict.fromkeys(detector for _, detector in pairs))
    behind = first.message.removeprefix(_message([kind for kind, _ in first.pairs]))
    return replace(first, message=_message(kinds) + behind, remedy=_remedy(kinds, detectors), pairs=pairs)


def _message(kinds: Sequence[str]) -> str:
    named = ", ".join(f"'{kind}'" for kind in kinds)
    makers = "the detector finds" if len(kinds) == 1 else "the detectors find"
    return f"no rule is on {named}: what {makers} is recorded, and nothing is done"


def _remedy(kinds: Sequence[str], detectors: Sequence[str]) -> str:
    if len(kinds) == 1:
        return f"add a rule on {kinds[0]}, or switch the detector '{detectors[0]}' off"
    off = ", ".join(f"{detector}: off" for detector in detectors)
    return f"add rules on them, begin the file with `extends: default`, or switch the detectors off: {{{off}}}"
