"""What a detector is, and what it knows of the run that it watches.

A detector is pure. It takes readings with the time at which they were read, keeps a bounded memory, and answers with findings. It
judges before it learns, says `unknown` when it cannot judge, and is cut at every launch. Read again from its first line,
the same stream gives the same findings with the same keys, whatever the supervisor lived through in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from sentinel.detectors.disk_forecast import KeptCheckpoints
from sentinel.detectors.hold import Hold
from sentinel.detectors.reference import Reference
from sentinel.model.disks import DiskReading
from sentinel.model.findings import Finding, Kind, Severity, Verdict
from sentinel.model.readings import (
    RANKS_END,
    CheckpointReading,
    HardwareReading,
    Heartbeat,
    MirrorReading,
    RanksSeen,
    Receipt,
    SourceReading,
    StepReading,
    TrainerNote,
)
from sentinel.streams.blocks import Block, Blocks
from sentinel.streams.level import Level
from sentinel.streams.pace import Pace
from sentinel.streams.series import Series

OFF = "switched off by policy"
NOTHING: tuple[Finding, ...] = ()
NO_HOSTS: Mapping[int, str] = MappingProxyType({})
CALM_ROWS = 60  # after a spike: the three groups of samples that a slow climb is made of
LOSS_BLOCKS = 24


@dataclass(frozen=True, slots=True)
class Creep:
    """A norm that climbs slowly. `lowest_step`: the last one of the samples in which it stood lowest; `found_step`: when it was
    found climbing."""

    metric: str
    lowest_step: int
    found_step: int


class DetectorSettings(Protocol):
    """`spec.detectors` of a policy: these, and for each row of the registry its settings under the row's name."""

    @property
    def grace_steps(self) -> int:
        """Steps after a resume in which a bump is usual."""
        ...

    @property
    def onset_lookback_steps(self) -> int:
        """How far before an alarm its onset may be dated back by another signal."""
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """Where an attempt's stream begins. `quiet_until`: the last step of the grace after a resume; 0 without one."""

    attempt: int
    resume_step: int = 0
    quiet_until: int = 0


class WatchedRun:
    """What the detectors of one bank share. The bank keeps it; a detector reads it, and writes what its comment names.

    severity: of a kind's findings, by the policy's rule or the registry's default. hold: of the rule on a kind.
    reference: a recorded run to compare with. expressions: the policy's rules on expressions. kept: what its retention
    keeps of the checkpoints. All three may be None.
    """

    def __init__(
        self,
        series: Series,
        severity: Callable[[Kind], Severity],
        holds: Mapping[Kind, Hold],
        reference: Reference | None = None,
        expressions: Detector | None = None,
        kept: KeptCheckpoints | None = None,
    ) -> None:
        self.series = series
        self.pace = Pace()
        self.loss_blocks = Blocks(LOSS_BLOCKS)
        self.severity = severity
        self._holds = holds
        self.reference = reference
        self.expressions = expressions
        self.kept = kept
        self.is_alive = False
        self.has_beats = False
        self.ranks_expected = 0
        self.rank_end = RANKS_END  # behind the last rank that the attempt can have, by its receipt; written by the bank
        self.hosts: Mapping[int, str] = NO_HOSTS  # by rank, as heartbeats tell; kept by the engine
        self.rate: float | None = None  # the newest learning rate of the stream; written by the bank
        self.level_at_rate: float | None = None  # of the loss, when a rate that returns was last so high; written by the bank
        self.rate_rises = False  # in the newest row, to where it was before; written by the bank
        self.furthest_step = 0  # of all heartbeats
        self.sees_checkpoints = True
        self.is_spiking = False  # written by spike
        self.calm_rows = CALM_ROWS  # rows since it last was; written by spike
        self.damaged_since: int | None = None  # first step of the non-finite state; written by non_finite
        self.longest_silence_s = float("inf")  # that is no hang; written by hang

    def hold(self, kind: Kind) -> Hold:
        return self._holds.get(kind, Hold())

    @property
    def newest_step(self) -> int:
        """Newest step of the attempt; the resumed step before its first."""
        return self.series.newest_step

    @property
    def step_time_s(self) -> float | None:
        """Learned seconds per optimizer step; None while unknown."""
        return self.pace.step_time_s


