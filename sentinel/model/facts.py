"""Everything the engine may decide or take note of. Facts are journaled and synced before anything is done about them.

State is the fold of facts (`engine.evolve`), so a fact says what happened in full and is never reinterpreted: fields may
be added with defaults, a meaning never changes. The time of a fact is the journal entry's, not a field.

Sections: the run · actions · attempts and checkpoints · incidents · pages · operator requests · settings that lapse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sentinel.model.actions import Action
from sentinel.model.attempts import Evidence, RankElsewhere, RankExit, ResumePoint, SettingsInForce
from sentinel.model.environment import Environment
from sentinel.model.findings import Finding, Severity
from sentinel.model.incidents import Incident, IncidentState, Outcome, Remedy
from sentinel.model.node_checks import CheckPurpose, NodeWord
from sentinel.model.operator_requests import OperatorRequest
from sentinel.model.price import Price
from sentinel.model.proof import Proof
from sentinel.model.recorded import recorded_as
from sentinel.model.records import Attribution, Diagnosis
from sentinel.model.saved import ReadBack

# --- the run, its supervisor, and the actions that were decided


@recorded_as("RunCreated")
@dataclass(frozen=True, slots=True)
class RunCreated:
    """`command`: its secrets are masked; run.json has it whole. `command_digest`: of the whole, under a key that stands there,
    too; empty in older journals."""

    run_id: str
    command: tuple[str, ...]
    cwd: str
    policy_name: str
    policy_digest: str
    observe_only: bool
    capabilities: tuple[str, ...] = ()
    command_digest: str = ""


@recorded_as("SupervisorTookOver")
@dataclass(frozen=True, slots=True)
class SupervisorTookOver:
    """A new supervisor session: who, under which epoch, by which policy.

    `answers`: starting it again is a person's answer to the end of the run. False while the page about that end has reached
    nobody and is still to be sent: then it is the restart of a supervisor that died, and nobody has decided anything.
    `capabilities`: as given to this session; None in journals that only have it from when the run began.
    `settable`: the settings that the trainer can be given, where not every one of them.
    `arguments`: the flags that Sentinel adds to its command and that do not stand there, by what they are for: `resume`, `skip`,
    a setting.
    `status_lost`: what shows that the command may leave with 0 whatever its trainer left with; empty where nothing does.
    `rows_late`: rows are read from files that their writer may hold back for many rows.
    `stop_answer_s`: how long a stop waits for the trainer to save and to end; 0 where it cannot be asked; None: not known.
    `deadline_s`: when the machine is taken away from it (supervisor time), as `deadline_by` says; None where nobody does.
    `price`: of a GPU hour, where the policy says it.
    """

    epoch: int
    host: str
    pid: int
    policy_name: str
    policy_digest: str
    observe_only: bool
    answers: bool = True
    capabilities: tuple[str, ...] | None = None
    deadline_s: float | None = None
    deadline_by: str = ""
    settable: tuple[str, ...] | None = None
    stop_answer_s: float | None = None
    price: Price | None = None
    arguments: tuple[tuple[str, tuple[str, ...]], ...] = ()
    status_lost: str = ""
    rows_late: bool = False


@recorded_as("CommandChanged")
@dataclass(frozen=True, slots=True)
class CommandChanged:
    """The run goes on under another command, from the next launch on. A person has said so. Both are masked as in `RunCreated`:
    where they say the same, a secret in them is another."""

    before: tuple[str, ...]
    command: tuple[str, ...]
    cwd_before: str = ""
    cwd: str = ""
    command_digest: str = ""


@recorded_as("PolicyApplied")
@dataclass(frozen=True, slots=True)
class PolicyApplied:
    """Another policy is in force from the next decision on, and stays so over restarts.

    `by`, `note`: who asked, and why; `request`: the id of that. `path`: its file, `digest` of its text; a copy lies in the run
    directory. `before`, `digest_before`: name and digest of the policy until then. `named`, `named_digest`: the file that the
    supervisor's command line named then; empty where it named none. `attempt`, `step`: how far training was.
    """

    request: str
    by: str
    note: str
    name: str
    path: str
    digest: str
    before: str
    digest_before: str
    named: str = ""
    named_digest: str = ""
    attempt: int = 0
    step: int = 0


@recorded_as("PlaybookChanged")
@dataclass(frozen=True, slots=True)
class PlaybookChanged:
    """An open incident goes on by a playbook that another policy has. It stands at `rung` of it, counted from 0; -1: before the
    first. `asked_rung`: where the rung stands now that waits for approval; None: no rung of it waits any more."""

    incident: int
    playbook: str
    rung: int
    reason: str
    asked_rung: int | None = None


@recorded_as("ActionDecided")
@dataclass(frozen=True, slots=True)
class ActionDecided:
    """The intent. `action` is carried out after this is on disk, and asked for again until it is confirmed."""

    action: Action


@recorded_as("ActionConfirmed")
@dataclass(frozen=True, slots=True)
class ActionConfirmed:
    key: str
    detail: str = ""


@recorded_as("ActionAbandoned")
@dataclass(frozen=True, slots=True)
class ActionAbandoned:
    """The action failed for good, or is no longer wanted (`withdrawn`: under way, so it may take effect all the same)."""

    key: str
    reason: str
    withdrawn: bool = False


@recorded_as("StopAsked")
@dataclass(frozen=True, slots=True)
class StopAsked:
    """`resumes`: whoever starts sentinel again goes on with the run; nobody has decided to end it."""

    by: str
    resumes: bool = False


@recorded_as("SourceChanged")
@dataclass(frozen=True, slots=True)
class SourceChanged:
    source: str
    ok: bool
    reason: str


ABOUT_SOURCE = "source"  # of notes that say what a source remarked


_INCIDENT = "incident"


@recorded_as("Noted")
@dataclass(frozen=True, slots=True)
class Noted:
    """A decision not to act, or anything else a person will ask about later."""

    about: str
    reason: str

    @property
    def incident(self) -> int | None:
        """The incident it is about; None where it is about something else. The inverse of `about_incident`."""
        word, _, digits = self.about.partition(" ")
        return int(digits) if word == _INCIDENT and digits.isdecimal() else None


def about_incident(number: int) -> str:
    """What a note about an incident is about."""
    return f"{_INCIDENT} {number}"


@recorded_as("JournalAdopted")
@dataclass(frozen=True, slots=True)
class JournalAdopted:
    """The journal was written before its entries were a chain, and is one from here on. `digest`: of its `entries` entries."""

    entries: int
    digest: str


@recorded_as("JournalSalvaged")
@dataclass(frozen=True, slots=True)
class JournalSalvaged:
    """A person let the run go on from a damaged journal. The entries before this one are those that were whole.

    `lost`: how many more the run is known to have had; None where that is unknown. `kept_in`: the folder, relative to the run's,
    that holds the damaged files. `newest_attempt`: no attempt is launched under its number or a lower one again.
    """

    lost: int | None
    kept_in: str
    newest_attempt: int


@recorded_as("RunRestored")
@dataclass(frozen=True, slots=True)
class RunRestored:
    """A person brought the run back from its mirror, into another directory. The entries before this one are those that the
    mirror had; what was written after them is unknown.

    `mirror`: where it lay. `mirrored_s`: wall time at which that copy was made. `host`: where the run was brought to. `steps`: of
    the checkpoints that came along; whatever else the journal knows of is not there. `newest_attempt`: no attempt is launched
    under its number or a lower one again.
    """

    mirror: str
    mirrored_s: float
    host: str
    steps: tuple[int, ...]
    newest_attempt: int


@recorded_as("Held")
@dataclass(frozen=True, slots=True)
class Held:
    """Training is stopped and a person must decide."""

    reason: str


@recorded_as("RunEnded")
@dataclass(frozen=True, slots=True)
class RunEnded:
    """suspended: stopped, and the next start goes on as if it had not been: with its holds, its budgets and its pages.
    unobserved: the command ended with 0, and nothing was ever heard of it."""

    outcome: str  # one of state.ENDINGS
    reason: str


# --- attempts and their checkpoints


@recorded_as("AttemptLaunched")
@dataclass(frozen=True, slots=True)
class AttemptLaunched:
    """The attempt exists from here on (its start was decided; the launcher makes it so)."""

    attempt: int
    resume: ResumePoint | None
    overrides: SettingsInForce
    why: str


@recorded_as("EnvironmentRead")
@dataclass(frozen=True, slots=True)
class EnvironmentRead:
    """What the attempt was launched to run, as its spec.json says. `environment` None: the same as the last one on record.
    `changes`: against the newest that was known before, in words. `unknown`: what could not be read, and why."""

    attempt: int
    environment: Environment | None
    changes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@recorded_as("ReceiptSeen")
@dataclass(frozen=True, slots=True)
class ReceiptSeen:
    """The trainer reported what is in force. `resumed_step` is where it really resumed; `deterministic`: it claims to compute the
    same numbers to the bit from the same checkpoint and data. `proofs`: of each setting that was asked for at its launch.
    `capabilities`: what it lists that it can do; None where it lists nothing. `gpus`: on how many all its ranks train together, 0
    on a CPU; None where it does not say."""

    attempt: int
    resumed_step: int
    world_size: int
    deterministic: bool = False
    proofs: tuple[Proof, ...] = ()
    capabilities: tuple[str, ...] | None = None
    gpus: int | None = None


@recorded_as("SettingObserved")
@dataclass(frozen=True, slots=True)
class SettingObserved:
    """The stream of an attempt shows at `step` that a setting is in force, or that it is not."""

    attempt: int
    proof: Proof
    step: int
    reason: str


@recorded_as("NumbersMissing")
@dataclass(frozen=True, slots=True)
class NumbersMissing:
    """The trainer could not write `lines` lines of a file, and says so: what happened meanwhile is not known.

    `first_step`, `last_step`: of the step lines among them. `first_s`, `last_s`: from when to when, by the trainer's clock; 0
    where it does not say. `error`: the name of the system's error number, such as ENOSPC; empty where a device or a disk was too
    slow.
    """

    attempt: int
    file: str
    lines: int
    first_step: int
    last_step: int
    first_s: float = 0.0
    last_s: float = 0.0
    error: str = ""
    reason: str = ""


@recorded_as("FirstStep")
@dataclass(frozen=True, slots=True)
class FirstStep:
    attempt: int
    step: int


@recorded_as("CheckpointCommitted")
@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """A checkpoint with a manifest. `samples_end` is its data cursor; `seconds` what its save cost the trainer, `took_s` how long
    it took (a save behind training costs less); 0 where it was not told, as in `bytes`, the size of its files."""

    attempt: int
    step: int
    path: str
    samples_end: int
    digest: str | None = None
    seconds: float = 0.0
    took_s: float = 0.0
    bytes: int = 0


@recorded_as("CheckpointVerified")
@dataclass(frozen=True, slots=True)
class CheckpointVerified:
    """The bytes of a checkpoint, and the numbers in them, are as its manifest (of this digest) says. `read`: how that was found
    out. `key`: of the action that did it; empty: it was read behind training."""

    step: int
    digest: str
    read: ReadBack
    key: str = ""


@recorded_as("CheckpointCondemned")
@dataclass(frozen=True, slots=True)
class CheckpointCondemned:
    """Not to be resumed from: its bytes or its numbers are wrong (`damaged`), it lies at or after an onset, or what resumed from
    it failed again and again."""

    step: int
    reason: str
    damaged: bool = False
    evidence: Evidence = ""


@recorded_as("CheckpointsQuarantined")
@dataclass(frozen=True, slots=True)
class CheckpointsQuarantined:
    """Every checkpoint above the step was moved aside; the run's newest is now at or below it."""

    above_step: int
    reason: str


