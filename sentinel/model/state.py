"""The state of a run as the journal knows it: the fold of its facts, bounded, replaced and never mutated.

What changes with every row (loss windows, heartbeats, pace) is not here: `detectors.bank.DetectorBank` holds it, and it is
rebuilt by reading the streams again. What is here survives `kill -9`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sentinel.model.actions import Action, StartAttempt
from sentinel.model.attempts import ChangePurpose, Evidence, RankElsewhere, RankExit, ResumePoint, SettingsInForce
from sentinel.model.capabilities import MORE
from sentinel.model.environment import Environment
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.node_checks import Blame
from sentinel.model.price import Price
from sentinel.model.proof import Proof

UNOBSERVED = "unobserved"
UNSEEN = "unseen"  # the label of a run whose newest attempt is
REFUSED = "refused"  # of an attempt that the scheduler did not start
INTERRUPTED = ("crashed", "lost", "killed", "preempted", REFUSED)  # outcomes of an attempt that nobody wanted
ENDINGS = ("finished", "failed", "stopped", "suspended", UNOBSERVED)
RIGHTLY_ENDED = {"finished": "finished", UNOBSERVED: "ended with exit 0, unobserved"}  # nobody need start it again
ATTEMPTS_KEPT = 512  # whole attempts kept for the ledger and the lineage; older ones are folded into `Archive`
MARKS_KEPT = 256  # checkpoint marks per attempt kept for the ledger; older ones are folded into the oldest kept
INCIDENTS_KEPT = 512
STAMPS_KEPT = 1024
REQUESTS_KEPT = 256
QUARANTINED_KEPT = 256
PRUNED_KEPT = 256
BLAMES_KEPT = 256
REMARKS_KEPT = 20  # per attempt, written down; of more, one word says that they are only counted


@dataclass(frozen=True, slots=True)
class Mark:
    """When a step was reached: the ledger cuts an attempt's time at checkpoints, for only they can be resumed from. What the save
    cost the trainer, and how long it took; 0 where that was not told."""

    step: int
    at_s: float
    save_s: float
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A committed checkpoint. `condemned` says why it must not be resumed from; empty means it may. `damaged`: condemned for
    its bytes or its numbers, which a person may mend; what lies after an onset stays condemned. `evidence`: what speaks
    against it.
    committed_s: when it was first seen. verified: what held when it was last looked at, empty before that.
    bytes: of its files; 0 where that is not known. vouched_key, vouched_s, vouched_how: the action that last verified it before a
    resume, when, and how much it read. is_remembered: read whole behind training.
    pruned: why it was given up. unpruned_s: when it last could not be deleted, and was kept after all.
    """

    step: int
    path: str
    attempt: int
    samples_end: int
    digest: str | None = None
    condemned: str = ""
    damaged: bool = False
    evidence: Evidence = ""
    committed_s: float | None = None
    verified: str = ""
    pruned: str = ""
    unpruned_s: float | None = None
    bytes: int = 0
    vouched_key: str = ""
    vouched_s: float = 0.0
    vouched_how: str = ""
    is_remembered: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One launch. Times are supervisor time; None until it happened.

    not_before_s: the end of the backoff it was launched under, 0 without one. signalled_s: when SIGTERM was decided.
    idle_s: when, after its end, the run was ended or held: what follows until the next launch is nobody's repair.
    answered, written_s, written_step: the live change it last answered; when, and at which step, `overrides` was written to it.
    before, purpose: what was in force until then; why it was changed.
    changes, unread: of what it runs, against the attempts before, as its launch found it.
    proofs: of the settings that were asked for, at its launch and since.
    holes: steps whose numbers were lost, first and last of each, in the order they were told.
    world_size, gpus: as its receipt says; None before it, and of `gpus` where it does not say.
    failed, failed_step: crash or non_finite, and the newest step then, where what it resumed from may be the cause.
    """

    attempt: int
    launched_s: float
    resume: ResumePoint | None
    overrides: SettingsInForce
    why: str
    receipt_s: float | None = None
    resumed_step: int = 0
    first_step: int | None = None
    first_step_s: float | None = None
    marks: tuple[Mark, ...] = ()
    stopping: str = ""
    stopped_by: str = ""  # who wanted it to stop, where somebody did: it is then no failure
    stop_resumes: bool = False  # so that the next start goes on
    stopping_s: float | None = None
    signalled_s: float | None = None
    ended_s: float | None = None
    outcome: str = ""
    end_reason: str = ""
    last_step: int = 0
    last_step_s: float | None = None
    ranks: tuple[RankExit, ...] = ()
    not_before_s: float = 0.0
    idle_s: float | None = None
    answered: str = ""
    written_s: float | None = None
    written_step: int = 0
    deterministic: bool = False
    before: SettingsInForce | None = None
    purpose: ChangePurpose = "remedy"
    failed: str = ""
    failed_step: int = 0
    changes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    holes: tuple[tuple[int, int], ...] = ()
    world_size: int | None = None
    gpus: int | None = None

    @property
    def is_over(self) -> bool:
        return self.ended_s is not None

    @property
    def is_interrupted(self) -> bool:
        """It has ended by a failure or by the repair of one: by nobody's wish."""
        return self.is_over and (bool(self.stopping) or self.outcome in INTERRUPTED) and not self.stopped_by


