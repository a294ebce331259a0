"""What must hold after every event, checked against the world's own truth and against the journal as it can be read back.

The inspector trusts nothing the engine says about the world: it knows which weights carry which damage, what was really
started and killed, and folds the journal's incidents by itself. The first broken invariant ends the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sentinel.engine import Engine, evolve
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import CLOSED, IncidentState
from sentinel.model.state import INCIDENTS_KEPT, PRUNED_KEPT, REQUESTS_KEPT, STAMPS_KEPT, RunState
from sentinel.policy.schema import Policy
from sentinel.sim.checkpoint_invariants import (
    find_spared,
    judge_left_above,
    judge_requested_resume,
    judge_resumed,
    judge_retained,
)
from sentinel.sim.invariant_broken import InvariantBroken
from sentinel.sim.page_invariants import PageJudge
from sentinel.sim.store import SimCheckpoint
from sentinel.sim.trainer import SimTrainer
from sentinel.sim.world import World, WorldChange

SPOILED_NATS = 0.15  # damage in a checkpoint that a judge of the loss could have seen: three times its noise
SEEN_STEPS, GROWN_STEPS = 3, 12  # harm that began earlier began unseen; what grows is seen that much later than it began
BLIND_REPORTED_S = 5.0
STUCK_S = 900.0  # longest silence of a whole supervised run: a compile limit, a backoff and an action's retries
ENTRIES_PER_HOUR_MAX = 6000
ACTS = ("kill", "quarantine", "prune", "override", "request", "signal")
ATTEMPTS_MAX, CHECKPOINTS_MAX, FINDINGS_MAX, PENDING_MAX = 512, 4096, 256, 32
ONCE = ("start", "kill", "quarantine", "prune")


class Inspector:
    """Sees every change of the world and every journal entry; `is_stopping` and `by_person` are set by the driver."""

    def __init__(self, world: World, policy: Policy, trainer_of: Callable[[int], SimTrainer | None], observe_only: bool) -> None:
        self.world = world
        self.state = RunState()
        self.entries = 0
        self.is_stopping = False
        self.causes: dict[int, set[str]] = {}
        self._policy = policy
        self.policies: Mapping[str, Policy] = {}  # those that may be applied, by the path that is asked for
        self._trainer_of = trainer_of
        self.observe_only = observe_only
        self._open: dict[int, int | None] = {}
        self._spoiled: list[SimCheckpoint] = []
        self._starts_s: list[float] = []
        self._done: set[tuple[str, str, str]] = set()
        self.pages = PageJudge(world, policy.spec.paging)
        self._moved_s = world.now_s
        self._events_count = 0
        self._blind_since: dict[str, float] = {}
        self._hour = (world.now_s, 0)
        self.by_person: set[int] = {1}
        self._inspections: set[int] = set()  # they train nothing, and are no restarts
        self._lapsing: tuple[str, ...] = ()

    # What was changed in the world.

    def on_change(self, change: WorldChange) -> None:
        self._moved_s = change.at_s
        if change.what in ONCE:
            if (mark := (change.what, change.to, change.key)) in self._done:
                raise InvariantBroken("no act takes effect twice", f"{change.what} of {change.to} under {change.key} again")
            self._done.add(mark)
        is_persons = change.what == "quarantine" and change.key in {f"quarantine/{attempt}" for attempt in self.by_person}
        if self.observe_only and change.what in ACTS and not (self.is_stopping or is_persons):
            raise InvariantBroken("observe only changes nothing", f"{change.what} of {change.to}")
        if change.what == "start":
            self._on_start(change.attempt)

    def _on_start(self, attempt: int) -> None:
        others = [number for number in sorted(self.world.living) if number != attempt]
        if others:
            raise InvariantBroken("never two live attempts", f"attempt {attempt} was started while attempt {others[0]} lives")
        if attempt in self.by_person:
            return
        if self.observe_only:
            raise InvariantBroken("observe only changes nothing", f"attempt {attempt} was started")
        if attempt in self._inspections:
            return
        rate = self._policy.spec.budget.restarts
        self._starts_s = [at_s for at_s in self._starts_s if at_s > self.world.now_s - rate.period_s]
        self._starts_s.append(self.world.now_s)
        if len(self._starts_s) > rate.count + len(self.by_person):
            raise InvariantBroken("restart budget", f"{len(self._starts_s)} restarts within {rate.period_s:g} s")

    def on_resume(self, attempt: int, checkpoint: SimCheckpoint | None) -> None:
        """The trainer has loaded a checkpoint: does it carry damage of an incident that is open, or was repaired?"""
        if checkpoint is None:
            return
        asked = next((known.resume for known in self.state.attempts if known.attempt == attempt), None)
        judge_resumed(self.world.store, attempt, checkpoint, asked.step if asked is not None else 0)
        damage = {fault for fault, nats in checkpoint.weights.damage().items() if nats >= SPOILED_NATS}
        for number in self._open:
            for fault in sorted(damage & self.causes.get(number, set())):
                sentence = f"attempt {attempt} resumed from step {checkpoint.step}, which carries {fault} of incident {number}"
                raise InvariantBroken("never resume from at or after the onset", sentence)
        if any(checkpoint is spoiled for spoiled in self._spoiled):
            raise InvariantBroken(
                "never resume from at or after the onset", f"step {checkpoint.step} is of a lineage a repair has abandoned"
            )

    # The journal.

    def on_entries(self, entries: Sequence[f.Entry]) -> None:
        self._moved_s = self.world.now_s
        self._count(len(entries))
        for entry in entries:
            if isinstance(entry.fact, f.PolicyApplied):
                self._policy = self.policies[entry.fact.path]
                self.pages.go_by(self._policy.spec.paging)
            self.state = evolve(self.state, entry.at_s, entry.fact)
            self.entries += 1
            self._on_fact(entry.fact)

    def _count(self, entries: int) -> None:
        began_s, count = self._hour
        if self.world.now_s - began_s >= 3600.0:
            began_s, count = self.world.now_s, 0
        self._hour = (began_s, count + entries)
        if count + entries > ENTRIES_PER_HOUR_MAX:
            raise InvariantBroken("no endless loop", f"{count + entries} facts within an hour")

    def _on_fact(self, fact: f.Fact) -> None:
        self.pages.on_fact(fact, self.state)
        judge_retained(fact, self.state, self._policy, self.world.store, self.by_person)
        match fact:
            case f.FindingRecorded(finding=finding, became=became):
                if finding.kind.is_numeric and became is not None:
                    self.causes.setdefault(became, set()).update(self._hurting(finding))
                if finding.kind is Kind.HANG and became is not None:
                    self._judge_hang(finding.attempt)
            case f.IncidentOpened(incident=incident) if incident.is_numeric:
                self._open[incident.id] = incident.onset_step
            case f.IncidentMoved(incident=number, to=to):
                if to in CLOSED:
                    self._open.pop(number, None)
            case f.SettingLapsed(keys=keys, by_trainer=False):
                _judge_lapse(keys, self._lapsing, self.state)
                self._lapsing = keys
            case f.LapseJudged():
                self._lapsing = ()
            case f.PlanAdopted() if self.state.next_attempt not in self.by_person:
                if (spared := find_spared(fact, self.state, self._policy, self.world.store)) is not None:
                    raise InvariantBroken("never from scratch for nothing", f"the checkpoint of step {spared.step} is whole")
            case f.RequestAnswered(granted=True, wish=w.RollBack() | w.LeaveOut() | w.ResumeRun()):
                self.by_person.add(self.state.next_attempt)
            case f.InspectionLaunched(attempt=attempt):
                self._inspections.add(attempt)
            case f.AttemptLaunched(attempt=attempt, resume=resume):
                self._judge_launch(attempt, resume.step if resume else 0)
                self._spoil()

    def _judge_launch(self, attempt: int, step: int) -> None:
        judge_requested_resume(self.state.checkpoints, attempt, step)
        judge_left_above(self.world.store, attempt, step)
        for number, onset in self._open.items():
            kept = self.state.incident(number).kept_step
            if onset is not None and onset <= step and (kept is None or step > kept):
                sentence = f"attempt {attempt} is to resume at step {step}, incident {number} began at step {onset}"
                raise InvariantBroken("never resume from at or after the onset", sentence)

    def _hurting(self, finding: Finding) -> set[str]:
        """Which faults began to hurt this attempt where the finding says it began, by the world's own truth."""
        trainer = self._trainer_of(finding.attempt)
        if trainer is None or finding.onset_step is None:
            return set()
        limit = {"unstable": finding.onset_step - GROWN_STEPS}
        usual = finding.onset_step - SEEN_STEPS
        return {fault for fault, step in trainer.hurt_since.items() if step >= limit.get(fault.partition("@")[0], usual)}

    def _spoil(self) -> None:
        """A relaunch abandons a lineage: its damaged checkpoints are spoiled for good."""
        for number, causes in self.causes.items():
            incident = self.state.incident(number)
            if not (incident.last_try and incident.last_try.remedy.rollback_to_step is not None):
                continue
            for found in (*self.world.store.committed.values(), *self.world.store.quarantined):
                hurt = any(nats >= SPOILED_NATS for fault, nats in found.weights.damage().items() if fault in causes)
                fresh = incident.state is not IncidentState.OPEN and found.committed_s > incident.last_try.taken_s
                if hurt and not fresh and not any(found is known for known in self._spoiled):
                    self._spoiled.append(found)

    def _judge_hang(self, attempt: int) -> None:
        trainer = self._trainer_of(attempt)
        floor_s = self._policy.spec.detectors.hang.floor_s
        job = self.world.jobs.get(attempt)
        if trainer is None or job is None or trainer.output.moved_s is None:
            return
        is_stuck = any(process.is_stopped for process in job.processes.values()) or not job.living_ranks
        if not is_stuck and self.world.now_s - trainer.output.moved_s < floor_s:
            raise InvariantBroken("a blind supervisor kills no healthy job", f"attempt {attempt} moved, and was called hung")

    # After every turn of the loop.

    def after_turn(self, engine: Engine) -> None:
        now_s = self.world.now_s
        if len(self.world.living) > 1:
            raise InvariantBroken("never two live attempts", f"attempts {sorted(self.world.living)} live")
        if self.world.events_count != self._events_count and any(self._is_moving(number) for number in self.world.living):
            self._events_count, self._moved_s = self.world.events_count, now_s
        self.pages.judge(now_s, engine.state)
        if self.world.blind or self._blind_since:
            self._judge_blindness(engine, now_s)
        state = engine.state
        is_called = any(incident.kind is Kind.UNSEEN for incident in state.open_pages)
        if state.ended or state.held or state.paused or self.world.blind or self.observe_only or is_called:
            self._moved_s = now_s
        elif now_s - self._moved_s > STUCK_S:
            raise InvariantBroken("the run goes on, ends, or pages", f"nothing happened for {STUCK_S:g} s: {state.label}")

    def _is_moving(self, attempt: int) -> bool:
        trainer = self._trainer_of(attempt)
        moved_s = None if trainer is None else trainer.output.moved_s
        return moved_s is not None and self.world.now_s - moved_s < STUCK_S / 3

    def was_down(self, seconds: float) -> None:
        """No supervisor lived for so long: what it owed is due that much later."""
        self.pages.was_down(seconds)
        self._moved_s += seconds
        self._blind_since.clear()

    def _judge_blindness(self, engine: Engine, now_s: float) -> None:
        for source in sorted(self.world.blind):
            since_s = self._blind_since.setdefault(source, now_s)
            is_unreported = source not in engine.state.blind and engine.watched in self.world.living
            if now_s - since_s > BLIND_REPORTED_S and is_unreported and not engine.state.ended:
                raise InvariantBroken("a dead source is reported", f"{source} has been blind for {now_s - since_s:.0f} s unsaid")
        for source in [known for known in self._blind_since if known not in self.world.blind]:
            del self._blind_since[source]

    def judge_fold(self, engine: Engine) -> None:
        """The journal, read back and folded, gives what the engine believes; and both stay small."""
        if engine.state != self.state:
            differing = [name for name in RunState.__slots__ if getattr(engine.state, name) != getattr(self.state, name)]
            raise InvariantBroken("same journal, same state", f"the fold differs in {', '.join(differing)}")
        _judge_caps(self.state)