@recorded_as("AttemptStopping")
@dataclass(frozen=True, slots=True)
class AttemptStopping:
    """The end of this attempt is wanted (a plan, a person); its exit is no crash."""

    attempt: int
    reason: str


@recorded_as("AttemptEnded")
@dataclass(frozen=True, slots=True)
class AttemptEnded:
    attempt: int
    outcome: str  # finished | stopped | crashed | killed | lost | preempted | refused (`EngineTrouble`)
    reason: str
    last_step: int
    last_step_s: float
    ranks: tuple[RankExit, ...] = ()


@recorded_as("AttemptUnseen")
@dataclass(frozen=True, slots=True)
class AttemptUnseen:
    """Nothing proves that every rank of the attempt has ended, and those that may live cannot be seen: no other attempt is
    started until it is proven. Recorded once in an attempt. `ranks`: those that are known, the first of `count`."""

    attempt: int
    reason: str
    ranks: tuple[RankElsewhere, ...] = ()
    count: int = 0


@recorded_as("EngineTrouble")
@dataclass(frozen=True, slots=True)
class EngineTrouble:
    """The scheduler did not start the attempt: trouble of its own, which uses no rung and counts against no budget of repairs.

    `times`: so often in a row. `line`: its own word. `pause_s`: until it is tried again. `is_launched`: the attempt had been
    launched and has ended, so that the next try has a number of its own; else the same is started again.
    """

    attempt: int
    times: int
    line: str
    pause_s: float
    is_launched: bool


