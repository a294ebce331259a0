"""What sentinel may do to the world: a closed union. An action is decided, journaled, and only then carried out.

Every action has a key. Carrying one out twice under the same key must be the same as once: a supervisor killed between
doing and journaling 'done' will ask again.

To add an action, add a class here with a `recorded_as`, put it into `Action`, and add its handler in
`sentinel.supervisor.handlers`. Whoever handles actions without knowing this one (the engine, the simulator, what people read)
goes by what `Declared` says of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from sentinel.model.amounts import size_words, time_words
from sentinel.model.attempts import ChangePurpose, ResumePoint, SampleRange, SettingsInForce, Vouched
from sentinel.model.findings import Severity
from sentinel.model.node_checks import CheckPurpose
from sentinel.model.recorded import recorded_as
from sentinel.model.saved import How

Request = Literal["checkpoint_now", "stop_after_checkpoint", "stop_now"]
_PAGE = "page"
SOON_S = 1.0  # what takes less is not announced
Stage = Literal["trigger", "update", "acknowledge", "resolve", "message"]
Place = Literal["", "before the stop", "before the launch"]


class Declared:
    """What every kind of action says of itself.

    phrase: what it does, for people, as in "now: …"; {action.attempt} stands for a field.
    place: where in a plan it stands when a word of a rung adds it: before the failed attempt is stopped, or when that has ended.
        In a plan without a relaunch, it is carried out before settings are changed. Empty: sentinel itself puts it into plans.
    if_failed: what follows when it cannot be done and the engine has no code of its own for that. "give up": the plan is dropped
        and a person is paged. "go on": it is noted, and the plan goes on without it; it is also tried again less often.
    """

    __slots__ = ()
    phrase: ClassVar[str] = ""
    place: ClassVar[Place] = ""
    if_failed: ClassVar[Literal["give up", "go on"]] = "give up"

    def __init_subclass__(cls) -> None:
        if not cls.phrase:
            raise TypeError(f"{cls.__qualname__} has no phrase; declare what it does, for people")

    @property
    def words(self) -> str:
        return self.phrase.format(action=self)


@recorded_as("StartAttempt")
@dataclass(frozen=True, slots=True)
class StartAttempt(Declared):
    """Launch attempt `attempt` at or after `not_before_s` (backoff), on none of `exclude_nodes`. `vouched`: the checkpoint was
    verified for it a moment ago; None where nobody says so."""

    phrase: ClassVar = "start attempt {action.attempt}"

    key: str
    attempt: int
    resume: ResumePoint | None
    overrides: SettingsInForce
    not_before_s: float = 0.0
    exclude_nodes: tuple[str, ...] = ()
    vouched: Vouched | None = None


@recorded_as("KillAttempt")
@dataclass(frozen=True, slots=True)
class KillAttempt(Declared):
    """End every process of the attempt (SIGKILL), and see that none lives."""

    phrase: ClassVar = "end every process of attempt {action.attempt}"

    key: str
    attempt: int

    @classmethod
    def of(cls, attempt: int) -> KillAttempt:
        return cls(f"kill/{attempt}", attempt)


@recorded_as("RequestStop")
@dataclass(frozen=True, slots=True)
class RequestStop(Declared):
    """Ask the trainer to stop through overrides.json; the engine kills it after a deadline of its own."""

    phrase: ClassVar = "ask attempt {action.attempt} to stop"

    key: str
    attempt: int
    overrides: SettingsInForce
    request: Request


@recorded_as("SignalRanks")
@dataclass(frozen=True, slots=True)
class SignalRanks(Declared):
    """SIGTERM to the ranks: the request was not answered in time."""

    phrase: ClassVar = "send SIGTERM to the ranks of attempt {action.attempt}"

    key: str
    attempt: int


@recorded_as("WriteOverrides")
@dataclass(frozen=True, slots=True)
class WriteOverrides(Declared):
    """Change settings of the living attempt. The trainer's `override_applied` is the proof, not this action's success.

    step: the newest step when it was decided; an answer is due some steps later. before: what was in force until then.
    purpose: None in journals from before it stood here.
    """

    phrase: ClassVar = "change settings of attempt {action.attempt} while it runs"

    key: str
    attempt: int
    overrides: SettingsInForce
    step: int = 0
    before: SettingsInForce | None = None
    purpose: ChangePurpose | None = None


@recorded_as("FindCheckpoints")
@dataclass(frozen=True, slots=True)
class FindCheckpoints(Declared):
    """Read which checkpoints there are: telemetry could not, and one that nobody knows of must be neither passed over nor moved
    aside."""

    phrase: ClassVar = "read which checkpoints there are"

    key: str


@recorded_as("VerifyCheckpoint")
@dataclass(frozen=True, slots=True)
class VerifyCheckpoint(Declared):
    """Check a checkpoint before anything is resumed from it. `how`: as the policy asks; None in
    journals from before it could ask: every byte is read. Samples are drawn by the key.

    read_bytes, bytes_s: how much is expected to be read, and how fast earlier ones were; 0 where that is not known.
    """

    phrase: ClassVar = "verify the checkpoint of step {action.step}"

    key: str
    step: int
    path: str
    how: How | None = None
    read_bytes: int = 0
    bytes_s: float = 0.0

    @property
    def words(self) -> str:
        return f"verify {self.what}{self.expected}"

    @property
    def what(self) -> str:
        checkpoint = f"the checkpoint of step {self.step}"
        return {
            "full": f"every byte of {checkpoint}",
            "sampled": f"{checkpoint}, in samples where it is remembered",
            "remembered": f"{checkpoint}, reading what is not remembered",
        }[self.how or "full"]

    @property
    def expected_s(self) -> float | None:
        """None where no rate is known."""
        return self.read_bytes / self.bytes_s if self.bytes_s > 0 and self.read_bytes > 0 else None

    @property
    def expected(self) -> str:
        """Empty where nobody knows, or nobody would wait for it."""
        if self.expected_s is None or self.expected_s < SOON_S:
            return ""
        return f", about {time_words(self.expected_s)} ({size_words(self.read_bytes)} at {size_words(self.bytes_s)}/s)"


@recorded_as("Quarantine")
@dataclass(frozen=True, slots=True)
class Quarantine(Declared):
    """Move every checkpoint above `above_step` to quarantine/attempt-NNNN/, and unfinished saves with them."""

    phrase: ClassVar = "move checkpoints above step {action.above_step} to quarantine"

    key: str
    attempt: int
    above_step: int
    reason: str


@recorded_as("PruneCheckpoint")
@dataclass(frozen=True, slots=True)
class PruneCheckpoint(Declared):
    """Delete one checkpoint that no rollback can need any more, if its manifest still has this digest, if all files of the
    `anchors` are there (paths of the newest good ones, which are kept), and if `sound` is as it was when it was read whole: the
    path of the newest that was, which is kept and is younger. Empty in journals from before that was asked."""

    phrase: ClassVar = "delete the checkpoint of step {action.step}: {action.reason}"

    key: str
    step: int
    path: str
    digest: str
    reason: str
    anchors: tuple[str, ...] = ()
    sound: str = ""


@recorded_as("ReadAnchor")
@dataclass(frozen=True, slots=True)
class ReadAnchor(Declared):
    """Read a checkpoint whole that is to stay: nothing older is deleted before one is known to hold. `keep`: as many of the
    newest as the person keeps who asked for room; 0: the policy's retention asks."""

    phrase: ClassVar = "read the checkpoint of step {action.step} whole before an older one is deleted"
    if_failed: ClassVar = "go on"

    key: str
    step: int
    path: str
    digest: str
    keep: int = 0


