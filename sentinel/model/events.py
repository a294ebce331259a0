"""Everything that may enter the engine: readings, the passing of time, outcomes of actions, and a person's requests."""

from __future__ import annotations

from dataclasses import dataclass

from sentinel.model.capabilities import CAPABILITIES
from sentinel.model.environment import Environment
from sentinel.model.node_checks import NodeVerdicts
from sentinel.model.readings import CheckpointRead, Reading
from sentinel.model.records import Attribution, Comparison, FoundCheckpoints, LoadedPolicy
from sentinel.model.saved import SavedNumbers


@dataclass(frozen=True, slots=True)
class Deadline:
    """When the machine is taken away (supervisor time), and who says so, for people. `counts_from_start`: it is a limit on this
    supervisor's own time, so that one which adopts training inherits the earlier. `remark`: what was passed over, and why."""

    at_s: float | None
    by: str = ""
    counts_from_start: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True)
class SupervisorStarted:
    """A supervisor took the lease. First event of every session. `leaves`: it was asked to stop already, which the next event
    says, and launches nothing before that."""

    epoch: int
    host: str
    pid: int
    run_id: str
    command: tuple[str, ...]
    cwd: str
    policy_name: str
    policy_digest: str
    observe_only: bool
    capabilities: tuple[str, ...] = CAPABILITIES
    deadline: Deadline | None = None
    leaves: bool = False
    settable: tuple[str, ...] | None = None  # settings that the trainer can be given; None: every one
    stop_answer_s: float | None = None  # as in the state
    command_digest: str = ""  # of the command with its secrets, under a key of the run's; empty: compare the words
    arguments: tuple[tuple[str, tuple[str, ...]], ...] = ()  # as in `SupervisorTookOver`
    status_lost: str = ""  # as in `SupervisorTookOver`
    rows_late: bool = False  # the same
    policy_remark: str = ""  # which policy is in force, and why not another, where somebody may expect another


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; judged by whoever needs the clock (hang, deadlines, backoff). `away_s`: for so long of it the supervisor
    itself stood still (stopped, starved, or waiting for the disk of the run), and so could what it watches."""

    away_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ActionDone:
    """An action took effect. `detail` is for the record (a digest, a count of moved checkpoints), `found` what it was to find."""

    key: str
    detail: str = ""
    found: (
        Comparison | FoundCheckpoints | SavedNumbers | CheckpointRead | Attribution | Environment | LoadedPolicy
        | NodeVerdicts | None
    ) = None  # fmt: skip


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """An action did not take effect. `retry_in_s` None means: asking again cannot help. `goes_on`: it is under way and nothing
    is wrong; it is asked about again, however often. `overdue`: nothing was heard of it for too long; it
    may still take effect. `by_engine`: the scheduler did not do it; `retry_in_s` then says nothing, and the pause is the engine's
    to choose. `unproven`: with `goes_on`, that it took effect is not proven."""

    key: str
    reason: str
    retry_in_s: float | None
    goes_on: bool = False
    overdue: bool = False
    by_engine: bool = False
    unproven: bool = False


@dataclass(frozen=True, slots=True)
class ActionDelayed:
    """An action could not be done yet and will be asked for again by itself; recorded once, so that the wait has its reason.
    `unproven`: it was done, and nothing proves that it took effect."""

    key: str
    reason: str
    retry_in_s: float
    unproven: bool = False


@dataclass(frozen=True, slots=True)
class StopWanted:
    """A person (or the system, by SIGTERM) wants the run stopped after a checkpoint. `resumes`: the machine is about to be taken
    away, and whoever starts sentinel again goes on with the run: nobody has decided to end it."""

    by: str
    resumes: bool = False


@dataclass(frozen=True, slots=True)
class SignalSeen:
    """A signal that means nothing to sentinel."""

    name: str


Event = Reading | SupervisorStarted | Tick | ActionDone | ActionFailed | ActionDelayed | StopWanted | SignalSeen

__all__ = [
    "ActionDelayed", "ActionDone", "ActionFailed", "Deadline", "Event", "SignalSeen", "StopWanted", "SupervisorStarted", "Tick",
]  # fmt: skip
