"""What telemetry can say about the world. A reading is an observation, never a judgement.

Steps count optimizer steps from 1. `time_s` is the trainer's clock (display and durations only); the supervisor's own
time of observation is an argument of whoever consumes the reading. Metric values may be NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from sentinel.model.attempts import AttemptView, SampleRange
from sentinel.model.collectives import Dumps
from sentinel.model.disks import DiskReading
from sentinel.model.operator_requests import OperatorRequest
from sentinel.model.saved import SavedNumbers

RANKS_END = 1 << 31  # behind every number that a rank can have

Phase = Literal["init", "compile", "data", "forward", "backward", "optimizer", "eval", "checkpoint", "idle"]


@dataclass(slots=True)  # not frozen, which makes a row in four times the time: mypy sees to it that nobody changes one
class StepReading:
    """One optimizer step as the trainer reported it; `samples` are the ranges of the data order it consumed."""

    attempt: Final[int]
    step: Final[int]
    time_s: Final[float]
    samples: Final[tuple[SampleRange, ...]]
    metrics: Final[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The trainer's proof of what is in force, read back from the live optimizer after the checkpoint was loaded.

    `history` is the end of the surviving lineage before `resume_step` (oldest first, bounded), which telemetry reads
    from the parents' streams so that a relaunched run is judged against its own past and not against nothing. `cursor` is the
    next sample index, None where the trainer does not say; neither is `tokens_per_step`. `history_world_size` is that of
    every attempt the history comes from, None where they differ or do not say. `samples_from_steps`: the samples of a row were
    computed from its step and what was asked, and show nothing. `capabilities`: what the trainer says it can do beside training;
    None where it says nothing about it. `adopted`: nobody named the checkpoint it goes on from; its program says that the first
    launch takes what is there. `profile`: of a trainer that knows nothing of Sentinel; nobody reads its live optimizer.
    `total_steps`: of the whole run, and `gpus`: on how many all ranks train together (0 on a CPU); None where it does not say.
    `may_end_early`: it may leave with 0 before the last of them, and has finished all the same (early stopping).
    `is_size_known`: `world_size` is the trainer's own word; False where it says none, or a follower can only guess.
    """

    attempt: int
    time_s: float
    resume_step: int
    resume_digest: str | None
    world_size: int
    overrides: Mapping[str, Any]
    effective: Mapping[str, Any]
    history: tuple[StepReading, ...] = ()
    cursor: int | None = None
    history_world_size: int | None = None
    tokens_per_step: int | None = None
    samples_from_steps: bool = False
    capabilities: tuple[str, ...] | None = None
    adopted: bool = False
    profile: str | None = None
    total_steps: int | None = None
    gpus: int | None = None
    may_end_early: bool = False
    is_size_known: bool = True

    @property
    def rank_end(self) -> int:
        """Behind the last rank that the attempt can have: whatever speaks for another one is none of it."""
        return self.world_size if self.is_size_known else RANKS_END


@dataclass(frozen=True, slots=True)
class TrainerNote:
    """An event line of the stream: checkpoint_committed, override_applied, override_refused, resumed_older, …"""

    attempt: int
    event: str
    step: int
    time_s: float
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndReading:
    """The stream's last line: finished | stopped_on_request | failed."""

    attempt: int
    step: int
    reason: str


class Heartbeat(NamedTuple):
    """A rank's heartbeat file changed; only changes are reported, so the reading's arrival is the beat. A tuple: of a large run
    16,384 are made a second.

    `busy_s`: seconds of its own work before it met its peers in step `busy_step`, the newest it has done; None where not
    reported. `host`: where the rank runs; empty where not reported.
    """

    attempt: int
    rank: int
    step: int
    phase: Phase
    time_s: float
    busy_s: float | None = None
    busy_step: int = 0
    host: str = ""


Doing = Literal["runs", "stopped", "blocked", "waits", "works", "mute"]
"""`runs`: its process runs or sleeps, more is not known. `stopped`: by a signal. `blocked`: in the kernel, in a wait that no
signal ends (a dead disk or device). `waits`: its Python stack stands in a collective. `works`: its stack stands elsewhere.
`mute`: its stack was due long ago, and none came."""


@dataclass(frozen=True, slots=True)
class SilentRank:
    """What a silent rank is doing, as its own machine shows it or as it writes itself. Holds until the rank is heard from again.

    `where`: the kernel function or the line of code, for people.
    """

    attempt: int
    rank: int
    doing: Doing
    where: str = ""