@recorded_as("ArgumentsRefused")
@dataclass(frozen=True, slots=True)
class ArgumentsRefused:
    """The trainer ended before its first step because it does not know `flags`, which Sentinel had added for `keys` (settings, or
    `skip`): it cannot be given them. `line`: its own words."""

    attempt: int
    keys: tuple[str, ...]
    flags: tuple[str, ...]
    line: str


# --- what is wrong and what is done about it


@recorded_as("FindingRecorded")
@dataclass(frozen=True, slots=True)
class FindingRecorded:
    """`became` is the incident it opened or belongs to; None for severity info and for findings no rule wants."""

    finding: Finding
    became: int | None
    reason: str


@recorded_as("IncidentOpened")
@dataclass(frozen=True, slots=True)
class IncidentOpened:
    incident: Incident


@recorded_as("RungTaken")
@dataclass(frozen=True, slots=True)
class RungTaken:
    incident: int
    remedy: Remedy
    intervention: bool  # counts against the budget
    step: int  # the newest step when it was taken
    mark: str = ""  # of what the rung says: the same words have the same mark under every policy; empty: not known


@recorded_as("RungJudged")
@dataclass(frozen=True, slots=True)
class RungJudged:
    """`struck_step`: where it broke again, of a rung that failed of that."""

    incident: int
    outcome: Outcome
    reason: str
    struck_step: int | None = None


