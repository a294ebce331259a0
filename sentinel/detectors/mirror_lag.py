"""mirror_lag: what would be lost with this machine is more than the policy allows.

Sees: a part of the run's mirror (journal, streams, checkpoints) that is not known to hold what was due for longer than `max_lag`
beyond its own rhythm, or a checkpoint that is due and not whole there for longer than `max_checkpoint_lag`. Whether the target is
away, slow or full, or the process that pushes is dead, is the same: nothing was confirmed. Does not see: whether what lies there
can still be read (`sentinel mirror verify` looks), and a run without a mirror.

It is told once, when a part falls behind, and again only after all parts had caught up; the page is then taken back.

The limits are round numbers: half an hour is a network's or a quota's bad moment, and short beside a night. A checkpoint of
terabytes takes hours over a line of a gigabit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sentinel.detectors.contract import NOTHING, Detector, Start, WatchedRun
from sentinel.detectors.settings import setting
from sentinel.model.amounts import time_words
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import MirrorReading

KIND = Kind("mirror_lag")


@dataclass(frozen=True, slots=True)
class MirrorLagSettings:
    """The run's mirror off this machine falls behind."""

    enabled: bool = setting(True, "flag", "Whether this detector runs.")
    max_lag_s: float = setting(
        1800.0, "seconds", "How far journal and streams may be behind their own rhythm.", alias="max_lag"
    )
    max_checkpoint_lag_s: float = setting(
        21600.0, "seconds", "How long a checkpoint may take until it is whole there.", alias="max_checkpoint_lag"
    )


class MirrorLag(Detector):
    kind = KIND

    def __init__(self, settings: MirrorLagSettings, run: WatchedRun) -> None:
        self._settings, self._run = settings, run
        self._severity = run.severity(KIND)
        self._parts: dict[str, MirrorReading] = {}
        self._fired = False
        self._attempt = 0

    def begin(self, start: Start) -> None:
        self._attempt = start.attempt

    def mirror(self, reading: MirrorReading) -> None:
        self._parts[reading.part] = reading

    def hardware_tick(self, now_s: float) -> Sequence[Finding]:
        """Whether the trainer can be seen or not: the mirror is no matter of its."""
        late = self._late()
        if not late:
            self._fired = False
            return NOTHING
        if self._fired or not self._run.is_alive:  # between two attempts nobody would listen
            return NOTHING
        self._fired = True
        worst = max(late, key=lambda one: one.behind_s)
        found = Finding(
            KIND, self._severity, self._attempt, None, self._run.newest_step, now_s - worst.behind_s, self._reason(late),
            value=worst.behind_s,
        )  # fmt: skip
        return (found,)

    def _late(self) -> list[MirrorReading]:
        return [one for one in self._parts.values() if one.behind_s > self._limit_s(one)]

    def _limit_s(self, reading: MirrorReading) -> float:
        own = self._settings.max_checkpoint_lag_s if reading.part == "checkpoints" else self._settings.max_lag_s
        return own + reading.every_s

    def _reason(self, late: Sequence[MirrorReading]) -> str:
        parts = [f"{one.part} ({time_words(one.behind_s)}{f': {one.trouble}' if one.trouble else ''})" for one in late]
        return f"the mirror at {late[0].to} is not known to hold what was due of: {', '.join(parts)}"

    def over(self, kind: Kind, metric: str, now_s: float) -> str:
        if not self._parts or any(one.behind_s > self._limit_s(one) or one.trouble for one in self._parts.values()):
            return ""
        return "the mirror has caught up"

    def verdict(self) -> tuple[Verdict, str]:
        if late := self._late():
            return Verdict.BREACHED, self._reason(late)
        if not self._parts:
            return Verdict.UNKNOWN, "the run has no mirror"
        return Verdict.HEALTHY, ", ".join(f"{one.part} {time_words(one.behind_s)} ago" for one in self._parts.values())
