"""Sample windows to leave out. Ranges are half-open, in the original data order, merged, and only ever grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sentinel.model.attempts import SampleRange
from sentinel.model.incidents import SampleAnchor

SKIPS_KEPT = 1024  # windows in force; a budget of 12 interventions a day fills it in three months


def merge(ranges: Iterable[SampleRange]) -> tuple[SampleRange, ...]:
    """The same samples as few sorted ranges as possible; touching ranges become one."""
    merged: list[SampleRange] = []
    for item in sorted(ranges, key=lambda r: (r.start, r.end)):
        if merged and item.start <= merged[-1].end:
            merged[-1] = SampleRange(merged[-1].start, max(merged[-1].end, item.end))
        else:
            merged.append(item)
    return tuple(merged)


def bounded(ranges: Sequence[SampleRange], at_most: int = SKIPS_KEPT) -> tuple[SampleRange, ...]:
    """Merged ranges, at most so many: those nearest to each other are joined, and what lies between them is skipped."""
    left = list(ranges)
    while len(left) > at_most:
        at = min(range(len(left) - 1), key=lambda n: left[n + 1].start - left[n].end)
        left[at : at + 2] = [SampleRange(left[at].start, left[at + 1].end)]
    return tuple(left)


def covers(have: Sequence[SampleRange], want: SampleRange) -> bool:
    """Whether every sample of `want` lies in `have` (which must be merged)."""
    return any(r.start <= want.start and want.end <= r.end for r in have)


def window(anchor: SampleAnchor, from_: tuple[str, int], to: tuple[str, int], widen: float) -> SampleRange:
    """Samples from `from_` up to `to`, each (onset | detected, offset in steps), the offsets multiplied by `widen`.

    Steps become samples by the batch at the incident: the steps themselves train other samples once something is skipped.
    """

    def place(ref: tuple[str, int]) -> int:
        word, offset_steps = ref
        base = anchor.onset if word == "onset" else anchor.detected
        return base + round(offset_steps * widen) * anchor.per_step

    start = max(0, place(from_))
    return SampleRange(start, max(start + anchor.per_step, place(to)))
