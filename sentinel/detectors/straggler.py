"""straggler: one rank does its own work more slowly than its peers, step after step, and all of them wait for it.

Sees: a rank whose heartbeats say that its own work (`busy_s`: loading, and what else it does before it meets the others) takes
`factor` times as long as the typical rank's, by more than `share` of a step, for `lasting_steps` steps and `lasting_s`
seconds. Each rank is measured by its own clock and judged by the median of its newest samples, so neither skewed clocks, nor
late files, nor one slow step, nor a rank that is missing matter. Does not see: anything in a run whose heartbeats carry no
`busy_s`; ranks that are slow only inside a collective step (FSDP meets its peers in every layer: time spent there looks
the same on all); that ranks have unequal work by design (stages of a pipeline that measure their compute: a group of them is
named, once); a slowdown of all (slowdown); a rank that has stopped (hang).

The order in which heartbeats are heard is not used: on a shared filesystem a far host's files are always the last.

Source: sections timed on each rank by its own clock and compared across ranks, as NVIDIA's resiliency extension does; a score
of 0.75 there is 1.33 times the peers. It compares with the fastest rank, here with the typical one: one idle rank makes no
stragglers of the rest. `share`, because what loading takes beyond its peers may hide behind the device's work; the
spread condition (four deviations of the ranks' own) for large worlds of unequal ranks.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sentinel.detectors.contract import NOTHING, Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import Heartbeat
from sentinel.streams.baseline import MAD_TO_SIGMA

RANKS_MAX = 65536
SAMPLES_KEPT = 15
SAMPLES_MIN = 5
SIGMAS = 4.0
SPREAD_RANKS_MIN = 4
JUDGED_EVERY_S = 1.0  # a world of thousands of ranks takes milliseconds to judge
NAMED_MAX = 8


@dataclass(frozen=True, slots=True)
class StragglerSettings:
    """One rank is slower at its own work than its peers, and all wait for it."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    factor: float = setting(1.5, "multiple", "Times the work of the typical rank …")
    share: float = setting(0.1, "fraction", "… and more than it by this share of a step.")
    lasting_steps: int = setting(50, "steps", "For so many steps …", alias="lasting")
    lasting_s: float = setting(300.0, "seconds", "… and so long.", alias="at_least")


@dataclass(frozen=True, slots=True)
class Slow:
    """A rank behind its peers: its median, and that of the typical rank, in seconds a step."""

    busy_s: float
    typical_s: float


