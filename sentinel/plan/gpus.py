"""On how many GPUs each attempt of a run trained: what was seen of it, and why not where that is not known.

Told: the trainer's receipt says it (`gpus`). Seen: NVML has shown processes of this run on GPUs; then each of the ranks that the
receipt names has one. A receipt that names ranks alone proves no GPU. An attempt that died before its receipt counts as those
around it, where they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sentinel.model.state import Attempt, RunState

ARCHIVE = 0  # stands for the attempts that are kept as a sum only; attempts count from 1


@dataclass(frozen=True, slots=True)
class Gpus:
    """`of`: by attempt, and of the archive; None: not known. `now`: of the newest attempt; `why` it is not known, else empty."""

    of: Mapping[int, int | None]
    now: int | None
    why: str


def gpus_of(state: RunState, in_use: int | None) -> Gpus:
    """`in_use`: on how many GPUs processes of the run were seen, None where on none."""
    found = {attempt.attempt: _count(attempt, in_use) for attempt in state.attempts}
    known = {number: count if isinstance(count, int) else None for number, count in found.items()}
    for number in [attempt.attempt for attempt in state.attempts if attempt.receipt_s is None]:
        known[number] = _between(state.attempts, known, number)
    counts = set(known.values())
    known[ARCHIVE] = counts.pop() if len(counts) == 1 else None
    if state.attempt is None:
        return Gpus(known, None, "nothing was launched yet")
    newest = state.attempt.attempt
    newest_count = found[newest]
    return Gpus(known, known[newest], "" if known[newest] is not None or isinstance(newest_count, int) else newest_count)


def _count(attempt: Attempt, in_use: int | None) -> int | str:
    """Or why it is not known."""
    if attempt.gpus is not None:
        return attempt.gpus
    ranks = attempt.world_size
    if ranks is None:
        return "the trainer has not reported yet how many it trains on"
    if in_use is None:
        return "the trainer does not say how many it trains on, and no GPU was seen with a process of this run"
    if in_use > ranks:
        return f"the trainer names {ranks} ranks, and processes of this run were seen on {in_use} GPUs"
    return ranks


def _between(attempts: tuple[Attempt, ...], known: Mapping[int, int | None], number: int) -> int | None:
    """What the nearest attempts with a receipt, before and behind, have in common."""
    with_receipt = [attempt.attempt for attempt in attempts if attempt.receipt_s is not None]
    before = [known[other] for other in with_receipt if other < number][-1:]
    behind = [known[other] for other in with_receipt if other > number][:1]
    counts = {*before, *behind}
    return counts.pop() if len(counts) == 1 else None
