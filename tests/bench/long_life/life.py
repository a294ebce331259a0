"""Sixty days of decisions: the real engine is told what the trainer's streams say, and its facts are kept as a journal's rows.

Nothing is simulated but the world: every action succeeds at once. The engine reads every 200th line of an attempt; a supervisor
would have read all of them, and decided the same, because a spike is as long as three of these lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from sentinel.engine import Engine
from sentinel.journal.codec import encode_fact
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import Alive, Exited, SampleRange
from sentinel.model.events import ActionDone, Event, SupervisorStarted, Tick
from sentinel.model.readings import CheckpointReading, LauncherReading, Receipt, StepReading
from sentinel.model.state import RunState
from sentinel.policy.schema import Policy
from tests.builders import report_of

from .shape import BATCH, INIT_S, PAUSE_S, RANKS, Shape, Told

COMMAND = ("torchrun", "--nproc-per-node", str(RANKS), "train.py")
HISTORY_ROWS = 100
RESTARTS = 5  # of the supervisor, at equal distances: each claims an epoch and folds what is there
ANSWERS_MAX = 50

Row = tuple[int, float, int, str, str]
DigestOf = Callable[[int, int], str]  # of the manifest of an attempt's checkpoint at a step


class Life:
    """`rows` are the journal's, `told` the attempts as their trainers wrote them."""

    def __init__(
        self, policy: Policy, shape: Shape, began_s: float, digest_of: DigestOf, run_id: str, policy_digest: str
    ) -> None:
        self.shape = shape
        self.now_s = began_s
        self.rows: list[Row] = []
        self.told: list[Told] = []
        self.epoch = 0
        self.engine = Engine(policy)
        self._policy, self._digest_of = policy, digest_of
        self._run = (run_id, policy_digest)
        self._entries: list[f.Entry] = []
        self._history: deque[StepReading] = deque(maxlen=HISTORY_ROWS)

    @property
    def state(self) -> RunState:
        return self.engine.state

    def live(self) -> None:
        """All of it, up to the newest line of the newest attempt, which trains on."""
        self._start_supervisor()
        for number in range(1, self.shape.attempts + 1):
            told = self._launch()
            assert told.attempt == number, f"attempt {told.attempt} was launched where {number} was expected"
            if number % max(1, self.shape.attempts // RESTARTS) == 0 and number < self.shape.attempts:
                self._start_supervisor()
                self._tell(self._receipt(told))
            self._train(told)
            if number < self.shape.attempts:
                self._break(told)

    def _start_supervisor(self) -> None:
        self.epoch += 1
        self.engine = Engine(self._policy)
        self.engine.restore(self._entries)
        run_id, digest = self._run
        name = self._policy.metadata.name
        self._tell(SupervisorStarted(self.epoch, "node-0", 4000 + self.epoch, run_id, COMMAND, "/", name, digest, False))

    def _tell(self, event: Event) -> None:
        facts = self.engine.handle(self.now_s, event)
        for fact in facts:
            self._entries.append(f.Entry(len(self._entries) + 1, self.now_s, self.epoch, fact))
            self.rows.append((len(self._entries), self.now_s, self.epoch, *encode_fact(fact)))

    def _carry_out(self) -> None:
        """Every action that is decided, and those that follow from it."""
        for _ in range(ANSWERS_MAX):
            action = next(iter(self.state.pending.values()), None)
            if action is None:
                return
            self.now_s = max(self.now_s + 0.2, getattr(action, "not_before_s", 0.0))
            self._tell(ActionDone(action.key))
            if isinstance(action, a.KillAttempt):
                self._tell(LauncherReading(Exited(action.attempt, report_of(signal=9, ranks=RANKS))))
        raise AssertionError(f"no end of actions: {list(self.state.pending)}")

    def _launch(self) -> Told:
        for _ in range(ANSWERS_MAX):
            self._carry_out()
            attempt = self.state.attempt
            if attempt is not None and attempt.ended_s is None and self.state.plan is None:
                break
            self.now_s += 1.0
            self._tell(Tick())
        else:
            raise AssertionError(f"no attempt was launched: {self.state.plan}")
        self._tell(LauncherReading(Alive(attempt.attempt, 7000 + attempt.attempt, tuple(range(100, 100 + RANKS)))))
        self.now_s += INIT_S
        told = Told(self.shape, attempt.attempt, attempt.resume.step if attempt.resume else 0, self.now_s)
        self.told.append(told)
        self._tell(self._receipt(told))
        return told

    def _receipt(self, told: Told) -> Receipt:
        attempt = self.state.attempt
        assert attempt is not None
        digest = attempt.resume.digest if attempt.resume else None
        asked = {"lr_scale": attempt.overrides.lr_scale, "skip": [[one.start, one.end] for one in attempt.overrides.skip]}
        history, cursor = tuple(self._history), told.resume_step * BATCH
        return Receipt(told.attempt, self.now_s, told.resume_step, digest, RANKS, asked, asked, history, cursor, RANKS)

    def _train(self, told: Told) -> None:
        saves: Iterator[int] = told.saves()
        save = next(saves, None)
        for step in told.sparse():
            self.now_s = told.time_s(step)
            row = StepReading(told.attempt, step, self.now_s, (SampleRange(*told.samples(step)),), told.metrics(step))
            self._tell(row)
            self._history.append(row)
            if save is not None and step >= save:
                name = f"checkpoints/step-{save:08d}"
                digest = self._digest_of(told.attempt, save)
                self._tell(CheckpointReading(save, name, told.attempt, save * BATCH, digest))
                self._tell(Tick())
                self._carry_out()
                save = next(saves, None)
        self._tell(Tick())

    def _break(self, told: Told) -> None:
        self.now_s += 1.0
        if not told.ends_in_nan:
            self._tell(LauncherReading(Exited(told.attempt, report_of(signal=9, ranks=RANKS))))
        self._history = deque((row for row in self._history if row.step <= self._resumes_at()), maxlen=HISTORY_ROWS)
        self.now_s += PAUSE_S
        self._tell(Tick())

    def _resumes_at(self) -> int:
        """Of the plan that is under way; the newest checkpoint where it is not known yet."""
        plan = self.state.plan
        start = next((x for x in plan.actions if isinstance(x, a.StartAttempt)), None) if plan else None
        return start.resume.step if start is not None and start.resume is not None else 0
