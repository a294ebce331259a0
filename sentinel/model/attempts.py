"""One launch of the run: what is asked for, what can be seen of it, and how it ended.

These types are the launcher's interface. `AttemptSpec` goes out (it becomes `attempts/N/spec.json`),
`AttemptView` comes back. An exit's class is read from the ranks' own records, never from the launcher's status:
torchrun returns 1 when every rank left with 6 (measured, see PROTOCOL.md "Leaving").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sentinel.client.settings import Settings
from sentinel.model.environment import Environment
from sentinel.model.recorded import recorded_as

ExitSource = Literal["record", "reaped", "launcher", "unknown"]
ChangePurpose = Literal["remedy", "person", "lapse"]  # why settings change while a trainer runs; "lapse": also one put off

EXIT_FINISHED = 0
EXIT_BAD_CONFIG = 3
EXIT_BAD_DATA = 4
EXIT_NON_FINITE = 5
EXIT_STOPPED = 6


@dataclass(frozen=True, slots=True)
class SampleRange:
    """Half-open range of sample indices in the run's data order, `start <= index < end`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        assert 0 <= self.start < self.end, f"empty or negative sample range {self.start}..{self.end}"


PERSON = 0  # who owns a setting that a person asked for; incidents count from 1


@dataclass(frozen=True, slots=True)
class Decay:
    """When sentinel takes a setting back, if the run is healthy then. `wait`: for how many steps it was to hold; each time its
    lapse brings the failure back, twice as long."""

    key: str
    due: int
    wait: int


@dataclass(frozen=True)
class _Origin:
    """What comes before the settings."""

    __slots__ = ()

    id: str = "ov-0"
    incident: int | None = None


@dataclass(frozen=True, slots=True)
class SettingsInForce(Settings, _Origin):
    """Settings in force over the trainer's own: those of the table in `sentinel.client.settings`, whose they are, and how long.

    None means 'the schedule decides'. `lr_scale` multiplies the schedule, `clip_norm` replaces it; both are absolute. `until`
    gives, per key, the first step at which it no longer holds. `skip` is merged, sorted and only grows during a run. `owners`:
    per key, the incident whose remedy set it, or PERSON; a remedy takes back only what its own incident set.
    `decay`: which of them sentinel takes back itself, and from which step on; for these `until` is later: the trainer's own
    lapse, should no sentinel be there.
    `once_step`: where what is done once (optimizer reset, loss scale) was done; a relaunch from there or before does it again.
    """

    skip: tuple[SampleRange, ...] = ()
    until: tuple[tuple[str, int], ...] = ()
    owners: tuple[tuple[str, int], ...] = ()
    once_step: int | None = None
    decay: tuple[Decay, ...] = ()


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The checkpoint an attempt starts from. `digest` is the sha256 of its manifest.json, None when not yet verified."""

    step: int
    path: str
    digest: str | None = None


Evidence = Literal["", "bytes", "numbers", "norm", "trainer", "failures", "unread"]
"""What speaks against a checkpoint: its bytes, its own numbers, its norm beside the recorded ones, the trainer's refusal,
failures of what resumed from it, a read that never ended. Empty: an onset."""


@dataclass(frozen=True, slots=True)
class Vouched:
    """The word that sentinel has verified a checkpoint for this very launch: that of `step`, whose manifest has this sha256.
    `how`: as the policy asks, full | sampled | remembered."""

    step: int
    digest: str
    how: str


@dataclass(frozen=True, slots=True)
class AttemptSpec:
    """Everything one launch needs. Starting is idempotent under `attempt`: the same number is never started twice.
    `environment`: what it runs, as read just before; None where nobody looked. `exclude_nodes`: nodes it is not to run on.
    `trainer`: of a trainer under a profile, how it is started and followed (`sentinel.trainers.spec`), as JSON.
    `launch`: a word that no other launch has, whatever its number; None where nobody made one.
    `vouched`: that the checkpoint of `resume` was verified for it; None where nobody says so."""

    attempt: int
    argv: tuple[str, ...]
    cwd: str
    resume: ResumePoint | None
    overrides: SettingsInForce
    inspect: tuple[SampleRange, ...] | None = None  # samples to look at; None: it trains
    environment: Environment | None = None
    exclude_nodes: tuple[str, ...] = ()
    trainer: Mapping[str, Any] | None = None
    launch: str | None = None
    vouched: Vouched | None = None

    @property
    def program(self) -> tuple[str, ...]:
        """The trainer's own command, which `argv` leads to."""
        return self.argv if self.trainer is None else tuple(self.trainer["argv"])


