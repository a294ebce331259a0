"""Twelve engines and loops, each broken in one way: every one is caught by an invariant within five hundred drawn seeds.

Nobody chose the scenarios for them: they are those that `make drills` draws. The few that `make test` runs are in
test_broken_engines, where each is caught by a scenario of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

import pytest

from sentinel.engine import Engine
from sentinel.model.actions import KillAttempt, Quarantine, SendPage, StartAttempt, VerifyCheckpoint
from sentinel.model.attempts import ResumePoint, SettingsInForce, Vouched
from sentinel.model.events import ActionDone, Event
from sentinel.model.facts import ActionDecided, Entry, Fact
from sentinel.model.state import Checkpoint, RunState
from sentinel.plan.checkpoint_validation import NumbersVerdict
from sentinel.plan.rollback import RollbackTarget
from sentinel.policy.budget import BudgetVerdict
from sentinel.policy.schema import Policy
from sentinel.sim.run import UNTIL_S, MakeEngine, run_scenario
from sentinel.sim.scenarios import draw_scenario
from sentinel.supervisor.daemon import Daemon
from tests.sim.kit import policy_named

SEEDS = 500
BASE = 20261120

Patch = Callable[[pytest.MonkeyPatch], MakeEngine]


@dataclass(frozen=True)
class Mutant:
    """`breaks` changes what has to be changed and gives the engine. `what`: as a person would say it. `patient`: the playbook for
    crashes never comes to its end, so that the budget alone can end it."""

    what: str
    breaks: Patch
    patient: bool = False


def newest(checkpoints: Iterable[Checkpoint], *_: object) -> RollbackTarget:
    return RollbackTarget(max(checkpoints, key=lambda one: one.step, default=None), "the newest")


def resumes_behind_the_onset(patch: pytest.MonkeyPatch) -> MakeEngine:
    patch.setattr("sentinel.plan.remedy.choose_before", newest)
    return Engine


def resumes_from_condemned(patch: pytest.MonkeyPatch) -> MakeEngine:
    for place in ("sentinel.plan.remedy", "sentinel.engine.attempts", "sentinel.engine.another_checkpoint"):
        patch.setattr(f"{place}.choose_newest", newest)
    return Engine


def ignores_the_budget(patch: pytest.MonkeyPatch) -> MakeEngine:
    patch.setattr("sentinel.engine.ladder.judge_budget", lambda *_, **__: BudgetVerdict(True, 0.0, "as often as you like"))
    return Engine


def believes_every_number(patch: pytest.MonkeyPatch) -> MakeEngine:
    patch.setattr("sentinel.engine.action_results.judge_numbers", lambda saved: NumbersVerdict("", "believed"))
    return Engine


def vouches_for_what_it_did_not_verify(patch: pytest.MonkeyPatch) -> MakeEngine:
    def vouch(state: RunState, now_s: float, attempt: int, resume: ResumePoint | None) -> Vouched | None:
        return None if resume is None or resume.digest is None else Vouched(resume.step, resume.digest, "full")

    patch.setattr("sentinel.engine.relaunching.vouch", vouch)
    return without(VerifyCheckpoint)


def acts_before_it_syncs(patch: pytest.MonkeyPatch) -> MakeEngine:
    handle = Daemon._handle

    def hasty(self: Daemon, now_s: float, event: Event) -> None:
        append = self._journal.append

        def late(at_s: float, facts: Iterable[Fact], epoch: int) -> tuple[Entry, ...]:
            for fact in facts:
                if isinstance(fact, ActionDecided) and not isinstance(fact.action, StartAttempt):
                    self._runner.submit(fact.action)
            return append(at_s, tuple(facts), epoch)

        self._journal.append = late  # type: ignore[method-assign]
        try:
            handle(self, now_s, event)
        finally:
            self._journal.append = append  # type: ignore[method-assign]

    patch.setattr(Daemon, "_handle", hasty)
    return Engine


class Restored(Engine):
    """Takes over wrongly."""

    def restore(self, entries: Iterable[Entry]) -> None:
        super().restore(entries)
        self.state = replace(self.state, **self.forgotten())

    def forgotten(self) -> dict[str, object]:
        raise NotImplementedError


class Forgetful(Restored):
    def forgotten(self) -> dict[str, object]:
        return {"pending": MappingProxyType({}), "plan": None}


class Inventive(Restored):
    def forgotten(self) -> dict[str, object]:
        ended = tuple(replace(attempt, ended_s=0.0, outcome="lost") for attempt in self.state.attempts)
        return {"attempts": ended, "pending": MappingProxyType({}), "plan": None}


def without(*kinds: type) -> MakeEngine:
    """An engine that never decides these actions: it counts them as done."""

    class Without(Engine):
        def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
            facts = super().handle(now_s, event)
            left_out = [fact.action.key for fact in facts if isinstance(fact, ActionDecided) and isinstance(fact.action, kinds)]
            for key in left_out:
                facts += super().handle(now_s, ActionDone(key, "as if"))
            return tuple(fact for fact in facts if not (isinstance(fact, ActionDecided) and isinstance(fact.action, kinds)))

    return Without


class Sure(Engine):
    """Takes its own blindness for silence of the ranks."""

    def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
        blind, self.state = self.state.blind, replace(self.state, blind=MappingProxyType({}))
        facts = super().handle(now_s, event)
        self.state = replace(self.state, blind=MappingProxyType({**blind, **self.state.blind}))
        return facts


class Eager(Engine):
    """Acts where it should only observe."""

    def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
        self.state = replace(self.state, observe_only=False)
        return super().handle(now_s, event)


class Undoing(Engine):
    """Relaunches with the settings of the configuration: what a person or a repair changed is undone."""

    def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
        facts = super().handle(now_s, event)
        return tuple(self._undone(fact) for fact in facts)

    @staticmethod
    def _undone(fact: Fact) -> Fact:
        if isinstance(fact, ActionDecided) and isinstance(fact.action, StartAttempt):
            configured = SettingsInForce()
            names = ("skip", "lr_scale", "clip_norm")
            plain = replace(fact.action.overrides, **{name: getattr(configured, name) for name in names})
            return replace(fact, action=replace(fact.action, overrides=plain))
        return fact


def just(engine: MakeEngine) -> Patch:
    return lambda patch: engine


MUTANTS = (
    Mutant("resumes from behind the onset", resumes_behind_the_onset),
    Mutant("resumes from what was condemned", resumes_from_condemned),
    Mutant("ignores the budget", ignores_the_budget, patient=True),
    Mutant("believes every number of a checkpoint", believes_every_number),
    Mutant("acts before it has synced", acts_before_it_syncs),
    Mutant("forgets at a restart what was decided", just(Forgetful)),
    Mutant("starts an attempt beside the living one", just(Inventive)),
    Mutant("pages nobody", just(without(SendPage))),
    Mutant("kills nothing before it launches", just(without(KillAttempt))),
    Mutant("moves no checkpoint to quarantine", just(without(Quarantine))),
    Mutant("never verifies", just(without(VerifyCheckpoint))),
    Mutant("vouches for what it did not verify", vouches_for_what_it_did_not_verify),
    Mutant("takes its own blindness for silence", just(Sure)),
    Mutant("acts where it should observe", just(Eager)),
    Mutant("undoes settings at a relaunch", just(Undoing)),
)


def policy_for(mutant: Mutant) -> Policy:
    policy = policy_named("demo")
    if not mutant.patient:
        return policy
    playbooks = policy.spec.playbooks | {"restart": (policy.spec.playbooks["restart"][0],) * 60}
    return policy.model_copy(update={"spec": policy.spec.model_copy(update={"playbooks": playbooks})})


def first_caught(policy: Policy, make_engine: MakeEngine, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first seed that breaks an invariant, and the invariant."""
    for seed in seeds:
        result = run_scenario(draw_scenario(seed), policy, UNTIL_S, make_engine, check_fold=False)
        if not result.ok:
            return seed, result.broken
    return None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what.replace(" ", "-"))
def test_a_mutant_is_caught_by_a_drawn_seed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    found = first_caught(policy_for(mutant), mutant.breaks(monkeypatch), range(BASE, BASE + SEEDS))
    assert found is not None, f"one that {mutant.what} passed {SEEDS} seeds"
    seed, invariant = found
    print(f"{mutant.what}: caught by seed {seed}, the {seed - BASE + 1}th: {invariant}")


@pytest.mark.slow
def test_the_patient_policy_breaks_nothing_by_itself() -> None:
    (impatient,) = [mutant for mutant in MUTANTS if mutant.patient]
    assert first_caught(policy_for(impatient), Engine, range(BASE, BASE + SEEDS)) is None