@recorded_as("IncidentMoved")
@dataclass(frozen=True, slots=True)
class IncidentMoved:
    """A move in the incident's table; `reason` is the sentence a person reads. `benign`: it healed, and nothing had been done.
    `back_step`: since when the judged metric stood in its band again, which is earlier than the verdict; None if not known."""

    incident: int
    to: IncidentState
    reason: str
    benign: bool | None = None
    back_step: int | None = None


@recorded_as("BlameFound")
@dataclass(frozen=True, slots=True)
class BlameFound:
    """Whom an incident is blamed on that was opened without anybody to blame: known only when its attempt had ended."""

    incident: int
    rank: int | None
    node: str
    reason: str


@recorded_as("ProbationKept")
@dataclass(frozen=True, slots=True)
class ProbationKept:
    """The run was stopped in this incident's probation, past the step where it broke, and the numbers held until `step`: what was
    saved up to there since the remedy is a candidate to go on from, although it lies after the onset."""

    incident: int
    step: int
    reason: str


@recorded_as("Diagnosed")
@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What repeating the failed stretch unchanged has proved."""

    incident: int
    diagnosis: Diagnosis


@recorded_as("InspectionLaunched")
@dataclass(frozen=True, slots=True)
class InspectionLaunched:
    """An attempt that trains nothing: it looks at single samples for an incident. Its number is used up from here on."""

    incident: int
    attempt: int


@recorded_as("Attributed")
@dataclass(frozen=True, slots=True)
class Attributed:
    """What looking at the samples of the rung's window has shown."""

    incident: int
    rung: int
    attribution: Attribution


