"""Where each rank stands, since when by the supervisor's clock, and which one the others wait for.

A rank is *heard* when its heartbeat changes at all, and has *moved* when its step or phase did: a thread that only keeps a file
fresh is alive and makes no progress.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from sentinel.model.amounts import time_words
from sentinel.model.readings import Phase

PHASE_ORDER: dict[Phase, int] = {
    "init": 0, "compile": 1, "data": 2, "forward": 3, "backward": 4, "optimizer": 5, "eval": 6, "checkpoint": 7, "idle": 8,
}  # fmt: skip
MEETING: frozenset[Phase] = frozenset({"forward", "backward", "optimizer"})  # phases in which ranks wait for each other
AFTER_UPDATE: frozenset[Phase] = frozenset({"eval", "checkpoint", "idle"})  # what a rank does between two steps
RANKS_MAX = 65536
APART_S = 5.0  # heartbeats heard closer to each other stopped together: files arrive late, on some hosts later than on others


class Beat(NamedTuple):
    """Where a rank stands; heard, and moved there, at these times. A tuple: 16,384 are made a second."""

    step: int
    phase: Phase
    seen_s: float
    moved_s: float

    @property
    def place(self) -> tuple[int, int]:
        return self.step, PHASE_ORDER[self.phase]


def absent_ranks(beats: Mapping[int, Beat], ranks_expected: int) -> list[int]:
    """Ranks that never beat while others did."""
    if not beats or len(beats) >= ranks_expected:
        return []
    return [rank for rank in range(min(ranks_expected, RANKS_MAX)) if rank not in beats]


def choose_stuck(beats: Mapping[int, Beat], ranks_expected: int, waiting: Set[int] = frozenset()) -> int | None:
    """The one rank that by the heartbeats alone holds up the others. One that never beat while others did stands behind all. A
    rank that does work of its own while all others stand where ranks meet is waiting for nobody: it would have come to the
    meeting, too, even where another's last collective is a step behind. Else the one furthest behind. None on a tie, for a single
    rank, and where two ranks each do work of their own in different steps (a rank may pass a collective before its peer has seen
    the end of it, so neither is behind), and where the phase of some rank is left over (`left_over`): it may hang there, and
    another one where it has gone since. `waiting`: seen to wait for others, so none of them is the one, and none hangs where its
    phase is left over."""
    absent = absent_ranks(beats, ranks_expected)
    if absent or len(beats) < 2:
        return absent[0] if len(absent) == 1 else None
    over = left_over(beats)
    beats = {rank: beat for rank, beat in beats.items() if rank not in over or rank not in waiting}
    rank = None if over - waiting else _choose_by_place(beats)
    return None if rank in waiting else rank


def _choose_by_place(beats: Mapping[int, Beat]) -> int | None:
    """By where each says that it stands."""
    if len(beats) < 2:
        return None
    working = [rank for rank, beat in beats.items() if beat.phase not in MEETING]
    if len(working) == 1:
        return working[0]
    if len(working) == len(beats) == 2 and len({beat.step for beat in beats.values()}) > 1:
        return None
    return choose_behind(beats)


def left_over(beats: Mapping[int, Beat]) -> Set[int]:
    """Ranks that last said what they did between two steps, while others are in the next one, and that were not heard in it for
    any time. A phase counts for the step that it was reported in: the rank may have gone on with the others since."""
    newest = max((beat.step for beat in beats.values()), default=0)
    return {
        rank
        for rank, beat in beats.items()
        if beat.step < newest and beat.phase in AFTER_UPDATE and beat.seen_s - beat.moved_s < APART_S
    }


def choose_behind(beats: Mapping[int, Beat]) -> int | None:
    """The one rank furthest behind. Of several in the same place, the one that stopped first, if the others were heard there long
    after it. None on a tie."""
    lowest = min(beat.place for beat in beats.values())
    last = [rank for rank, beat in beats.items() if beat.place == lowest]
    if len(last) == 1:
        return last[0]
    return _stopped_first({rank: beats[rank] for rank in last})


def _stopped_first(beats: Mapping[int, Beat]) -> int | None:
    """Entering a place early is no stopping: the others must have been heard *in* it, well after this one's last word."""
    first, second = sorted(beats, key=lambda rank: beats[rank].seen_s)[:2]
    stayed = all(beat.seen_s > beat.moved_s for rank, beat in beats.items() if rank != first)
    return first if stayed and beats[second].seen_s - beats[first].seen_s >= APART_S else None


def choose_silent(beats: Mapping[int, Beat], now_s: float, stepped_s: float, limit_s: float) -> tuple[int, ...]:
    """Ranks that went silent for over `limit_s` while the others live and wait: every one of those says that it stands where
    ranks meet, and none has moved for as long. Empty where anybody still moves, or nobody is silent, or nobody lives. A rank that
    was silent long before the last step, made at `stepped_s`, has a broken heartbeat: the step was not made without it."""
    if any(now_s - beat.moved_s <= limit_s for beat in beats.values()):
        return ()
    silent = [rank for rank, beat in beats.items() if now_s - beat.seen_s > limit_s]
    living = [beat for beat in beats.values() if now_s - beat.seen_s <= limit_s]
    if not living or any(beat.phase not in MEETING for beat in living):
        return ()
    return tuple(sorted(rank for rank in silent if stepped_s - beats[rank].seen_s <= limit_s))


def describe_places(beats: Mapping[int, Beat], now_s: float, blamed: int) -> str:
    """Where the blamed rank stands, where most of the others do, and why it is the one."""
    beat = beats.get(blamed)
    others = [other.place for rank, other in beats.items() if rank != blamed]
    names = {order: phase for phase, order in PHASE_ORDER.items()}
    where = "never heard" if beat is None else f"step {beat.step}, {beat.phase}, silent for {time_words(now_s - beat.seen_s)}"
    why = "is furthest behind"
    if beat is not None and others:
        is_ahead = beat.place > min(others)
        why = "stopped first" if beat.place in others else "does work of its own, the others wait" if is_ahead else why
    if not others:
        return f"rank {blamed} ({where})"
    step, order = max(set(others), key=lambda place: (others.count(place), place))
    return f"rank {blamed} {why} ({where}); {others.count((step, order))} of {len(others)} others at step {step}, {names[order]}"