@dataclass(frozen=True, slots=True)
class Inspection:
    """An attempt that only looks at samples. It is none of the run's attempts: it trains nothing, so nothing comes of it but
    the answer, and its crash is not the run's."""

    attempt: int
    incident: int
    launched_s: float


@dataclass(frozen=True, slots=True)
class UnseenAttempt:
    """One that has ended as far as it can be seen, or was stopped as far as that can be done, and is not known to be gone:
    `reason`, and since when. `ranks`: who may live, the first of them."""

    attempt: int
    reason: str
    since_s: float
    ranks: tuple[RankElsewhere, ...] = ()


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """The policy in force, where somebody has applied it to the run; as in the fact `PolicyApplied`."""

    path: str
    by: str
    note: str
    at_s: float
    before: str
    named: str = ""
    named_digest: str = ""
    attempt: int = 0
    step: int = 0

    def lies_behind(self, attempt: int, step: int) -> bool:
        """Whether the step was judged by the policy before."""
        return attempt == self.attempt and step <= self.step


@dataclass(frozen=True, slots=True)
class Archive:
    """Seconds of attempts too old to keep one by one, by account of the ledger. Their time ends where the oldest attempt
    that is still kept was launched; a rollback behind it no longer turns their training into replay."""

    seconds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Excluded:
    """A node that is left out of every launch, and the incident that blamed it."""

    node: str
    incident: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Lapse:
    """Settings that were taken back, until it is proven that the run stays healthy without them. `before`: with them."""

    attempt: int
    keys: tuple[str, ...]
    step: int
    before: SettingsInForce


@dataclass(frozen=True, slots=True)
class PlanInProgress:
    """`actions[next]` is the one decided and not yet confirmed; `reason` is why the attempt it ends in is launched."""

    incident: int | None
    actions: tuple[Action, ...]
    next: int = 0
    reason: str = ""

    @property
    def is_live(self) -> bool:
        """A change to the living attempt: it launches nothing, and has no meaning once that attempt has ended."""
        return not any(isinstance(action, StartAttempt) for action in self.actions)


