"""Whom a hang is blamed on. Evidence is weighed from the surest down, and the first kind that names one rank decides:

1. the kernel shows the rank stopped by a signal;
2. or blocked in the kernel, in a wait that no signal ends;
3. a collective names it (NCCL flight recorder): others wait for it and it waits for nobody;
4. its Python stack stands in work of its own, or is long overdue, while every other rank is seen to wait in a collective;
5. its heartbeat: that it alone fell silent while the others live, else where it stands, against where the others stand
   (`rank_places`). A rank that is seen to wait for others is not blamed by it.

Where every rank is stopped, nobody is blamed: where they stood then says nothing. Evidence of one kind that names several
ranks is narrowed by their heartbeats alone, and names nobody where those are even. A heartbeat that broke long before the last
step says nothing of where its rank stands, and that rank is judged by the other kinds only. A rank that runs is not thereby
innocent, and a rank on a machine that cannot be seen is judged by 3 and 5 only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sentinel.detectors.collectives import WaitedFor
from sentinel.detectors.rank_places import Beat, choose_behind, choose_stuck, describe_places
from sentinel.model.amounts import time_words
from sentinel.model.readings import Doing, SilentRank

_CERTAIN: tuple[Doing, ...] = ("stopped", "blocked")
_WORDS: dict[Doing, str] = {
    "stopped": "is stopped by a signal", "blocked": "is blocked in the kernel", "works": "does work of its own, the others wait",
    "mute": "shows no stack when it should, the others wait",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankEvidence:
    """What is known of the ranks beside their heartbeats, of this silence."""

    seen: Mapping[int, SilentRank] = field(default_factory=dict)
    collectives: WaitedFor | None = None
    mute: frozenset[int] = frozenset()  # ranks whose heartbeats say nothing: silent long before the last step, which needed them

    @property
    def is_stopped(self) -> bool:
        """Some rank is stopped by a signal: whatever phase it last reported, it is not in it."""
        return any(silent.doing == "stopped" for silent in self.seen.values())

    @property
    def waiting(self) -> frozenset[int]:
        """Ranks whose Python stack stands in a collective: they wait for others."""
        return frozenset(rank for rank, silent in self.seen.items() if silent.doing == "waits")


@dataclass(frozen=True, slots=True)
class HangBlame:
    """`rank` None: nobody. `words`: why, for people; empty where there is nothing to say."""

    rank: int | None
    words: str = ""


def choose_blame(beats: Mapping[int, Beat], ranks_expected: int, evidence: RankEvidence, now_s: float) -> HangBlame:
    """Whom the evidence names where all are silent alike. Pure. `beats`: of all ranks that were heard."""
    known = _by_sight(beats, evidence, now_s)
    if known is not None:
        return known
    telling = _of(beats.keys() - evidence.mute, beats)
    rank = choose_stuck(telling, ranks_expected, evidence.waiting)
    return HangBlame(rank, "" if rank is None else describe_places(telling, now_s, rank))


def choose_among_silent(beats: Mapping[int, Beat], silent: Sequence[int], evidence: RankEvidence, now_s: float) -> HangBlame:
    """Whom the evidence names where only these ranks are silent, while the others live and wait. What names another rank
    outweighs that a heartbeat no longer arrives."""
    known = _by_sight(beats, evidence, now_s)
    if known is not None:
        return known
    if len(silent) == 1 and silent[0] not in evidence.waiting:
        return HangBlame(silent[0], describe_places(beats, now_s, silent[0]))
    return choose_blame(_of(silent, beats), 0, evidence, now_s)


def _by_sight(beats: Mapping[int, Beat], evidence: RankEvidence, now_s: float) -> HangBlame | None:
    """By all that is known beside the heartbeats; None where that says nothing."""
    seen = {rank: silent for rank, silent in evidence.seen.items() if rank in beats}
    if len(beats) > 1 and all(rank in seen and seen[rank].doing == "stopped" for rank in beats):
        return HangBlame(None, f"all {len(beats)} ranks are stopped by a signal: somebody suspended them, and none is to blame")
    for doing in _CERTAIN:
        if (ranks := [rank for rank, silent in seen.items() if silent.doing == doing]) and len(ranks) < max(2, len(beats)):
            return _among(ranks, beats, evidence, doing, now_s)
    collectives = evidence.collectives
    if collectives is not None and (named := [rank for rank in collectives.ranks if rank in beats or not beats]):
        rank = named[0] if len(named) == 1 else _behind_of(named, beats, evidence) if beats else None
        return HangBlame(rank, collectives.reason)
    odd = [rank for rank, silent in seen.items() if silent.doing in ("works", "mute")]
    if len(odd) == 1 and sum(silent.doing == "waits" for silent in seen.values()) == len(beats) - 1 > 0:
        return _among(odd, beats, evidence, seen[odd[0]].doing, now_s)
    return None


def _among(ranks: Sequence[int], beats: Mapping[int, Beat], evidence: RankEvidence, doing: Doing, now_s: float) -> HangBlame:
    """The one of them, or the furthest behind of several."""
    rank = ranks[0] if len(ranks) == 1 else _behind_of(ranks, beats, evidence)
    if rank is None:
        return HangBlame(None, f"ranks {', '.join(map(str, sorted(ranks)[:8]))}: each {_WORDS[doing]}")
    beat, where = beats[rank], evidence.seen[rank].where
    place = f"step {beat.step}, {beat.phase}, silent for {time_words(now_s - beat.seen_s)}"
    return HangBlame(rank, f"rank {rank} {_WORDS[doing]}{f' ({where})' if where else ''}: {place}")


def _behind_of(ranks: Sequence[int], beats: Mapping[int, Beat], evidence: RankEvidence) -> int | None:
    """The furthest behind of several, where it is known of all of them where they stand."""
    return choose_behind(_of(ranks, beats)) if evidence.mute.isdisjoint(ranks) else None


def _of(ranks: Iterable[int], beats: Mapping[int, Beat]) -> dict[int, Beat]:
    return {rank: beats[rank] for rank in ranks if rank in beats}
