"""What is known of the living attempt beyond statistics: forgotten at its end, rebuilt by reading its files again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Finding
from sentinel.model.readings import RANKS_END, EndReading, Heartbeat, LogMatch, Phase, Receipt, StepReading
from sentinel.plan.holes import Hole, end_before
from sentinel.plan.proving import Counted, RatesBefore

RANKS_KEPT = 65536
SAVES_KEPT = 64


class LiveAttempt:
    """Attributes:
    last_step_s: when the newest step was made; None before the first. By the trainer's clock where that is believable
        (after the launch, not ahead of us): a supervisor that was away reads old lines late.
    saving_s: supervisor time at which a rank was last heard to begin or end a checkpoint; None before the first.
    finished: the stream's end line says finished. end_reason: whatever it says; empty before it.
    samples_end: behind the newest sample that was trained; None before the first step of an attempt whose receipt has no cursor.
    samples_show: whether the samples of a row show what was trained on, and were not computed from what was asked.
    spare_samples: so many more than a row's own number says may lie between it and its samples: of a trainer that may count its
        steps from 0. No sample is trained wrongly unless it is so by either number.
    claimed: the step from which the receipt says that the trainer went on, until its first rows have shown it.
    first_steps: of those rows.
    announced_skip: samples that the receipt says are left out. counted: what the newest row said that the trainer counts.
    rates: the last two learning rates of the stream before this attempt, and the factor they ran under; None where not known.
    holes: steps whose numbers were lost, as far as the stream was read.
    rank_end: behind the last rank that the attempt can have, by its receipt.
    unwritten_remarks: what sources had to say beyond what an attempt may write down.
    """

    def __init__(self, attempt: int = 0, holes: Iterable[Hole] = ()) -> None:
        self.attempt = attempt
        self.last_step_s: float | None = None
        self.saving_s: float | None = None
        self.finished = False
        self.end_reason = ""
        self.unwritten_remarks = 0
        self.holes: list[Hole] = [*holes]
        self._newest_step = 0
        self.samples_end: int | None = None
        self.samples_show = True
        self.spare_samples = 0
        self.claimed: int | None = None
        self.first_steps: list[int] = []
        self.announced_skip: tuple[SampleRange, ...] = ()
        self.counted: Counted | None = None
        self.rates: RatesBefore | None = None
        self.past: list[Finding] = []  # of steps from before the policy in force, until it is known whether they still hold
        self.saves_s: dict[int, tuple[float, float]] = {}  # by step: its cost and its time, told before it was seen
        self.log_matches: dict[str, list[LogMatch]] = {}  # by the policy's entry, in the order they were found
        self.hosts: dict[int, str] = {}  # by rank, as its heartbeats tell; the bank reads it, too
        self.rank_end = RANKS_END
        self._phases: dict[int, Phase] = {}

    def step(self, reading: StepReading, now_s: float, launched_s: float) -> None:
        if reading.attempt == self.attempt:
            if reading.step > self._newest_step:
                self._newest_step = reading.step
                if self.holes:
                    end_before(self.holes, reading.step)
            self.last_step_s = reading.time_s if launched_s <= reading.time_s <= now_s else now_s

    def receipt(self, receipt: Receipt) -> None:
        """What was heard of ranks that the attempt cannot have, before it said how many it has, is forgotten."""
        if receipt.attempt != self.attempt:
            return
        self.rank_end = receipt.rank_end
        for known in (self._phases, self.hosts):
            for rank in [rank for rank in known if rank >= self.rank_end]:
                del known[rank]

    def heartbeats(self, beats: Sequence[Heartbeat], now_s: float) -> None:
        attempt, phases, hosts, rank_end = self.attempt, self._phases, self.hosts, min(self.rank_end, RANKS_KEPT)
        for beat in beats:
            rank, phase, host = beat.rank, beat.phase, beat.host
            if beat.attempt != attempt or rank >= rank_end:
                continue
            before = phases.get(rank)
            if "checkpoint" in (phase, before):
                self.saving_s = now_s
            if phase != before:
                phases[rank] = phase
            if host and hosts.get(rank) != host:
                hosts[rank] = host

    def matched(self, match: LogMatch) -> None:
        known = self.log_matches.setdefault(match.name, [])
        if match.attempt == self.attempt and len(known) < RANKS_KEPT:
            known.append(match)

    def saved(self, step: int, cost_s: float, took_s: float) -> None:
        self.saves_s[step] = (cost_s, took_s)
        while len(self.saves_s) > SAVES_KEPT:
            del self.saves_s[min(self.saves_s)]

    def end(self, reading: EndReading) -> None:
        if reading.attempt == self.attempt:
            self.end_reason = reading.reason
            self.finished = self.finished or reading.reason == "finished"

    @property
    def nodes(self) -> frozenset[str]:
        """The machines that ranks of this attempt were heard from."""
        return frozenset(self.hosts.values())

    @property
    def has_beats(self) -> bool:
        return bool(self._phases)

    @property
    def is_checkpointing(self) -> bool:
        return any(phase == "checkpoint" for phase in self._phases.values())