@recorded_as("Restored")
@dataclass(frozen=True, slots=True)
class Restored:
    """The run made its first step past the incident's break: training new ground again."""

    incident: int
    step: int


@recorded_as("NodeExcluded")
@dataclass(frozen=True, slots=True)
class NodeExcluded:
    """Every later attempt is launched without this node, until a person readmits it."""

    node: str
    incident: int
    reason: str


@recorded_as("NodeBlamed")
@dataclass(frozen=True, slots=True)
class NodeBlamed:
    """The evidence of an incident blames this node, the `times`-th time since it was last known to be healthy. Recorded where the
    policy has a check of nodes."""

    node: str
    incident: int
    attempt: int
    times: int


@recorded_as("NodesChecked")
@dataclass(frozen=True, slots=True)
class NodesChecked:
    """What the check `key` came to: healthy nodes by name, the others with their reasons. `trouble`: why no node could be
    asked."""

    key: str
    purpose: CheckPurpose
    healthy: tuple[str, ...] = ()
    sick: tuple[NodeWord, ...] = ()
    unknown: tuple[NodeWord, ...] = ()
    trouble: str = ""


@recorded_as("StepsLost")
@dataclass(frozen=True, slots=True)
class StepsLost:
    """`steps`: that rows showed, and that are trained again. `unseen`: how many more there may be, behind the newest row; None:
    nobody knows."""

    incident: int
    steps: int
    unseen: int | None = 0


@recorded_as("PlanAdopted")
@dataclass(frozen=True, slots=True)
class PlanAdopted:
    """The ordered actions that carry out a remedy; each is decided when the one before it is confirmed. `reason`: why an
    attempt is launched so, which is not what the remedy first said when a checkpoint has been passed over since."""

    incident: int | None
    actions: tuple[Action, ...]
    reason: str = ""


@recorded_as("PlanDropped")
@dataclass(frozen=True, slots=True)
class PlanDropped:
    reason: str


@recorded_as("BudgetRefilled")
@dataclass(frozen=True, slots=True)
class BudgetRefilled:
    """Enough new steps were trained since the last intervention: the counts start again."""

    reason: str


@recorded_as("GaveUp")
@dataclass(frozen=True, slots=True)
class GaveUp:
    """Out of remedies. `then` is what becomes of the training: stop_now | hold | keep_training."""

    incident: int
    then: str
    reason: str


# --- pages. Who was called on which route stands in the `ActionDecided` of a `SendPage`, and in what became of it


@recorded_as("PageRaised")
@dataclass(frozen=True, slots=True)
class PageRaised:
    """A person is needed, or the page of that incident says something else now. `anew`: whoever was called is called again, and
    an acknowledgement does not hold for it.

    What `text` says in sentences stands beside it as data; empty in journals from before that. reason: why a person is needed
    now. notes: what the rule's author wrote for the reader, filled in. runbook_url: where the author sends the reader.
    """

    incident: int
    severity: Severity
    title: str
    text: str
    anew: bool = True
    reason: str = ""
    notes: tuple[str, ...] = ()
    runbook_url: str = ""


@recorded_as("LogMatched")
@dataclass(frozen=True, slots=True)
class LogMatched:
    """A pattern of the policy was found in what this attempt prints, for the first time. name, rank, line, groups: as in
    `LogMatch`. step: the newest that was known."""

    attempt: int
    name: str
    rank: int | None
    line: str
    step: int
    groups: tuple[tuple[str, str], ...] = ()


@recorded_as("PageHeld")
@dataclass(frozen=True, slots=True)
class PageHeld:
    """An open page waits on these routes from now on, or on none any more. windows, until_s, timezone, incidents: as in
    `model.paging.Hold`."""

    incident: int
    routes: tuple[str, ...]
    windows: tuple[str, ...] = ()
    until_s: float | None = None
    timezone: str = "UTC"
    incidents: tuple[int, ...] = ()


