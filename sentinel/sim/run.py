"""One simulated run from first launch to end: the real daemon loop, supervisors that are killed and restarted, a verdict.

result = run_seed(8123)
assert result.ok, result.reproduce
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from sentinel.engine import Engine
from sentinel.model.attempts import AttemptSpec
from sentinel.model.events import Deadline, StopWanted, SupervisorStarted
from sentinel.model.facts import Entry
from sentinel.model.state import RunState
from sentinel.policy.schema import Policy
from sentinel.sim.accuracy import Struck
from sentinel.sim.actions import Failures, SimRunner
from sentinel.sim.cluster import SimScheduler
from sentinel.sim.end_invariants import judge_ending
from sentinel.sim.fault_injector import FaultInjector
from sentinel.sim.faults import TIME, Fault, request_of
from sentinel.sim.inspection import with_inspections
from sentinel.sim.invariant_broken import InvariantBroken
from sentinel.sim.invariants import Inspector
from sentinel.sim.launcher import SimLauncher
from sentinel.sim.machine import EPOCH_S
from sentinel.sim.memory_journal import MemoryJournal
from sentinel.sim.nodes import SimNodeReach
from sentinel.sim.page_invariants import calls
from sentinel.sim.points import Points
from sentinel.sim.policies import ITSELF, Policies
from sentinel.sim.processes import Job
from sentinel.sim.scenarios import Scenario, draw_scenario
from sentinel.sim.telemetry import SimTelemetry, read_record
from sentinel.sim.trainer import SimTrainer
from sentinel.sim.world import SupervisorKilled, World, WorldChange
from sentinel.supervisor.daemon import Daemon

COMMAND = ("train",)
SAME_MOMENT_TURNS_MAX = 2000
SESSIONS_MAX = 400
LEAVES = ("leave", "deadline")
UNTIL_S = 4 * 3600.0
LONG_HISTORY_STEPS = 100

MakeEngine = Callable[[Policy], Engine]


@dataclass(frozen=True)
class SimulationResult:
    """How it went. `outcome`: finished | failed | stopped | held | unfinished; `broken` names the first broken invariant;
    `pages`: the first call for a person of each incident; `struck`: by attempt, the first update that each fault hurt."""

    scenario: Scenario
    outcome: str
    broken: str
    state: RunState
    entries: tuple[Entry, ...]
    pages: tuple[WorldChange, ...]
    world_changes: tuple[WorldChange, ...]
    seconds: float
    appends: int
    effects: int
    digest: str
    struck: Struck = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.broken

    @property
    def reproduce(self) -> str:
        """One line that says what broke and how to see it again."""
        policy = "" if self.state.policy_name == "demo" else f" --policy {self.state.policy_name}"
        return f"{self.broken or self.outcome}; faults: {self.scenario}; sentinel drill --seed {self.scenario.seed}{policy}"


class Simulation:
    """Everything of one run. `run` may be called once."""

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        make_engine: MakeEngine = Engine,
        check_fold: bool = True,
        others: Mapping[str, Policy] | None = None,
    ) -> None:
        """`others`: policies that may be applied while it runs, by the word that asks for them."""
        self.scenario = scenario
        self.policy = policy
        self.world = World(scenario.seed)
        self.trainers: dict[int, SimTrainer] = {}
        self.inspector = Inspector(self.world, policy, self.trainers.get, scenario.observe_only)
        self.inspector.policies = others or {}
        self.world.on_change = self.inspector.on_change
        self.points = Points([fault for fault in scenario.faults if fault.kind == "supervisor_kill"])
        self.journal = MemoryJournal(self.points.at_append, self.inspector.on_entries)
        self.failures = Failures([fault for fault in scenario.faults if fault.kind == "fails"])
        self.policies = Policies(policy, others or {}, lambda: self.inspector.state, self.failures)
        self._injector = FaultInjector(scenario.faults, self.world.faults_done)
        self.scheduler = SimScheduler()
        make_job = with_inspections(self._make_job, self.world, scenario.shape, self._injector)
        self.launcher = SimLauncher(self.world, make_job, self.scheduler)
        self._make_engine = make_engine
        self._check_fold = check_fold
        self._daemon: Daemon | None = None
        self._judged: RunState | None = None
        self._again = [fault for fault in scenario.faults if fault.kind == "again"]
        self._leaves = sorted((fault for fault in scenario.faults if fault.kind in LEAVES), key=lambda fault: fault.at)
        for fault in scenario.faults:
            if fault.place == TIME and fault.kind not in ("again", "deadline"):
                self.world.after(fault.at, self._timed(fault))

    def run(self, until_s: float) -> SimulationResult:
        """Simulate until the run is over or `until_s` has passed."""
        broken, engine, end_s = "", Engine(self.policy), EPOCH_S + until_s
        try:
            for _ in range(SESSIONS_MAX):
                engine = self._make_engine(self.policies.in_force())
                if self._session(engine, end_s):
                    break
            if self._check_fold:
                self.inspector.judge_fold(engine)
            steps, must_finish = self.scenario.shape.steps, self.scenario.must_finish
            judge_ending(self.inspector, must_finish, steps, engine.state, self.trainers)
        except InvariantBroken as found:
            broken = str(found)
        state = self.inspector.state
        text = "\n".join(f"{at_s!r} {epoch} {kind} {body}" for at_s, epoch, kind, body in self.journal.rows)
        return SimulationResult(
            scenario=self.scenario,
            outcome=state.ended or ("held" if state.held else "unfinished"),
            broken=broken,
            state=state,
            entries=tuple(self.journal.read_entries()),
            pages=calls(self.world.pages),
            world_changes=tuple(self.world.world_changes),
            seconds=self.world.now_s - EPOCH_S,
            appends=self.points.appends,
            effects=self.points.effects,
            digest=hashlib.sha256(text.encode()).hexdigest(),
            struck={attempt: trainer.struck for attempt, trainer in self.trainers.items()},
        )

    # One supervisor's life.

    def _session(self, engine: Engine, end_s: float) -> bool:
        """From start to its end or death; True when no other supervisor follows."""
        world = self.world
        self.points.down_s = 0.0
        record_of = partial(read_record, self.trainers.get)
        runner = SimRunner(
            world, self.launcher, COMMAND, self.failures, self.points.at_effect, record_of, self.policies.load,
            SimNodeReach(world, self.scenario.shape),
        )  # fmt: skip
        try:
            engine.restore(self.journal.read_entries())
            epoch = self.journal.claim_epoch()
            telemetry = SimTelemetry(
                world, self.launcher, self.trainers.get, self.scenario.lines_per_poll,
                reads_behind=engine.policy.spec.checkpoints.verify != "full",
            )  # fmt: skip
            self._daemon = daemon = Daemon(engine, self.journal, telemetry, runner, epoch)
            daemon.start(world.now_s, self._started(epoch, engine.policy))
            self._loop(daemon, engine, end_s)
        except SupervisorKilled:
            runner.die()
            self._daemon = None
            world.advance(self.points.down_s, wakes=False)
            self.inspector.was_down(self.points.down_s)
            if self.inspector.state.ended:  # killed in its last moments: whoever starts it again means it
                self.inspector.by_person.add(self.inspector.state.next_attempt)
            return world.now_s >= end_s
        self._daemon = None
        return world.now_s >= end_s or not (engine.is_outdated or self._starts_again(engine))

    def _loop(self, daemon: Daemon, engine: Engine, end_s: float) -> None:
        world, at_once = self.world, 0
        while world.now_s < end_s:
            timeout_s = daemon.turn(world.now_s)
            self.inspector.after_turn(engine)
            if self._check_fold and engine.state is not self._judged and self.inspector.entries % 16 == 0:
                self.inspector.judge_fold(engine)
                self._judged = engine.state
            if daemon.is_outdated or daemon.is_over(world.now_s):
                return
            at_once = at_once + 1 if timeout_s == 0.0 else 0
            if at_once > SAME_MOMENT_TURNS_MAX:
                raise InvariantBroken("no endless loop", f"{at_once} turns without letting time pass")
            world.advance(timeout_s, wakes=self.scenario.hears)

    def _starts_again(self, engine: Engine) -> bool:
        """A person starts what has ended, a scheduler what was suspended: neither is a restart of the engine's own."""
        due = self._leaves if engine.state.ended == "suspended" else self._again
        if not due or engine.state.ended in ("finished", ""):
            return False
        wait_s = due.pop(0).number("for")
        self.world.advance(wait_s, wakes=False)
        self.inspector.was_down(wait_s)
        self.inspector.is_stopping = False
        self.inspector.by_person.add(engine.state.next_attempt)
        return True

    def _started(self, epoch: int, policy: Policy) -> SupervisorStarted:
        name, observe = policy.metadata.name, self.scenario.observe_only or policy.spec.mode == "observe"
        can = self.scenario.shape.capabilities
        ends_s = [EPOCH_S + fault.at for fault in self._leaves[:1] if fault.kind == "deadline"]
        deadline = Deadline(ends_s[0], "a scheduler") if ends_s else None
        return SupervisorStarted(epoch, "sim", epoch, "sim", COMMAND, "/", name, self.policies.digest(), observe, can, deadline)

    # The world's side.

    def _make_job(self, spec: AttemptSpec) -> Job | None:
        trainer = SimTrainer(self.world, self.scenario.shape, self._injector, spec)
        trainer.on_resume = self.inspector.on_resume
        self.trainers[spec.attempt] = trainer
        return Job(self.world, spec.attempt, trainer, self.scenario.shape.ranks)

    def _timed(self, fault: Fault) -> Callable[[], None]:
        def stop(wanted: StopWanted) -> None:
            self.inspector.is_stopping = True
            if self._daemon is not None:
                self._daemon.want(wanted)

        def kill() -> None:
            if self._daemon is not None:
                self.points.down_s = fault.number("for")
                raise SupervisorKilled(fault.text)

        world, options = self.world, fault.options
        effects = {"supervisor_kill": kill, "ask": lambda: world.ask(request_of(fault))}
        effects["apply"] = effects["ask"]
        effects["stop"] = lambda: stop(StopWanted("a person"))
        effects["leave"] = lambda: stop(StopWanted("SIGUSR1", resumes=True))
        effects["changed"] = lambda: world.change_program(options["what"])
        effects["blind"] = lambda: world.go_blind(options["source"], fault.number("for"))
        effects["refused"] = lambda: self.scheduler.fail(fault)
        effects["node_says"] = lambda: world.node_words.update({f"node{int(fault.number('node'))}": options["says"]})
        effects["disk"] = lambda: world.fill_disk(fault.number("left"), fault.number("for"))
        effects["route"] = lambda: world.spoil_route(options["name"], options["does"], fault.number("for"))
        return {**effects, "unreadable": lambda: world.hide_checkpoints(fault.number("for"))}[fault.kind]


def run_scenario(
    scenario: Scenario,
    policy: Policy,
    until_s: float = UNTIL_S,
    make_engine: MakeEngine = Engine,
    check_fold: bool = True,
    others: Mapping[str, Policy] | None = None,
) -> SimulationResult:
    """Simulate one scenario. `make_engine` lets a test put a broken engine in its place; `others`: as in `Simulation`."""
    return Simulation(scenario, policy, make_engine, check_fold, others).run(until_s)


def run_seed(seed: int, policy: Policy, until_s: float = UNTIL_S, make_engine: MakeEngine = Engine) -> SimulationResult:
    """Simulate what this seed draws; the run is as long as the policy's detectors need."""
    long_history = policy.spec.detectors.spike.min_history_steps > LONG_HISTORY_STEPS
    return run_scenario(draw_scenario(seed, long_history), policy, until_s, make_engine, others={ITSELF: policy})
