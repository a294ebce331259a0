"""What sentinel may do to the world: a closed union. An action is decided, journaled, and only then carried out.

Every action has a key. Carrying one out twice under the same key must be the same as once: a supervisor killed between
doing and journaling 'done' will ask again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentinel.model.attempts import ChangePurpose, ResumePoint, SampleRange, SettingsInForce
from sentinel.model.findings import Severity
from sentinel.model.recorded import recorded_as

Request = Literal["checkpoint_now", "stop_after_checkpoint", "stop_now"]
_PAGE = "page"
Stage = Literal["trigger", "update", "acknowledge", "resolve", "message"]


@recorded_as("StartAttempt")
@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Launch attempt `attempt` at or after `not_before_s` (backoff), on none of `exclude_nodes`."""

    key: str
    attempt: int
    resume: ResumePoint | None
    overrides: SettingsInForce
    not_before_s: float = 0.0
    exclude_nodes: tuple[str, ...] = ()


@recorded_as("KillAttempt")
@dataclass(frozen=True, slots=True)
class KillAttempt:
    """End every process of the attempt (SIGKILL), and see that none lives."""

    key: str
    attempt: int

    @classmethod
    def of(cls, attempt: int) -> KillAttempt:
        return cls(f"kill/{attempt}", attempt)


@recorded_as("RequestStop")
@dataclass(frozen=True, slots=True)
class RequestStop:
    """Ask the trainer to stop through overrides.json; the engine kills it after a deadline of its own."""

    key: str
    attempt: int
    overrides: SettingsInForce
    request: Request


@recorded_as("SignalRanks")
@dataclass(frozen=True, slots=True)
class SignalRanks:
    """SIGTERM to the ranks: the request was not answered in time."""

    key: str
    attempt: int


@recorded_as("WriteOverrides")
@dataclass(frozen=True, slots=True)
class WriteOverrides:
    """Change settings of the living attempt. The trainer's `override_applied` is the proof, not this action's success.

    step: the newest step when it was decided; an answer is due some steps later. before: what was in force until then.
    purpose: None in journals from before it stood here.
    """

    key: str
    attempt: int
    overrides: SettingsInForce
    step: int = 0
    before: SettingsInForce | None = None
    purpose: ChangePurpose | None = None


@recorded_as("VerifyCheckpoint")
@dataclass(frozen=True, slots=True)
class VerifyCheckpoint:
    """Check every digest of a checkpoint before anything is resumed from it."""

    key: str
    step: int
    path: str


@recorded_as("Quarantine")
@dataclass(frozen=True, slots=True)
class Quarantine:
    """Move every checkpoint above `above_step` to quarantine/attempt-NNNN/, and unfinished saves with them."""

    key: str
    attempt: int
    above_step: int
    reason: str


@recorded_as("PruneCheckpoint")
@dataclass(frozen=True, slots=True)
class PruneCheckpoint:
    """Delete one checkpoint that no rollback can need any more, if its manifest still has this digest."""

    key: str
    step: int
    path: str
    digest: str
    reason: str


@recorded_as("Capture")
@dataclass(frozen=True, slots=True)
class Capture:
    """Save evidence before it is lost: stream slices, process states, log tails, into incidents/NNNN/."""

    key: str
    incident: int
    attempt: int


def page_key(incident: int, count: int, stage: Stage, route: str) -> str:
    """The key of one sending of a page: the `count`-th on its route."""
    return f"{_PAGE}/{incident}/{count}/{stage}/{route}"


def incident_of_page_key(key: str) -> int | None:
    """The incident that a page's key names; None for the key of another action. The inverse of `page_key`."""
    word, _, rest = key.partition("/")
    digits = rest.partition("/")[0]
    return int(digits) if word == _PAGE and digits.isdecimal() else None


@recorded_as("SendPage")
@dataclass(frozen=True, slots=True)
class SendPage:
    """Tell a person, on one route. `text` carries the case; delivery is at least once under the key.

    stage: what is told of it. route: the route's name in the policy; empty in journals from before there were routes: the
    terminal. by: who acknowledged or resolved it.
    """

    key: str
    incident: int
    severity: Severity
    title: str
    text: str
    stage: Stage = "trigger"
    route: str = ""
    by: str = ""


@recorded_as("CompareRecords")
@dataclass(frozen=True, slots=True)
class CompareRecords:
    """Compare what two attempts recorded of first..last; `struck_again` goes with the question and comes back with the answer."""

    key: str
    incident: int
    old_attempt: int
    new_attempt: int
    first_step: int
    last_step: int
    struck_again: bool


@recorded_as("InspectSamples")
@dataclass(frozen=True, slots=True)
class InspectSamples:
    """Launch attempt `attempt` to look at `samples` from the checkpoint, training nothing, and judge what it finds.

    `suspect` may be found guilty; what of `samples` lies before it is there to compare with. `overrides`: what is in force
    without the rung's own skip. Given up `within_s` after the launch. `rung` goes with the question and comes back with the
    answer.
    """

    key: str
    incident: int
    rung: int
    attempt: int
    resume: ResumePoint | None
    overrides: SettingsInForce
    samples: tuple[SampleRange, ...]
    suspect: SampleRange
    within_s: float
    exclude_nodes: tuple[str, ...] = ()


Action = (
    StartAttempt
    | KillAttempt
    | RequestStop
    | SignalRanks
    | WriteOverrides
    | VerifyCheckpoint
    | Quarantine
    | PruneCheckpoint
    | Capture
    | SendPage
    | CompareRecords
    | InspectSamples
)