class Detector:
    """One failure, watched. A detector overrides the calls that it needs; the bank makes no other.

    needs: metrics of which any is enough to judge by. Where none of them is logged (any more) the bank says `unknown`.
    reads: metrics of which a row holds at least one to be passed to `step`; empty: it gets every row.
        In both a name that ends in a slash is a family: `grad_norm/` is any metric that begins so.
    blocks_of: metrics whose blocks of five samples it reads; of a metric named `norm` in log space.
    is_idle: it can judge nothing in this run, and no row is passed to it.
    """

    kind: Kind
    needs: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    blocks_of: tuple[str, ...] = ()
    is_idle: bool = False

    def verdict(self) -> tuple[Verdict, str]:
        """How it stands now, and why."""
        raise NotImplementedError

    # An attempt's life, in this order.

    def launch(self, attempt: int, now_s: float) -> None:
        """Its processes were started, or found alive; nothing was read yet."""

    def begin(self, start: Start) -> None:
        """Its stream begins: forget what belonged to the old one. Called at the launch, and again at the receipt."""

    def resume(self, receipt: Receipt, history: tuple[StepReading, ...], now_s: float) -> None:
        """The trainer's receipt, and the rows before the step it resumed from: learn, without findings."""

    def end(self) -> None:
        """Its processes are gone."""

    # What is read. `covered`: the steps that a row stands for.

    def step(self, reading: StepReading, covered: int, now_s: float) -> Sequence[Finding]:
        return NOTHING

    def complete(self, reading: StepReading, covered: int, now_s: float) -> Sequence[Finding]:
        """A further line of the newest row's step, with the metrics that the lines before did not hold. For what gets every row;
        `step` gets such a line where it holds one of `reads`."""
        return NOTHING

    def block(self, metric: str, block: Block, now_s: float) -> Sequence[Finding]:
        """Five samples of a metric of `blocks_of` are complete."""
        return NOTHING

    def learn(self, reading: StepReading) -> None:
        """A row of the surviving past, after its blocks, for what cannot learn the rows at once in `resume`. Like `step`, it gets
        the rows that hold one of `reads`."""

    def learn_block(self, metric: str, block: Block) -> None:
        """A block of the surviving past."""
        self.block(metric, block, 0.0)

    def change_settings(self, quiet_until: int | None, moved: Collection[str]) -> None:
        """Other settings from here on: the level of the metrics `moved` may jump. `quiet_until`: the end of a grace, where the
        learning rate rose."""

    def heartbeats(self, beats: Sequence[Heartbeat], now_s: float) -> None:
        """Of ranks of the attempt, as many as came at once: of a large run 16,384 come a second."""

    def ranks_seen(self, reading: RanksSeen) -> None:
        """What silent ranks are doing, as seen from outside."""

    def note(self, note: TrainerNote, now_s: float) -> None: ...

    def checkpoint(self, reading: CheckpointReading, now_s: float) -> None:
        """A committed checkpoint of this attempt."""

    def hardware(self, reading: HardwareReading, now_s: float) -> None: ...

    def disk(self, reading: DiskReading, now_s: float) -> None:
        """A look at one filesystem of the run."""

    def mirror(self, reading: MirrorReading) -> None:
        """How far a part of the run's mirror is."""

    def source(self, reading: SourceReading) -> None:
        """A source went blind, or sees again."""

    def away(self, seconds: float) -> None:
        """For so long before the tick that follows the supervisor itself stood still."""

    def tick(self, now_s: float) -> Sequence[Finding]:
        """Time has passed while an attempt runs and can be seen."""
        return NOTHING

    def hardware_tick(self, now_s: float) -> Sequence[Finding]:
        """Time has passed, whether the trainer can be seen or not."""
        return NOTHING

    # What others ask.

    def band_before(self, metric: str) -> Level | None:
        """Where the metric stood before its newest breach, or before it began to climb; None where it does neither."""
        return None

    def creeping(self) -> Creep | None:
        """A norm that climbs slowly now, and since when."""
        return None

    def still_true(self, alert: str) -> str:
        """Why its finding cannot have healed, whatever the loss says; empty where it may have. `alert`: of a rule on `expr`."""
        return ""

    def good_since(self) -> int | None:
        """The first step without the fault of its newest alarm, where it knows; None for one whose end the loss alone tells."""
        return None

    def over(self, kind: Kind, metric: str, now_s: float) -> str:
        """What shows that it is over, of a kind that its own measurement ends; empty where it is not, or not known to be."""
        return ""

    def explain(self, now_s: float) -> tuple[str, int | None]:
        """What it saw in the last minutes that may have ended an attempt, and the one rank it points at; '' for nothing."""
        return "", None