@recorded_as("PageResolved")
@dataclass(frozen=True, slots=True)
class PageResolved:
    """Nobody is needed any more. `by`: who has taken it up; empty where nobody had to."""

    incident: int
    reason: str
    by: str = ""


# --- what people ask of a run


@recorded_as("WishAnswered")
@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """A person asked; `answer` is the sentence they read. Refused requests are recorded too, and change nothing."""

    id: str
    by: str
    wish: OperatorRequest
    granted: bool
    answer: str


@recorded_as("ApprovalAsked")
@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A rung waits for a person until `deadline_s` (supervisor time); then `otherwise` holds."""

    incident: int
    rung: int
    deadline_s: float
    otherwise: Literal["approve", "deny"]
    reason: str
    mark: str = ""  # of what the rung says, as in `RungTaken`


@recorded_as("OverridesAnswered")
@dataclass(frozen=True, slots=True)
class OverridesAnswered:
    """The living trainer answered the live change `id` at `step`; `not_in_force` are the keys it could not obey. `whole`: nothing
    of it is in force, and what was before still is. `proofs`: of each setting that the change asks for."""

    attempt: int
    id: str
    step: int
    not_in_force: tuple[str, ...] = ()
    whole: bool = False
    proofs: tuple[Proof, ...] = ()


# --- settings that lapse


@recorded_as("SettingLapsed")
@dataclass(frozen=True, slots=True)
class SettingLapsed:
    """Settings go back to the trainer's own at `step`, and the run is watched. `before`: with them. `by_trainer`: it did so by
    itself, at its own `until`; else it is being asked, and its answer is the proof."""

    attempt: int
    keys: tuple[str, ...]
    step: int
    before: SettingsInForce
    reason: str
    by_trainer: bool = False


@recorded_as("LapseJudged")
@dataclass(frozen=True, slots=True)
class LapseJudged:
    """proven: healthy without them for a probation. failed: an incident opened in it, and they are wanted again. refused: the
    trainer did not obey, and is left to its own `until`. overtaken: it never took effect, or they were set anew. `overrides`:
    what is wanted from here on, None where nothing changes. `incident`: the one that failed it."""

    keys: tuple[str, ...]
    outcome: Literal["proven", "failed", "refused", "overtaken"]
    reason: str
    overrides: SettingsInForce | None = None
    incident: int | None = None


Fact = (
    RunCreated
    | SupervisorTookOver
    | ActionDecided
    | ActionConfirmed
    | ActionAbandoned
    | AttemptLaunched
    | EnvironmentRead
    | ReceiptSeen
    | SettingObserved
    | NumbersMissing
    | FirstStep
    | CheckpointCommitted
    | CheckpointVerified
    | CheckpointCondemned
    | CheckpointsQuarantined
    | AttemptStopping
    | AttemptEnded
    | AttemptUnseen
    | EngineTrouble
    | ArgumentsRefused
    | FindingRecorded
    | IncidentOpened
    | RungTaken
    | RungJudged
    | IncidentMoved
    | Restored
    | StepsLost
    | PlanAdopted
    | PlanDropped
    | StopAsked
    | SourceChanged
    | Noted
    | Held
    | BudgetRefilled
    | GaveUp
    | RunEnded
    | RequestAnswered
    | ApprovalAsked
    | OverridesAnswered
    | Diagnosed
    | InspectionLaunched
    | Attributed
    | SettingLapsed
    | LapseJudged
    | NodeExcluded
    | NodeBlamed
    | NodesChecked
    | PageRaised
    | PageHeld
    | LogMatched
    | PageResolved
    | CommandChanged
    | PolicyApplied
    | PlaybookChanged
    | BlameFound
    | ProbationKept
    | JournalAdopted
    | JournalSalvaged
    | RunRestored
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal: a fact, when (session clock, Unix-like seconds), and under which supervisor epoch."""

    seq: int
    at_s: float
    epoch: int
    fact: Fact
