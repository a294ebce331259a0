"""An engine with a made-up world around it: `Bench` feeds it receipts, steps, checkpoints and exits, says how its actions end,
kills the supervisor and starts another one that reads the journal and the current stream again.

    bench = Bench().launched()
    bench.steps(1, 59).checkpoint(50)
    bench.exits(signal=9)
    assert bench.state.plan is not None
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar

from sentinel.channels import registry as _registry  # noqa: F401 - the channels that a policy may name
from sentinel.engine import Engine, evolve
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import Exited, ExitReport, RankExit, ResumePoint, SampleRange
from sentinel.model.capabilities import CAPABILITIES
from sentinel.model.events import ActionDone, ActionFailed, Deadline, Event, StopWanted, SupervisorStarted, Tick
from sentinel.model.incidents import Incident
from sentinel.model.operator_requests import OperatorRequest
from sentinel.model.readings import (
    CheckpointRead,
    CheckpointReading,
    EndReading,
    Heartbeat,
    LauncherReading,
    Phase,
    Reading,
    Receipt,
    RequestReading,
    StepReading,
    TrainerNote,
)
from sentinel.model.saved import ReadBack, SavedNumbers
from sentinel.model.state import RunState
from sentinel.policy.schema import Policy
from sentinel.sim.data_order import take

F = TypeVar("F")
A = TypeVar("A")
BATCH = 16
RESTART = [
    {"resume": {"from": "newest"}},
    {"resume": {"from": "newest"}},
    {"rollback": {"before_onset": "20 steps"}},
    {"page": {"severity": "critical"}, "then": "stop_now"},
]
NUMERIC = [
    {"wait": {"for": "40 steps", "until": "recovered", "unless": "above band for 4 steps"}},
    {"rollback": {"before_onset": "20 steps"}, "skip": {"from": "onset - 4 steps", "to": "detected + 40 steps"}},
    {"rollback": {"further": "2x"}, "skip": {"wider": "2x"}, "lr": "0.5x"},
    {"page": {"severity": "critical"}, "then": "stop_now"},
]
POLICY: dict[str, Any] = {
    "apiVersion": "sentinel/v1",
    "kind": "RemediationPolicy",
    "metadata": {"name": "bench"},
    "spec": {
        "detectors": {
            "spike": {"metrics": ["loss"], "window": "40 steps", "level": "4 steps", "min_history": "40 steps"},
            "hang": {"after": "3x step_time", "floor": "6s", "phases": {"init": "2m", "compile": "4m"}},
        },
        "rules": [
            {"alert": "NonFinite", "on": "non_finite", "labels": {"severity": "critical"}, "playbook": "non_finite"},
            {"alert": "Spike", "on": "spike", "for": "1 step", "labels": {"severity": "warning"}, "playbook": "numeric"},
            {"alert": "Hang", "on": "hang", "labels": {"severity": "critical"}, "playbook": "restart"},
            {"alert": "BrokenJob", "on": "broken_job", "labels": {"severity": "critical"}, "playbook": "call"},
            {"alert": "Crash", "on": "crash", "labels": {"severity": "critical"}, "playbook": "restart"},
            {"alert": "Mismatch", "on": "override_mismatch", "labels": {"severity": "critical"}, "playbook": "call"},
        ],
        "playbooks": {
            "numeric": NUMERIC,
            "non_finite": [
                {"rollback": {"before_onset": "4 steps"}},
                {"rollback": {"further": "2x"}, "lr": "0.5x"},
                {"page": {"severity": "critical"}, "then": "stop_now"},
            ],
            "restart": RESTART,
            "call": [{"page": {"severity": "critical"}, "then": "stop_now"}],
        },
        "budget": {"refill_after_progress": "200 steps", "backoff": "1s..1m"},
        "probation": {"steps": 60, "recovered_when": "loss within 2% of pre_incident"},
    },
}


def build_policy(playbooks: Mapping[str, Any] | None = None, without: tuple[str, ...] = (), **spec: Any) -> Policy:
    """The bench's policy with some playbooks, and some parts of `spec`, replaced; `without` takes playbooks out."""
    plain = deepcopy(POLICY)
    plain["spec"]["playbooks"] |= dict(playbooks or {})
    plain["spec"] |= spec
    for name in without:
        del plain["spec"]["playbooks"][name]
    return Policy.model_validate(plain)


