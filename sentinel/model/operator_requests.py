"""What a person may ask of a supervised run: a closed union. Each request has an id and is answered once, by a fact."""

from __future__ import annotations

from dataclasses import dataclass, field

from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.recorded import recorded_as


@recorded_as("Pause")
@dataclass(frozen=True, slots=True)
class PauseRun:
    """Watch on, and carry nothing out until `Resume`."""


@recorded_as("Resume")
@dataclass(frozen=True, slots=True)
class ResumeRun:
    """End a pause or a hold."""


@recorded_as("Hold")
@dataclass(frozen=True, slots=True)
class HoldRun:
    """Stop training after a checkpoint and wait for a person; the supervisor stays."""


@recorded_as("RollBack")
@dataclass(frozen=True, slots=True)
class RollBack:
    """Relaunch from the newest good checkpoint at or below `to_step`; 0 starts from scratch. `settings` are laid over those in
    force, its skip list too; `keys` are the settings meant (one of them None: as configured)."""

    to_step: int
    settings: SettingsInForce = field(default_factory=SettingsInForce)
    keys: tuple[str, ...] = ()


@recorded_as("LeaveOut")
@dataclass(frozen=True, slots=True)
class LeaveOut:
    """Never train on these samples."""

    samples: SampleRange


@recorded_as("Change")
@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Other settings, while it runs. `until_steps`: so many steps from now they go back; None: until changed again."""

    settings: SettingsInForce
    keys: tuple[str, ...]
    until_steps: int | None = None


@recorded_as("Approve")
@dataclass(frozen=True, slots=True)
class Approve:
    """The rung that waits for a person is to be taken. `rung`: the index of the one that was asked about, and no other; None:
    whichever waits."""

    incident: int
    rung: int | None = None


@recorded_as("Deny")
@dataclass(frozen=True, slots=True)
class Deny:
    """The rung that waits for a person is passed over. `rung`: as of `Approve`."""

    incident: int
    rung: int | None = None


@recorded_as("Acknowledge")
@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A person has seen the incident: its page is not repeated."""

    incident: int


@recorded_as("Resolve")
@dataclass(frozen=True, slots=True)
class Resolve:
    """A person has settled what the incident's page called for: it is over."""

    incident: int


@recorded_as("Remark")
@dataclass(frozen=True, slots=True)
class Remark:
    """A person's own entry in the record of the run. It changes nothing."""

    text: str


@recorded_as("Readmit")
@dataclass(frozen=True, slots=True)
class Readmit:
    """The node may be used again, from the next launch on. `force`: without the check that the policy asks for."""

    node: str
    force: bool = False


@recorded_as("Prune")
@dataclass(frozen=True, slots=True)
class PruneCheckpoints:
    """Delete the checkpoints that nobody needs, but for the newest `keep`."""

    keep: int


@recorded_as("ApplyPolicy")
@dataclass(frozen=True, slots=True)
class ApplyPolicy:
    """Go on by another policy, from the next decision on. `path`: where its file lies. `digest`: of what the person has checked,
    which lies in the run directory; empty: the file is read anew. `note`: why, in the words of whoever asks."""

    path: str
    digest: str = ""
    note: str = ""


OperatorRequest = (
    PauseRun
    | ResumeRun
    | HoldRun
    | RollBack
    | LeaveOut
    | ChangeSettings
    | Approve
    | Deny
    | Acknowledge
    | Resolve
    | Remark
    | Readmit
    | PruneCheckpoints
    | ApplyPolicy
)

_DEADLINE = "deadline/"


def deadline_id(incident: int, rung: int) -> str:
    """The id of what nobody asked for: the deadline of an approval has passed."""
    return f"{_DEADLINE}{incident}/{rung}"


def is_deadline(request_id: str) -> bool:
    """Whether no person made the request, but `deadline_id`."""
    return request_id.startswith(_DEADLINE)


REMARK_CHARS_MAX = 2000


def is_remark(text: str) -> bool:
    """One line that can be printed as it is."""
    return bool(text.strip()) and len(text) <= REMARK_CHARS_MAX and text.isprintable()
