"""The decision being made: facts recorded so far and the state they lead to.

Deciding often needs the state after the fact just recorded, so recording evolves at once. Nothing leaves a decision but facts;
what is to be done about them are the actions of its `ActionDecided` facts.
"""

from __future__ import annotations

from sentinel.detectors.bank import DetectorBank
from sentinel.engine.evolve import evolve
from sentinel.engine.live_attempt import LiveAttempt
from sentinel.model.actions import Action, StartAttempt
from sentinel.model.facts import ActionDecided, AttemptLaunched, Fact, FindingRecorded, Noted, RungTaken
from sentinel.model.findings import Finding
from sentinel.model.incidents import Incident, Remedy
from sentinel.model.state import Attempt, RunState
from sentinel.plan.ahead import NOTHING_REPORTED, ReportedProgress
from sentinel.plan.holes import count_seen
from sentinel.plan.playbook_change import marks_of
from sentinel.policy.schema import Policy, Rung


class Decision:
    """Attributes:
    state: as of the last recorded fact. now_s: supervisor time of the event being decided.
    policy, detectors, live: what to judge by; the last two are read here and only fed by the engine itself.
    """

    def __init__(self, state: RunState, now_s: float, policy: Policy, detectors: DetectorBank, live: LiveAttempt) -> None:
        self.state = state
        self.now_s = now_s
        self.policy = policy
        self.detectors = detectors
        self.live = live
        self.facts: list[Fact] = []

    def record(self, fact: Fact) -> None:
        self.facts.append(fact)
        self.state = evolve(self.state, self.now_s, fact)

    def decide(self, action: Action) -> None:
        """Intend the action, unless the very same intention is already pending."""
        if action.key not in self.state.pending:
            self.record(ActionDecided(action))

    def take(self, incident_id: int, remedy: Remedy, *, intervention: bool = False) -> None:
        """The incident takes a rung of its playbook; with the mark of what that says, by which another policy knows it again."""
        marks = marks_of(self.rungs_of(self.state.incident(incident_id)))
        mark = marks[remedy.rung] if remedy.rung < len(marks) else ""
        self.record(RungTaken(incident_id, remedy, intervention, self.newest_step, mark))

    def launch(self, action: StartAttempt, why: str) -> None:
        """The attempt exists from its decision on: a restart of the supervisor must not invent a second one."""
        self.record(AttemptLaunched(action.attempt, action.resume, action.overrides, why))
        self.decide(action)

    def note(self, about: str, reason: str) -> None:
        self.record(Noted(about, reason))

    def dismiss(self, finding: Finding, reason: str) -> None:
        """A finding that opens no incident still has its reason on record."""
        self.record(FindingRecorded(finding, None, reason))

    @property
    def attempt(self) -> Attempt | None:
        return self.state.attempt

    @property
    def is_alive(self) -> bool:
        """Whether an attempt was launched and has not ended, as far as is known."""
        attempt = self.state.attempt
        return attempt is not None and not attempt.is_over

    @property
    def newest_step(self) -> int:
        """The newest step of the current attempt's lineage: seen, or resumed from. The bank may still hold the one before."""
        attempt = self.state.attempt
        if attempt is None:
            return 0
        newest = self.detectors.newest_step if self.live.attempt == attempt.attempt else 0
        return max(attempt.resumed_step, attempt.last_step if attempt.is_over else newest)

    @property
    def reported_progress(self) -> ReportedProgress:
        """What the current attempt tells of its steps beside its stream."""
        attempt = self.state.attempt
        if attempt is None or self.live.attempt != attempt.attempt:
            return NOTHING_REPORTED
        return ReportedProgress(self.detectors.furthest_step, self.detectors.interval_steps)

    def steps_seen(self, after_step: int, through_step: int) -> int:
        """Steps behind one and up to another whose numbers were not lost: what nobody saw proves nothing."""
        return count_seen(self.live.holes, after_step, through_step)

    def rungs_of(self, incident: Incident) -> tuple[Rung, ...]:
        """The incident's playbook as the policy has it now; empty when a changed policy has it no more."""
        return self.policy.spec.playbooks.get(incident.playbook, ())

    @property
    def observes_only(self) -> bool:
        """Remedies are recorded and not carried out."""
        return self.is_observed_run or bool(self.state.paused)

    @property
    def is_observed_run(self) -> bool:
        """Sentinel may change nothing in it, for anybody; a pause is lifted by a person."""
        return self.state.observe_only or self.policy.spec.mode == "observe"
