"""Where a simulated supervisor is killed: beside an append to the journal, or an effect on the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sentinel.sim.faults import EFFECT, JOURNAL, Fault
from sentinel.sim.world import SupervisorKilled


@dataclass
class Points:
    """Where the supervisor is killed: at the nth append or effect of the run, each side counted on its own."""

    faults: Sequence[Fault]
    appends: int = 0
    effects: int = 0
    down_s: float = 0.0
    done: set[str] = field(default_factory=set)

    def at_append(self, side: str) -> None:
        self.appends += side == "before"
        self._judge(JOURNAL, self.appends, side)

    def at_effect(self, side: str) -> None:
        self.effects += side == "before"
        self._judge(EFFECT, self.effects, "after" if side == "between" else side)

    def _judge(self, place: str, count: int, side: str) -> None:
        for fault in self.faults:
            hit = fault.place == place and fault.at == count and fault.options["side"] == side
            if hit and fault.text not in self.done:
                self.done.add(fault.text)
                self.down_s = fault.number("for")
                raise SupervisorKilled(fault.text)