@dataclass(frozen=True, slots=True)
class RunState:
    run_id: str = ""
    command: tuple[str, ...] = ()  # its secrets are masked
    command_digest: str = ""  # as in `RunCreated`
    cwd: str = ""
    command_before: tuple[str, ...] = ()  # another than `command`, until an attempt was launched under that
    created_s: float = 0.0
    policy_name: str = ""
    policy_digest: str = ""
    applied: AppliedPolicy | None = None  # None: it is the one that the run was started with
    is_policy_new: bool = False  # no supervisor has gone by it yet
    observe_only: bool = False
    capabilities: tuple[str, ...] = ()  # as declared
    settable: tuple[str, ...] | None = None  # settings that the trainer can be given; None: every one
    arguments: tuple[tuple[str, tuple[str, ...]], ...] = ()  # as in `SupervisorTookOver`
    status_lost: str = ""  # as in `SupervisorTookOver`
    rows_late: bool = False  # the same
    refused: tuple[tuple[str, str], ...] = ()  # what the trainer cannot be given all the same, and why: it refused the argument
    price: Price | None = None  # of a GPU hour, as the present policy says
    stop_answer_s: float | None = None  # asked to stop, it saves and ends within this; 0: it cannot be asked; None: not known
    listed: tuple[str, ...] | None = None  # by the trainer itself, in its newest receipt; None where that lists none
    epoch: int = 0
    session_s: float = 0.0  # since when the present supervisor watches
    attempts: tuple[Attempt, ...] = ()
    archive: Archive = field(default_factory=Archive)
    checkpoints: tuple[Checkpoint, ...] = ()  # by step, those that still lie in checkpoints/
    quarantined: tuple[Checkpoint, ...] = ()  # the newest of those that were moved aside; `condemned` says why
    pruned: tuple[Checkpoint, ...] = ()  # the newest of those that were given up for good; `pruned` says why
    incidents: tuple[Incident, ...] = ()
    next_incident: int = 1
    next_attempt: int = 1
    overrides: SettingsInForce = field(default_factory=SettingsInForce)  # in force for the newest attempt
    lapse: Lapse | None = None
    excluded: tuple[Excluded, ...] = ()  # the oldest first
    blames: tuple[Blame, ...] = ()  # the newest last; of nodes that were not known to be healthy since
    log_matches: tuple[tuple[int, str], ...] = ()  # of the newest attempt: its number, and an entry over logs that was found
    environment: Environment | None = None  # the newest that is known of each part
    plan: PlanInProgress | None = None
    inspection: Inspection | None = None  # under way, as a part of the plan
    pending: Mapping[str, Action] = field(default_factory=lambda: MappingProxyType({}))
    findings: tuple[str, ...] = ()  # keys recorded in the current attempt
    dismissed: tuple[str, ...] = ()  # those of them that became no incident, under the policy in force
    opening_metric: str = ""  # what the finding judged that the next incident opens with
    interventions_s: tuple[float, ...] = ()
    intervention_step: int = 0  # newest step at the last intervention
    restarts_s: tuple[float, ...] = ()
    without_progress: int = 0  # launches in a row that passed no new step
    unseen: UnseenAttempt | None = None  # nothing is started before it is known to be gone
    engine_troubles: int = 0  # in a row, since the scheduler last started something
    engine_word: str = ""  # what it said last
    best_step: int = 0  # the furthest step any attempt reached
    blind: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    blind_since_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    unlisted: str = ""  # why checkpoints may be missing above: their directory could not be read, and has not been read since
    remarks: tuple[str, ...] = ()  # what sources that see had to say in the current attempt
    read_bytes_s: float = 0.0  # how fast a checkpoint was read at the last resume that read one
    behind_bytes_s: float = 0.0  # and behind training
    stop_by: str = ""
    stop_resumes: bool = False  # that stop is no end: the next start goes on
    deadline_s: float | None = None  # when the machine is taken away from the present supervisor, as deadline_by says
    deadline_by: str = ""
    held: str = ""
    hold_by: str = ""  # who asked for a hold that is still being carried out
    paused: str = ""  # who asked that nothing be carried out
    answered_requests: tuple[str, ...] = ()  # ids answered, the newest last
    giving_up: str = ""  # stop_now | hold: what follows when the living attempt has ended
    giving_up_reason: str = ""
    ended: str = ""  # one of ENDINGS
    end_reason: str = ""

    @property
    def attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def abilities(self) -> tuple[str, ...]:
        """What is declared, less what a trainer that lists its capabilities does not list. What the command can do is no matter
        of the trainer's."""
        listed = self.listed
        return self.capabilities if listed is None else tuple(w for w in self.capabilities if w in listed or w in MORE)

    def refusal_of(self, need: str) -> str:
        """Why the trainer cannot be given what a rung needs (`policy.rung_words.Capability.name`), where it refused the argument;
        else empty."""
        return dict(self.refused).get(need.removeprefix("setting ").partition(".")[0], "")

    @property
    def may_lack_checkpoints(self) -> bool:
        """Whether a launch looks for checkpoints that are not known yet: their directory could not be read, or they are those of
        a trainer under a profile, which count once they are sealed."""
        return bool(self.unlisted) or self.settable is not None

    @property
    def open_incidents(self) -> tuple[Incident, ...]:
        return tuple(i for i in self.incidents if not i.is_closed)

    @property
    def open_pages(self) -> tuple[Incident, ...]:
        """Incidents for which a person is needed, acknowledged or not."""
        return tuple(i for i in self.incidents if i.page is not None and i.page.is_open)

    def incident(self, number: int) -> Incident:
        for found in reversed(self.incidents):
            if found.id == number:
                return found
        raise AssertionError(f"no incident {number}")

    @property
    def waits_for(self) -> str:
        """What must happen elsewhere before anything trains, in words; empty where nothing must."""
        attempt = self.attempt
        if self.ended or attempt is None:
            return ""
        if (unseen := self.unseen) is not None:
            return f"attempt {unseen.attempt} is not known to have ended, and nothing is started beside it: {unseen.reason}"
        if self.engine_troubles and (attempt.is_over or f"start/{attempt.attempt}" in self.pending):
            times = "once" if self.engine_troubles == 1 else f"{self.engine_troubles} times in a row"
            return f"the scheduler has not started an attempt, {times}: {self.engine_word}"
        return ""

    @property
    def label(self) -> str:
        """The one word `sentinel status` shows."""
        if self.ended:
            return self.ended
        if self.held:
            return "held"
        if self.paused:
            return "paused"
        attempt = self.attempt
        if self.unseen is not None:
            return UNSEEN
        if self.plan is not None and (self.plan.incident is not None or not self.plan.is_live):
            return "recovering" if self.plan.incident is not None else "starting"
        if attempt is None or attempt.is_over:
            return "recovering" if attempt is not None else "starting"
        if self.observe_only:
            return "observing"
        if attempt.first_step is None:
            return "starting" if attempt.attempt == 1 else "recovering"
        if any(i.state is IncidentState.PROBATION for i in self.incidents):
            return "probation"
        return "training"
