"""A rank that makes no progress any more, and what can be seen of it and of the others from outside.

The others go on to the next place where ranks meet, and wait there. Each says so in a heartbeat of its own moment: at once, or,
on a busy machine, up to BUSY_S later; there a stack may also take several looks to come. Only the ranks of the supervisor's own
machine, that of rank 0, can be looked at, as telemetry.silent_ranks does it; those on others write their stacks by themselves,
as client.stacks does it. There one that is blocked in the kernel shows the line that it called from, and one that is stopped, or
that never lets go of the interpreter's lock, shows nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sentinel.client.stacks import STACKS_AFTER_S
from sentinel.model.readings import Doing, Phase, SilentRank
from sentinel.sim.faults import Fault
from sentinel.telemetry.rank_look import MUTE_AFTER_S
from sentinel.telemetry.silence import Silence
from sentinel.telemetry.silent_ranks import LOOK_EVERY_S

AT_ONCE_S, BUSY_S = 0.3, 4.0
STACK_LOOKS, BUSY_LOOKS = 1, 6  # looks before a stack that was asked for can be read


class Observation(NamedTuple):
    """What a look at one rank shows. `stack_looks`: looks until its stack can be read; None: it offers none. `is_here`: on the
    supervisor's machine."""

    doing: Doing
    stack_looks: int | None = None
    is_here: bool = True

    def seen(self, looks: int, silent_s: float) -> Doing | None:
        """Blocked is told when two looks in a row show it; a stack when it has come, or is long overdue. None: nothing."""
        if self.is_here and (self.doing == "stopped" or (self.doing == "blocked" and looks > 1)):
            return self.doing
        if self.stack_looks is None:
            return "runs" if self.is_here else None
        shown: Doing = "works" if self.doing == "blocked" else self.doing
        asked_s = (looks - 1) * LOOK_EVERY_S if self.is_here else silent_s - STACKS_AFTER_S
        if shown in ("waits", "works") and asked_s >= self.stack_looks * LOOK_EVERY_S:
            return shown
        return "mute" if asked_s > MUTE_AFTER_S else "runs" if self.is_here else None


STOPPED, RUNS = Observation("stopped"), Observation("runs")


class Stuck:
    """One such hang, drawn from the text of its fault. `beats`: the phase and the delay of each rank's last heartbeat."""

    def __init__(self, fault: Fault, ranks: int, phase: Phase) -> None:
        dice = random.Random(fault.text)
        self.rank = int(fault.number("rank")) % ranks
        is_busy, how = bool(fault.number("busy")), fault.options["how"]
        waits: Phase = "forward" if phase == "data" else phase
        self.beats: dict[int, tuple[Phase, float]] = {}
        self.observations: dict[int, Observation] = {}
        for rank in range(ranks):
            doing: Doing = _DOING[how] if rank == self.rank else "waits"
            looks = dice.randint(STACK_LOOKS, BUSY_LOOKS) if is_busy else STACK_LOOKS
            self.observations[rank] = Observation(doing, looks if fault.number("stacks") else None)
            self.beats[rank] = (phase if rank == self.rank else waits, dice.uniform(0.0, BUSY_S if is_busy else AT_ONCE_S))


_DOING: Mapping[str, Doing] = {"stopped": "stopped", "blocked": "blocked", "works": "works", "runs": "runs"}


@dataclass(frozen=True, slots=True)
class SimLife:
    step: int
    changed_s: float


@dataclass(slots=True)
class SimLook:
    """At one rank in one silence."""

    since_s: float
    count: int = 0
    reported: Doing | None = None


class SimSilentRanks:
    """The looks of one supervisor at one attempt."""

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._silence = Silence()
        self._looked_s = float("-inf")
        self._looks: dict[int, SimLook] = {}

    def poll(self, now_s: float, lives: Mapping[int, SimLife], look: Callable[[], Mapping[int, Observation]]) -> list[SilentRank]:
        """`look`: at every living rank."""
        self._silence.note(now_s, lives)
        if now_s - self._looked_s < LOOK_EVERY_S:
            return []
        silent = set(self._silence.ranks(now_s, lives))
        self._looks = {r: look for r, look in self._looks.items() if r in silent and look.since_s == lives[r].changed_s}
        if not silent:
            return []
        self._looked_s = now_s
        found, observations = [], look()
        for rank in sorted(silent & observations.keys()):
            known = self._looks.setdefault(rank, SimLook(lives[rank].changed_s))
            known.count += 1
            doing = observations[rank].seen(known.count, now_s - known.since_s)
            if doing is not None and doing != known.reported:
                known.reported = doing
                found.append(SilentRank(self._attempt, rank, doing))
        return found
