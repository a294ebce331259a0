"""Steps whose numbers were lost: a trainer's disk was full, and it says so later. What was not seen was neither well nor ill.

A hole is (first step, last step). Steps in one were trained, and prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sentinel.model.state import Attempt

Hole = tuple[int, int]


def count_seen(holes: Iterable[Hole], after_step: int, through_step: int) -> int:
    """Steps of after_step < step <= through_step that lie in no hole; at least 0 where holes overlap."""
    whole = through_step - after_step
    unseen = sum(max(0, min(last, through_step) - max(first - 1, after_step)) for first, last in holes)
    return max(0, whole - unseen) if whole > 0 else whole


def end_of_last(holes: Iterable[Hole], through_step: int) -> int:
    """The newest step up to `through_step` that lies in a hole; 0 without one. What was seen before it says nothing of now."""
    return max((min(last, through_step) for first, last in holes if first <= through_step), default=0)


def unseen_before(attempts: Sequence[Attempt], number: int) -> list[Hole]:
    """What an attempt resumes behind and no stream has shown: the checkpoint lies ahead of every step that was seen (the last
    lines were lost, or somebody put it there). Those steps may have been trained, and are no steps of any proof."""
    this = next((one for one in attempts if one.attempt == number), None)
    seen = max((one.last_step for one in attempts if one.attempt < number), default=None)
    if this is None or this.resume is None or seen is None or this.resume.step <= seen:
        return []
    return [(seen + 1, this.resume.step)]


def end_before(holes: list[Hole], step: int) -> None:
    """A line of this step has come: what was lost before it lies before it, whatever was claimed. Changes `holes` in place."""
    if any(last >= step for _, last in holes):
        holes[:] = [(first, min(last, step - 1)) for first, last in holes if first < step]


def add_hole(holes: list[Hole], new: Hole, kept_max: int) -> None:
    """`new` behind the others, unless one of them covers it. Where there are too many, the two oldest become one, with the steps
    between them: then too much counts as unseen, and never too little."""
    if any(first <= new[0] and new[1] <= last for first, last in holes):
        return
    holes.append(new)
    while len(holes) > kept_max:
        (first, last), (other, end) = holes[:2]
        holes[:2] = [(min(first, other), max(last, end))]
