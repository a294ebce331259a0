"""An incident: one believed cause, what was tried against it, and how each try ended.

    open ──remedy launched──▶ probation ──metrics back, past the break──▶ recovered
      ▲                          │
      └──────remedy failed───────┘          open ──out of rungs or budget──▶ exhausted

    either ──the run ends, and nobody saw whether it healed──▶ unknown

`wait` (patience) is a rung taken while open. The table itself is `NEXT` below; an illegal move is a bug and asserts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from sentinel.client.settings import Settings
from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Kind, Severity
from sentinel.model.paging import IncidentPage
from sentinel.model.proof import PROVEN, Proof, grade_of
from sentinel.model.records import Attribution, Diagnosis


class IncidentState(StrEnum):
    OPEN = "open"
    PROBATION = "probation"
    RECOVERED = "recovered"
    EXHAUSTED = "exhausted"
    UNKNOWN = "unknown"  # the run ended, and nobody saw whether it had healed

    @property
    def words(self) -> str:
        """How it stands, for who does not know our words: the one wording on every surface."""
        return _STANDS[self]


_STANDS = {
    IncidentState.OPEN: "open",
    IncidentState.PROBATION: "repair on probation",
    IncidentState.RECOVERED: "recovered",
    IncidentState.EXHAUSTED: "no repair is left",
    IncidentState.UNKNOWN: "end not known",
}
FOR_A_PERSON = "left to a person"
CLOSED = (IncidentState.RECOVERED, IncidentState.EXHAUSTED, IncidentState.UNKNOWN)
NEXT: dict[IncidentState, tuple[IncidentState, ...]] = {
    IncidentState.OPEN: (IncidentState.PROBATION, *CLOSED),
    IncidentState.PROBATION: (IncidentState.OPEN, *CLOSED),
    **dict.fromkeys(CLOSED, ()),
}


class Outcome(StrEnum):
    """How a try ended. `pending` while its probation (or its patience) runs."""

    PENDING = "pending"
    WORKED = "worked"
    FAILED = "failed"
    OBSERVED = "observed"  # observe only: what would have been done; nothing was
    PAGED = "paged"
    PASSED_OVER = "passed_over"  # it could not be carried out here: nothing was done
    DENIED = "denied"  # a person, or a deadline, said no: nothing was done
    UNKNOWN = "unknown"  # the run ended, and nobody saw whether it worked


@dataclass(frozen=True, slots=True)
class Band:
    """Where a metric stood before the incident: median and MAD (robust spread) over `count` readings, the newest at `step`.

    fall: by how much it had fallen over the `fall_steps` steps before; 0.0 where it had not, or that is not known.
    lasting: the later half of that fall over the earlier one, at least; 0.0 where the noise hides it. A fall goes on so, each
    half over the one before."""

    metric: str
    median: float
    mad: float
    count: int
    step: int = 0
    fall: float = 0.0
    fall_steps: int = 0
    lasting: float = 0.0


@dataclass(frozen=True, slots=True)
class SampleAnchor:
    """Where the incident lies in the data order, fixed when it opens: later rungs count from here, although the same
    step numbers then train other samples. `onset` is the first sample of the onset step, `detected` the first sample
    behind the detecting step, `per_step` the batch. `data_seed`: of the order it counts in; None: the configured one."""

    onset: int
    detected: int
    per_step: int
    data_seed: int | None = None


@dataclass(frozen=True)
class _RemedyHead:
    """What comes before a remedy's settings."""

    __slots__ = ()

    rung: int
    words: tuple[str, ...]  # the rung's own keys in policy order, e.g. ("rollback", "skip")
    reason: str
    rollback_to_step: int | None = None  # the step resumed from; 0 is a start from scratch
    skip: tuple[SampleRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy(Settings, _RemedyHead):
    """What policy chose for one rung, in absolute terms, with the reason and every setting that it changes (the fields of
    `sentinel.client.settings`). Nothing in it depends on earlier rungs."""

    skip: tuple[SampleRange, ...] = ()
    live: bool = False  # carried out by overrides.json, without a relaunch
    effect: str = ""  # what was expected of it when it was chosen


@dataclass(frozen=True, slots=True)
class Try:
    """One remedy, the attempt it launched (None when nothing was relaunched), its outcome, and what proves its settings."""

    remedy: Remedy
    taken_s: float
    taken_step: int
    attempt: int | None = None
    outcome: Outcome = Outcome.PENDING
    reason: str = ""
    struck_step: int | None = None  # where it broke again, of one that failed of that
    proofs: tuple[Proof, ...] = ()
    mark: str = ""  # of what the rung said, as in the fact

    def is_proven(self, key: str) -> bool:
        """Whether a setting, or `skip`, was in force: read back or observed."""
        return grade_of(self.proofs, key) in PROVEN


@dataclass(frozen=True, slots=True)
class AwaitedApproval:
    """A rung that waits, or waited, for a person. `answer`: approve | deny once it is given, by whom stands in the journal."""

    rung: int
    deadline_s: float
    otherwise: Literal["approve", "deny"]
    answer: str = ""
    mark: str = ""  # of what the rung says


def blamed_words(rank: int | None, node: str) -> str:
    """`rank 3 on node n2`; empty where nobody is blamed."""
    words = [f"rank {rank}"] if rank is not None else []
    return " on ".join([*words, f"node {node}"] if node else words)


@dataclass(frozen=True, slots=True)
class Incident:
    """Attributes:
    onset_step: first step that may be bad; None when the failure has none (a crash, a hang).
    break_step: the newest step reached when it broke: probation counts steps past it.
    visible_s, detected_s: supervisor time; first visible in what the trainer wrote, and believed.
    restored_s: when the surviving attempt made its first step past the break; None until then.
    band, samples: the metric's pre-incident band and the place in the data order, for numeric kinds.
    verdict: the sentence that goes with the present state.
    """

    id: int
    kind: Kind
    severity: Severity
    alert: str
    playbook: str
    attempt: int
    onset_step: int | None
    detected_step: int
    break_step: int
    visible_s: float
    detected_s: float
    reason: str
    state: IncidentState = IncidentState.OPEN
    rung: int = -1
    tries: tuple[Try, ...] = ()
    band: Band | None = None
    samples: SampleAnchor | None = None
    blamed_rank: int | None = None
    steps_lost: int = 0  # as far as rows showed them
    steps_unseen: int | None = 0  # that may be lost besides, where rows are seldom; None: nobody knows
    restored_s: float | None = None
    closed_s: float | None = None
    verdict: str = ""
    benign: bool | None = None
    retryable: bool = True
    pages: tuple[str, ...] = ()  # keys of its newest calls for a person
    earliest_step: int | None = None  # where one of its later findings began, if before the onset
    value: str = ""  # what the first finding saw, and where that stood before, as shown to a person
    baseline: str = ""
    metric: str = ""  # what the first finding judged, where it names one
    again_step: int | None = None  # newest step, and supervisor time, when it was last found again
    again_s: float | None = None
    approval: AwaitedApproval | None = None  # of the newest rung that needed one
    acknowledged_by: str = ""
    diagnosis: Diagnosis | None = None  # of its present or last diagnosing rung
    attribution: Attribution | None = None  # of rung `attributed_rung`, the newest that asked for guilty samples only
    attributed_rung: int = -1
    blamed_node: str = ""
    other_node: str = ""  # a machine beside the blamed one that was heard from when it opened
    put_back: tuple[str, ...] = ()  # settings that had lapsed just before it, and are in force again
    kept_step: int | None = None  # a stop in its probation found the numbers sound: checkpoints up to here may be resumed from
    page: IncidentPage | None = None  # None: nobody was ever called for it, or only before pages had a life of their own
    labels: tuple[tuple[str, str], ...] = ()  # name and value, of the rule that opened it: its severity is none of them
    relaid_tries: int | None = None  # how many tries there were when it began the playbook of another policy anew

    @property
    def may_have_lost_steps(self) -> bool:
        return self.steps_lost > 0 or self.steps_unseen != 0

    @property
    def steps_lost_at_most(self) -> int | None:
        """None: not known."""
        return None if self.steps_unseen is None else self.steps_lost + self.steps_unseen

    @property
    def is_numeric(self) -> bool:
        return self.kind.is_numeric

    @property
    def limit_step(self) -> int | None:
        """No checkpoint at or after this step is resumed from while it is open; None for a failure that has no onset.

        A loss that is no number may come from its batch, or from weights that the update before it broke: then the
        checkpoint just before the onset is as bad, and only the one before that is surely clean.
        """
        steps = [step for step in (self.onset_step, self.earliest_step) if step is not None]
        if not self.is_numeric or not steps:
            return None
        return max(1, min(steps) - (self.kind is Kind.NON_FINITE))

    def rules_out(self, step: int) -> bool:
        """Whether a checkpoint of this step is not resumed from while it is open."""
        limit = self.limit_step
        return limit is not None and step >= limit and (self.kept_step is None or step > self.kept_step)

    @property
    def is_waiting(self) -> bool:
        """Patience is its present rung."""
        last = self.last_try
        return last is not None and last.outcome is Outcome.PENDING and "wait" in last.remedy.words

    @property
    def awaits_approval(self) -> bool:
        """A rung waits for a person. The question is void once a later rung was taken, or a remedy is on probation: an answer
        would undo it."""
        asked = self.approval
        return self.state is IncidentState.OPEN and asked is not None and not asked.answer and self.rung <= asked.rung

    @property
    def begins_anew(self) -> bool:
        """It waits for nothing and stands before the first rung of the playbook that another policy has for it."""
        stands_before = self.state is IncidentState.OPEN and self.relaid_tries is not None and self.rung < 0
        return stands_before and not self.awaits_approval

    @property
    def is_closed(self) -> bool:
        return self.state in CLOSED

    @property
    def stands(self) -> str:
        """`state.words`; where the policy has a person called and no repair was tried, not that none is left."""
        return FOR_A_PERSON if self.state is IncidentState.EXHAUSTED and not self.had_repairs else self.state.words

    @property
    def had_repairs(self) -> bool:
        """Whether anything was tried but to call a person."""
        return any("page" not in one.remedy.words for one in self.tries)

    @property
    def last_try(self) -> Try | None:
        return self.tries[-1] if self.tries else None