@recorded_as("Capture")
@dataclass(frozen=True, slots=True)
class Capture(Declared):
    """Save evidence before it is lost: stream slices, process states, log tails, into incidents/NNNN/."""

    phrase: ClassVar = "save the evidence of incident {action.incident}"
    if_failed: ClassVar = "go on"

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
class SendPage(Declared):
    """Tell a person, on one route. `text` carries the case; delivery is at least once under the key.

    stage: what is told of it. route: the route's name in the policy; empty in journals from before there were routes: the
    terminal. by: who acknowledged or resolved it.
    """

    phrase: ClassVar = "page a person"

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
class CompareRecords(Declared):
    """Compare what two attempts recorded of first..last; `struck_again` goes with the question and comes back with the answer."""

    phrase: ClassVar = "compare steps {action.first_step}..{action.last_step} with the record of attempt {action.old_attempt}"

    key: str
    incident: int
    old_attempt: int
    new_attempt: int
    first_step: int
    last_step: int
    struck_again: bool


@recorded_as("InspectSamples")
@dataclass(frozen=True, slots=True)
class InspectSamples(Declared):
    """Launch attempt `attempt` to look at `samples` from the checkpoint, training nothing, and judge what it finds.

    `suspect` may be found guilty; what of `samples` lies before it is there to compare with. `overrides`: what is in force
    without the rung's own skip. Given up `within_s` after the launch. `rung` goes with the question and comes back with the
    answer.
    """

    phrase: ClassVar = "look at samples {action.suspect.start}..{action.suspect.end}, one by one (attempt {action.attempt})"

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


@recorded_as("LoadPolicy")
@dataclass(frozen=True, slots=True)
class LoadPolicy(Declared):
    """Read another policy, check it for this run, and keep it in the run directory. It is in force when the engine says so.

    `request`: the id of what was asked, which is answered then, and `by` whom. `path`, `digest`, `note`: as in `ApplyPolicy`."""

    phrase: ClassVar = "read the policy {action.path}"
    if_failed: ClassVar = "go on"

    key: str
    request: str
    by: str
    path: str
    digest: str = ""
    note: str = ""


@recorded_as("CheckNodes")
@dataclass(frozen=True, slots=True)
class CheckNodes(Declared):
    """Run the policy's check on `nodes`, and, for a launch, on those that would take part in an attempt without `exclude`; not on
    `known`, which were checked for this launch already. Each has `timeout_s`. `request`, `by`: of whoever asked to readmit."""

    phrase: ClassVar = "check nodes"
    if_failed: ClassVar = "go on"

    key: str
    purpose: CheckPurpose
    command: tuple[str, ...]
    timeout_s: float
    nodes: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    request: str = ""
    by: str = ""

    @property
    def words(self) -> str:
        named = f"check {', '.join(self.nodes)}" if self.nodes else ""
        if self.purpose == "launch":
            return f"{named} and the nodes that will take part" if named else "check the nodes that will take part"
        return f"{named} before it is used again" if self.purpose == "readmit" else f"{named} on suspicion"


def policy_key(request: str) -> str:
    """The key of the `LoadPolicy` that a request leads to."""
    return f"policy/{request}"


Action = (
    StartAttempt
    | KillAttempt
    | RequestStop
    | SignalRanks
    | WriteOverrides
    | FindCheckpoints
    | VerifyCheckpoint
    | Quarantine
    | PruneCheckpoint
    | ReadAnchor
    | Capture
    | SendPage
    | CompareRecords
    | InspectSamples
    | LoadPolicy
    | CheckNodes
)
ACTIONS: tuple[type[Action], ...] = get_args(Action)
