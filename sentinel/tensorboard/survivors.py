"""Which steps of which attempt the run stands on: the rule of `tensorboard/effective`, without any file.

Later attempts cut earlier ones: of an attempt survives what lies at or below the lowest step that any later attempt began from.
What it trained lies above its own beginning, so no step survives twice, and steps rise from attempt to attempt: no zigzag.

    >>> bounds([Begun(1, 0), Begun(2, 100), Begun(3, 50)])   # 2 went on from 100, 3 went back to 50
    {1: 50, 2: 50, 3: None}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt: it trained the steps after `after_step`. `is_over`: its stream grows no more."""

    attempt: int
    after_step: int
    is_over: bool = False


def bounds(attempts: Sequence[Begun]) -> dict[int, int | None]:
    """For each attempt, in the order they were launched, the last of its steps that survives; None: all, it is the newest."""
    found: dict[int, int | None] = {}
    bound: int | None = None
    for begun in reversed(attempts):
        found[begun.attempt] = bound
        bound = begun.after_step if bound is None else min(bound, begun.after_step)
    return dict(reversed(found.items()))