@dataclass(frozen=True, slots=True)
class FlightRecords:
    """What the flight recorders of some ranks hold, as dumped in this silence."""

    attempt: int
    dumps: Dumps


RanksSeen = SilentRank | FlightRecords


@dataclass(frozen=True, slots=True)
class CheckpointReading:
    """A checkpoint directory with a manifest. `samples_end` is its data cursor; `digest` is the manifest's sha256; `bytes` what
    its files have in all, 0 where the manifest does not tell."""

    step: int
    path: str
    attempt: int
    samples_end: int
    digest: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointRead:
    """A committed checkpoint was read whole behind training. `digest`: of the manifest it had before and after. `saved`: what was
    found; None where its bytes are not as the manifest says, and then `damage` says what is wrong."""

    step: int
    digest: str
    saved: SavedNumbers | None
    damage: str = ""


@dataclass(frozen=True, slots=True)
class LauncherReading:
    """What the launcher sees of the current attempt."""

    view: AttemptView


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines a rank printed before its attempt exited; rank None: the launcher's. Comes before the exit, bounded.
    `is_cut`: the search for the last step line met its bound, and what stands further up is unknown. `errors_from`: the index of
    the first line of standard error, where that is a file of its own: it stands behind what was printed later."""

    attempt: int
    rank: int | None
    lines: tuple[str, ...]
    is_cut: bool = False
    errors_from: int | None = None


@dataclass(frozen=True, slots=True)
class LogMatch:
    """The first line of a writer in which a pattern of the policy was found. `name`: the policy's entry. rank None: a line of the
    launcher's log that names no rank. host: the machine that the line names. groups: of the pattern, by name."""

    attempt: int
    name: str
    rank: int | None
    line: str
    groups: tuple[tuple[str, str], ...] = ()
    host: str = ""


HardwareWhat = Literal[
    "absent", "seen", "xid", "recovery_action", "gpu_lost", "ecc_uncorrected", "row_remap_pending", "row_remap_failure",
    "throttle", "nvlink_errors", "machine_check", "machine_check_corrected", "memory_error", "pcie_error", "io_error", "oom_kill",
]  # fmt: skip
"""`absent`: the source has nothing to look at on this machine. `seen`: a GPU is there. The rest is what can be wrong."""


@dataclass(frozen=True, slots=True)
class HardwareReading:
    """Something seen of the machine itself; states and counters are reported when they change, events each time.

    Attributes:
        source: nvml | kernel_log.
        device: PCI address as `0000:3b:00`, or a name of the kernel's (nvme0n1); None: the machine as a whole.
        value: an Xid's number, a counter, a recovery action's code, or 1 and 0 for on and off. Unknown values are not reported.
        rank: the rank whose process was seen on this GPU. place: (i, n) for the i-th of n GPUs visible to the run.
        used: False for a GPU that this run does not use.
        by_agent: the agent of that machine tells it: another machine may have a device of the same address.
        saw_no_rank: that agent has seen no process of a rank of the attempt on its machine.
    """

    source: str
    what: HardwareWhat
    text: str
    host: str = ""
    device: str | None = None
    value: float | None = None
    rank: int | None = None
    place: tuple[int, int] | None = None
    used: bool = True
    by_agent: bool = False
    saw_no_rank: bool = False


MirrorPart = Literal["journal", "streams", "checkpoints"]


@dataclass(frozen=True, slots=True)
class MirrorReading:
    """How far the run's mirror off this machine is. behind_s: for how long it is not known to hold all of the part that was due;
    every_s: how often it is due, 0 for what is due as it comes. trouble: why it could not be pushed; empty where it could."""

    part: MirrorPart
    to: str
    behind_s: float
    every_s: float = 0.0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class SourceReading:
    """A source went blind or sees again. Blind means that verdicts needing it are unknown, never healthy.
    `remark`: neither; it sees as before, and the reason is something a person should know (a damaged line left out)."""

    source: str
    ok: bool
    reason: str
    remark: bool = False


@dataclass(frozen=True, slots=True)
class RequestReading:
    """A person asks something of the run. A supervisor that is restarted reads the same `id` again; it is answered once.
    `is_attended`: somebody supervises the run; else it is answered for the next who does."""

    id: str
    by: str
    request: OperatorRequest
    is_attended: bool = True


Reading = (
    StepReading
    | Receipt
    | TrainerNote
    | EndReading
    | Heartbeat
    | RanksSeen
    | CheckpointReading
    | CheckpointRead
    | LauncherReading
    | LogTail
    | LogMatch
    | HardwareReading
    | DiskReading
    | MirrorReading
    | SourceReading
    | RequestReading
)