@dataclass(frozen=True, slots=True)
class RankExit:
    """How one rank ended. Exactly one of `code` and `signal` is known for a source other than 'unknown'. `lost_peers`: its own
    record says that it ended because other ranks were gone, so that it tells of another rank's end and not of a cause."""

    rank: int
    code: int | None
    signal: int | None
    source: ExitSource
    error: str | None = None
    lost_peers: bool = False


@dataclass(frozen=True, slots=True)
class ExitReport:
    """`attempts/N/exit.json`. `command_status` is the launcher command's own status (negative: signal), None if unknown.
    `keeper_signal`: what told the keeper to end everything, where nothing had failed before. `left_behind`: processes that a
    command which ended with 0 had left, and that the keeper killed. `lost_nodes`: which the scheduler has given up, where
    `first_failed_rank` is blamed for nothing but that it ran on one of them."""

    command_status: int | None
    ranks: tuple[RankExit, ...]
    first_failed_rank: int | None
    reason: str = ""
    keeper_signal: int | None = None
    left_behind: int = 0
    lost_nodes: tuple[str, ...] = ()

    def of_ranks_below(self, end: int) -> ExitReport:
        """Without ranks that the attempt cannot have: a record that speaks for one is left over or forged."""
        ranks = tuple(one for one in self.ranks if one.rank < end)
        first = self.first_failed_rank
        return replace(self, ranks=ranks, first_failed_rank=first if first is None or first < end else None)


@recorded_as("NotStarted")
@dataclass(frozen=True, slots=True)
class NotStarted:
    """No keeper was ever started for this attempt (there is no keeper.json and no exit.json)."""

    attempt: int


@recorded_as("Alive")
@dataclass(frozen=True, slots=True)
class Alive:
    """The keeper lives. `pids` are the attempt's processes, the keeper itself left out; may be empty for an instant."""

    attempt: int
    keeper_pid: int
    pids: tuple[int, ...]


@recorded_as("Exited")
@dataclass(frozen=True, slots=True)
class Exited:
    """`exit.json` is written and no process of the attempt lives."""

    attempt: int
    report: ExitReport


@recorded_as("Orphaned")
@dataclass(frozen=True, slots=True)
class Orphaned:
    """The keeper is dead and left no exit.json: `pids` still live and must be reaped, then the attempt has ended."""

    attempt: int
    pids: tuple[int, ...]
    reason: str


@recorded_as("RankElsewhere")
@dataclass(frozen=True, slots=True)
class RankElsewhere:
    """A rank on another machine whose end nothing proves, as its newest heartbeat names it. `pid` None: it does not say."""

    rank: int
    host: str
    pid: int | None = None


@recorded_as("Unseen")
@dataclass(frozen=True, slots=True)
class Unseen:
    """The launcher could not look. Unknown is not dead: nothing may be relaunched on this.

    `has_ended_here`: it did look, and all of the attempt that it can see has ended; `ranks`, on other machines, may live. Where
    there are none, what the attempt started there was never heard of.
    """

    attempt: int
    reason: str
    ranks: tuple[RankElsewhere, ...] = ()
    has_ended_here: bool = False


AttemptView = NotStarted | Alive | Exited | Orphaned | Unseen