def choose_slow(medians: Mapping[int, float], step_time_s: float, factor: float, share: float) -> dict[int, Slow]:
    """The ranks that stand out. Of two ranks the faster is the typical one."""
    ordered = sorted(medians.values())
    typical = ordered[(len(ordered) - 1) // 2]
    limit = max(factor * typical, typical + share * step_time_s)
    if len(ordered) >= SPREAD_RANKS_MIN:
        gaps = sorted(abs(value - typical) for value in ordered)
        limit = max(limit, typical + SIGMAS * MAD_TO_SIGMA * gaps[len(gaps) // 2])
    return {rank: Slow(value, typical) for rank, value in medians.items() if value > limit}


class Straggler(Detector):
    kind = Kind.STRAGGLER

    def __init__(self, settings: StragglerSettings, run: WatchedRun) -> None:
        self._settings = settings
        self._severity = run.severity(Kind.STRAGGLER)
        self._run = run
        self.begin(Start(0))

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt
        self._samples: dict[int, array[float]] = {}  # of 16,384 ranks, in a sixth of what deques of numbers take
        self._newest: dict[int, int] = {}
        self._seen_s: dict[int, float] = {}
        self._since: dict[int, tuple[int, float]] = {}  # slow now, and since which step and second at every look
        self._reported: dict[int, int] = {}  # found, and the step at which it was last slow
        self._step = 0
        self._judged_s = float("-inf")
        self._standing = (Verdict.UNKNOWN, "no heartbeat says how long its rank was busy (busy_s)")

    def heartbeats(self, beats: Sequence[Heartbeat], now_s: float) -> None:
        """In `busy_step` a rank was busy for so long by its own clock. The same step again changes nothing."""
        newest, seen_s, samples_of = self._newest, self._seen_s, self._samples
        for beat in beats:
            if beat.busy_s is None:
                continue
            rank, step = beat.rank, beat.busy_step
            known = newest.get(rank)
            if known is None:
                if len(samples_of) >= RANKS_MAX:
                    continue
                samples_of[rank] = array("d")
            elif step <= known:
                continue
            newest[rank], seen_s[rank] = step, now_s
            samples = samples_of[rank]
            samples.append(beat.busy_s)
            if len(samples) > SAMPLES_KEPT:
                del samples[0]

    def tick(self, now_s: float) -> Sequence[Finding]:
        """A look at all ranks, at most once a second and only when a step was made since the last."""
        if not self._newest or now_s - self._judged_s < JUDGED_EVERY_S:
            return NOTHING
        reached = max(self._newest.values())
        if reached <= self._step:
            return NOTHING
        self._step, self._judged_s = reached, now_s
        medians, step_time_s = self._medians(reached, now_s), self._run.step_time_s
        unknown = self._why_unknown(len(medians), self._run.ranks_expected, step_time_s)
        if unknown:
            self._standing = (Verdict.UNKNOWN, unknown)
            self._since.clear()
            return NOTHING
        assert step_time_s is not None
        slow = choose_slow(medians, step_time_s, self._settings.factor, self._settings.share)
        self._since = {rank: self._since.get(rank, (reached, now_s)) for rank in slow}
        self._drop_recovered(slow, reached)
        lasted = {rank: found for rank, found in slow.items() if self._has_lasted(rank, reached, now_s)}
        self._standing = _describe(lasted, slow, len(medians))
        fresh = {rank: found for rank, found in lasted.items() if rank not in self._reported}
        self._reported |= dict.fromkeys(fresh, reached)
        return (self._finding(fresh, self._run.newest_step, step_time_s),) if fresh else NOTHING

    def _medians(self, reached: int, now_s: float) -> dict[int, float]:
        """Of the ranks that are heard: enough samples, and news since half of what it takes to be called slow."""
        oldest_step, oldest_s = reached - self._settings.lasting_steps / 2, now_s - self._settings.lasting_s / 2
        found = {}
        for rank, samples in self._samples.items():
            is_recent = self._newest[rank] >= oldest_step or self._seen_s[rank] >= oldest_s
            if is_recent and len(samples) >= SAMPLES_MIN:
                found[rank] = sorted(samples)[len(samples) // 2]
        return found

    def _why_unknown(self, judged: int, expected: int, step_time_s: float | None) -> str:
        if expected == 1:
            return "a run of one rank has nobody to compare it with"
        if judged < 2 or 2 * judged < expected:
            return f"only {judged} of {expected or 'unknown'} ranks have said how long they were busy in {SAMPLES_MIN} steps"
        return "step time unknown" if step_time_s is None else ""

    def _has_lasted(self, rank: int, step: int, now_s: float) -> bool:
        since_step, since_s = self._since[rank]
        return step - since_step >= self._settings.lasting_steps and now_s - since_s >= self._settings.lasting_s

    def _drop_recovered(self, slow: Mapping[int, Slow], step: int) -> None:
        """A rank that was found is news again only after it kept up for as long as it takes to be called slow."""
        self._reported |= {rank: step for rank in self._reported if rank in slow}
        self._reported = {rank: last for rank, last in self._reported.items() if step - last <= self._settings.lasting_steps}

    def _finding(self, fresh: Mapping[int, Slow], newest_step: int, step_time_s: float) -> Finding:
        worst = max(fresh, key=lambda rank: (fresh[rank].busy_s, -rank))
        found, (onset, since_s) = fresh[worst], self._since[worst]
        ratio = f"{found.busy_s / found.typical_s:.1f} times" if found.typical_s > 0.0 else "not"
        reason = (
            f"rank {worst} is busy for {found.busy_s:.3g} s a step since step {onset}, {ratio} the {found.typical_s:.3g} s "
            f"of its peers; the others wait for it (step time {step_time_s:.3g} s)"
        )
        others = sorted(rank for rank in fresh if rank != worst)
        if others:
            reason += f"; slow as well: {_named(others)}"
        return Finding(
            Kind.STRAGGLER, self._severity, self._attempt, onset, newest_step, since_s, reason, metric="busy_s",
            value=found.busy_s, baseline=found.typical_s, blamed_rank=worst,
        )  # fmt: skip

    def verdict(self) -> tuple[Verdict, str]:
        return self._standing


def _named(ranks: list[int]) -> str:
    more = f" and {len(ranks) - NAMED_MAX} more" if len(ranks) > NAMED_MAX else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:NAMED_MAX]))}{more}"


def _describe(lasted: Mapping[int, Slow], slow: Mapping[int, Slow], judged: int) -> tuple[Verdict, str]:
    if lasted:
        return Verdict.BREACHED, f"{_named(sorted(lasted))} behind {judged} ranks"
    if slow:
        return Verdict.HEALTHY, f"{_named(sorted(slow))} behind {judged} ranks, not for long yet"
    return Verdict.HEALTHY, f"{judged} ranks keep up with each other"