def _judge_caps(state: RunState) -> None:
    """Raises InvariantBroken for a container that has outgrown its bound."""
    sizes = {
        "attempts": (len(state.attempts), ATTEMPTS_MAX),
        "checkpoints": (len(state.checkpoints), CHECKPOINTS_MAX),
        "pruned": (len(state.pruned), PRUNED_KEPT),
        "incidents": (len(state.incidents), INCIDENTS_KEPT),
        "findings": (len(state.findings), FINDINGS_MAX),
        "stamps": (max(len(state.restarts_s), len(state.interventions_s)), STAMPS_KEPT),
        "pending": (len(state.pending), PENDING_MAX),
        "wishes": (len(state.answered_requests), REQUESTS_KEPT),
    }
    for name, (size, cap) in sizes.items():
        if size > cap:
            raise InvariantBroken("state stays under its cap", f"{size} {name}, {cap} at most")


def _judge_lapse(keys: tuple[str, ...], lapsing: tuple[str, ...], state: RunState) -> None:
    """A setting is taken back in a healthy run, alone, and when the one before it (`lapsing`) has proved itself."""
    if lapsing or len(keys) != 1 or state.open_incidents:
        sentence = f"{', '.join(keys)} lapsed while {', '.join(lapsing) or 'an incident'} was not settled"
        raise InvariantBroken("settings lapse one at a time", sentence)