def healthy_loss(step: int) -> float:
    return 2.0 + (0.01, -0.01, 0.004, -0.004)[step % 4]


def read_step(
    attempt: int, step: int, loss: float | None = None, skip: tuple[SampleRange, ...] = (), **metrics: float
) -> StepReading:
    """A step of a trainer that leaves `skip` out."""
    cursor = (step - 1) * BATCH
    for one in skip:
        cursor += one.end - one.start if one.start <= cursor else 0
    spans, _ = take(cursor, BATCH, tuple((one.start, one.end) for one in skip))
    value = healthy_loss(step) if loss is None else loss
    return StepReading(attempt, step, float(step), tuple(SampleRange(*span) for span in spans), {"loss": value, **metrics})


def report_of(signal: int | None = None, code: int | None = None, ranks: int = 2) -> ExitReport:
    """Rank 0 tells how it went; the others were taken down by it, or left as it did."""
    first = RankExit(0, None if signal else code, signal, "record")
    rest = tuple(RankExit(n, code if code in (0, 6) else None, None if code in (0, 6) else 15, "record") for n in range(1, ranks))
    return ExitReport(code, (first, *rest), 0 if code not in (0, 6) else None)


class Bench:
    """Attributes: `now_s`, `facts` (all of the run), `entries` (the journal), `stream` (what the current attempt wrote).

    `dies_after`: the supervisor is killed after so many events, whatever it is doing, and another one starts.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        observe_only: bool = False,
        dies_after: int = 0,
        deadline: Deadline | None = None,
        without: tuple[str, ...] = (),
        settable: tuple[str, ...] | None = None,
        stop_answer_s: float | None = None,
        arguments: tuple[tuple[str, tuple[str, ...]], ...] = (),
        status_lost: str = "",
        rows_late: bool = False,
    ) -> None:
        self.status_lost, self.rows_late = status_lost, rows_late
        self.policy, self.digest = policy or build_policy(), "0"
        self.capabilities = tuple(word for word in CAPABILITIES if word not in without)
        self.lists: tuple[str, ...] | None = None  # of its capabilities, in every receipt
        self.deadline = deadline
        self.leaves = False  # the next supervisor is asked to stop before it has begun
        self.command = ("train",)
        self.settable, self.stop_answer_s = settable, stop_answer_s
        self.arguments = arguments
        self.observe_only = observe_only
        self.now_s = 1000.0
        self.epoch = 0
        self.entries: list[f.Entry] = []
        self.stream: list[Reading] = []
        self.directories: dict[int, CheckpointReading] = {}
        self.folded = RunState()
        self.told, self.dies_after, self.asked = 0, dies_after, 0
        self.decided_at: list[int] = []  # the numbers of the events that made facts
        self.start()

    # The supervisor.

    def start(self) -> Bench:
        """A supervisor starts: the first one of the run, or the next after `die`."""
        self.epoch += 1
        self.engine = Engine(self.policy)
        self.engine.restore(self.entries)
        started = SupervisorStarted(
            self.epoch, "here", self.epoch, "run", self.command, "/", "bench", self.digest, self.observe_only, self.capabilities,
            self.deadline, self.leaves, self.settable, self.stop_answer_s, arguments=self.arguments,
            status_lost=self.status_lost, rows_late=self.rows_late,
        )  # fmt: skip
        self.tell(started)
        return self

    def die(self, down_s: float = 5.0, observe_only: bool | None = None) -> Bench:
        """kill -9, and another supervisor `down_s` later that reads everything again."""
        self.now_s += down_s
        self.observe_only = self.observe_only if observe_only is None else observe_only
        self.start()
        return self.read_again()

    def read_again(self) -> Bench:
        if self.engine.watched:
            for reading in (*self.stream, *self.directories.values()):
                self.tell(reading)
        return self

    def tell(self, event: Event) -> tuple[f.Fact, ...]:
        facts = self.engine.handle(self.now_s, event)
        self.entries += [f.Entry(len(self.entries) + n, self.now_s, self.epoch, fact) for n, fact in enumerate(facts, 1)]
        for fact in facts:
            self.folded = evolve(self.folded, self.now_s, fact)
        assert self.folded == self.engine.state, "the journal folds to what the engine believes"
        self.told += 1
        if facts:
            self.decided_at.append(self.told)
        if self.told == self.dies_after:
            self.die()
        return facts

    def recall(self, *facts: f.Fact) -> Bench:
        """Facts of the past that the journal is to hold; the next supervisor believes them."""
        self.entries += [f.Entry(len(self.entries) + n, self.now_s, self.epoch, fact) for n, fact in enumerate(facts, 1)]
        for fact in facts:
            self.folded = evolve(self.folded, self.now_s, fact)
        return self.die()

    def tick(self, seconds: float = 1.0) -> tuple[f.Fact, ...]:
        self.now_s += seconds
        return self.tell(Tick())

    def must_leave(self, by: str = "SIGUSR1") -> tuple[f.Fact, ...]:
        return self.tell(StopWanted(by, resumes=True))

    def wants_stop(self, by: str = "SIGTERM") -> tuple[f.Fact, ...]:
        return self.tell(StopWanted(by))

    def asks(self, request: OperatorRequest, name: str = "", by: str = "ada@desk") -> f.RequestAnswered:
        """A person asks; the answer. `name` is the request's id, else a new one."""
        self.asked += 1
        self.tell(RequestReading(name or f"wish-{self.asked}", by, request))
        return self.of(f.RequestAnswered)[-1]

    # What became of its actions.

    def done(self, prefix: str) -> Bench:
        key = self.key(prefix)
        asked = self.state.pending[key]
        if isinstance(asked, a.PruneCheckpoint):
            del self.directories[asked.step]
        self.tell(ActionDone(key))
        action = prefix.split("/")[0]
        if action == "start":
            self.stream = []
        elif action == "quarantine":
            self.directories = {s: c for s, c in self.directories.items() if any(k.step == s for k in self.state.checkpoints)}
        return self

    def fails(self, prefix: str, reason: str = "cannot", retry_in_s: float | None = None) -> Bench:
        self.tell(ActionFailed(self.key(prefix), reason, retry_in_s))
        return self

    def key(self, prefix: str) -> str:
        return next(key for key in self.state.pending if key.startswith(prefix))

    def carry_out(self, ends_killed: bool = True) -> Bench:
        """Confirm the plan's actions one after the other until it is done; a kill is seen to end the attempt."""
        for _ in range(20):
            if self.state.plan is None:
                return self
            action = self.state.plan.actions[self.state.plan.next]
            self.now_s = max(self.now_s + 0.1, getattr(action, "not_before_s", 0.0))
            self.done(action.key)
            if isinstance(action, a.KillAttempt) and ends_killed:
                self.exits(signal=9)
        raise AssertionError("a plan without an end")

    def launched(self, receipt: bool = True) -> Bench:
        """The plan under way is carried out and the new attempt says its receipt."""
        self.carry_out()
        return self.receipt() if receipt else self

    # The trainer.

    @property
    def number(self) -> int:
        assert self.state.attempt is not None
        return self.state.attempt.attempt

    def says(self, reading: Reading) -> tuple[f.Fact, ...]:
        self.stream.append(reading)
        return self.tell(reading)

    def receipt(
        self,
        resume_step: int | None = None,
        history: tuple[StepReading, ...] | None = None,
        reads_back: bool = True,
        reckoned: bool = False,
        **overrides: Any,
    ) -> Bench:
        """`reads_back`: the trainer reads skip list and learning rate back, and does not only repeat them. `reckoned`: the
        samples of its rows are computed from their steps."""
        attempt = self.state.attempt
        assert attempt is not None
        asked = attempt.resume.step if attempt.resume else 0
        step = asked if resume_step is None else resume_step
        past = tuple(read_step(0, n) for n in range(max(1, step - 99), step + 1)) if history is None else history
        wanted = attempt.overrides
        said: dict[str, Any] = {"skip": [[r.start, r.end] for r in wanted.skip], "lr_scale": wanted.lr_scale} | overrides
        self.now_s += 1.0
        effective = {"clip_norm": wanted.clip_norm} | (said if reads_back else {})
        found = Receipt(attempt.attempt, self.now_s, step, None, 2, said, effective, past, step * BATCH, capabilities=self.lists)
        self.says(replace(found, samples_from_steps=reckoned))
        return self

    def step(self, step: int, loss: float | None = None, **metrics: float) -> tuple[f.Fact, ...]:
        self.now_s += 1.0
        attempt = self.state.attempt
        return self.says(read_step(self.number, step, loss, attempt.overrides.skip if attempt is not None else (), **metrics))

    def steps(self, first: int, last: int, loss: float | None = None) -> Bench:
        for step in range(first, last + 1):
            self.step(step, loss)
        return self

    def checkpoint(self, step: int, attempt: int | None = None, digest: str | None = None) -> Bench:
        made_by = self.number if attempt is None else attempt
        name = f"checkpoints/step-{step:08d}"
        reading = CheckpointReading(step, name, made_by, step * BATCH, digest or f"{made_by}-{step}")
        self.directories[step] = reading
        self.tell(reading)
        return self

    def read(self, step: int, damage: str = "") -> Bench:
        """The checkpoint of this step was read whole behind training, and holds unless something is damaged."""
        digest = self.directories[step].digest
        saved = None if damage else SavedNumbers(digest, read=ReadBack("remembered", 1, 1, 1, 1))
        self.tell(CheckpointRead(step, digest, saved, damage))
        return self

    def note(self, event: str, step: int, **data: Any) -> tuple[f.Fact, ...]:
        return self.says(TrainerNote(self.number, event, step, self.now_s, data))

    def beat(self, phase: Phase, step: int = 1, rank: int = 0) -> Bench:
        self.tell(Heartbeat(self.number, rank, step, phase, self.now_s))
        return self

    def ends(self, step: int, reason: str = "finished", code: int = 0) -> Bench:
        self.says(EndReading(self.number, step, reason))
        return self.exits(code=code)

    def exits(self, signal: int | None = None, code: int | None = None) -> Bench:
        return self.seen(Exited(self.number, report_of(signal, code)))

    def seen(self, view: Any) -> Bench:
        self.tell(LauncherReading(view))
        return self

    # What came of it.

    @property
    def state(self) -> RunState:
        return self.engine.state

    @property
    def facts(self) -> list[f.Fact]:
        return [entry.fact for entry in self.entries]

    def of(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def decided(self, kind: type[A]) -> list[A]:
        return [fact.action for fact in self.of(f.ActionDecided) if isinstance(fact.action, kind)]

    @property
    def incident(self) -> Incident:
        return self.state.incidents[-1]

    @property
    def resumed_from(self) -> int:
        """Where the plan under way, or else the newest attempt, starts."""
        plan = self.state.plan
        start = next((x for x in plan.actions if isinstance(x, a.StartAttempt)), None) if plan else None
        attempt = self.state.attempt
        resume: ResumePoint | None = start.resume if start else attempt.resume if attempt else None
        return resume.step if resume else 0

    @property
    def plan_kinds(self) -> list[str]:
        return [type(action).__name__ for action in self.state.plan.actions] if self.state.plan else []
