"""Engines broken on purpose: each is caught by an invariant within a few seeds. A simulator that passes these proves nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

import pytest

from sentinel.engine import Engine
from sentinel.engine.decision import Decision
from sentinel.engine.relaunching import relaunch
from sentinel.model.actions import SendPage, VerifyCheckpoint
from sentinel.model.events import ActionFailed, Event
from sentinel.model.facts import ActionDecided, Entry, Fact, PlanDropped
from sentinel.plan.checkpoint_validation import NumbersVerdict
from sentinel.plan.rollback import RollbackTarget
from sentinel.policy.budget import BudgetVerdict
from sentinel.sim.faults import parse_fault
from sentinel.sim.invariant_broken import InvariantBroken
from sentinel.sim.run import MakeEngine, SimulationResult, run_scenario, run_seed
from sentinel.sim.scenarios import Scenario
from tests.sim.kit import SHORT, policy_named, simulate

BASE = 20261120


def caught(seeds: Iterable[int], make_engine: MakeEngine = Engine) -> set[str]:
    """Names of the invariants that these seeds break."""
    results = [run_seed(seed, policy_named("demo"), make_engine=make_engine) for seed in seeds]
    return {result.broken.partition(":")[0] for result in results if not result.ok}


def newest_whatever_the_onset(checkpoints: Iterable[object], *_: object) -> RollbackTarget:
    found = max(checkpoints, key=lambda c: c.step, default=None)  # type: ignore[attr-defined]
    return RollbackTarget(found, "the newest")  # type: ignore[arg-type]


def test_one_that_resumes_from_the_newest_ignoring_the_onset(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("sentinel.plan.remedy", "sentinel.engine.attempts", "sentinel.engine.another_checkpoint"):
        monkeypatch.setattr(f"{place}.choose_newest", newest_whatever_the_onset)
    monkeypatch.setattr("sentinel.plan.remedy.choose_before", newest_whatever_the_onset)
    assert "never resume from at or after the onset" in caught(range(BASE, BASE + 40))


def test_and_the_worlds_own_truth_catches_it_where_the_journal_could_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its eye for the journal's own onset the inspector still sees the damage in the weights."""
    monkeypatch.setattr("sentinel.plan.remedy.choose_before", newest_whatever_the_onset)
    monkeypatch.setattr("sentinel.sim.invariants.Inspector._judge_launch", lambda *_: None)
    result = simulate("bad_data@sample=1600-2000:heals=never", shape=replace(SHORT, checkpoint_every=2, save_s=0.1))
    assert result.broken.startswith("never resume from at or after the onset: attempt 2 resumed from step")


class Forgetful(Engine):
    """Forgets at its start what was decided and not yet confirmed, and begins afresh."""

    def restore(self, entries: Iterable[Entry]) -> None:
        super().restore(entries)
        self.state = replace(self.state, pending=MappingProxyType({}), plan=None)


def test_one_that_forgets_what_was_decided_when_it_restarts() -> None:
    names = {
        simulate_with(Forgetful, "kill@step=100", f"supervisor_kill@effect={at}:for=5,side=before").broken.partition(":")[0]
        for at in range(1, 6)
    }
    assert names - {""}


class Inventive(Engine):
    """Does not know after a restart that an attempt was launched, and launches its own."""

    def restore(self, entries: Iterable[Entry]) -> None:
        super().restore(entries)
        ended = tuple(replace(attempt, ended_s=0.0, outcome="lost") for attempt in self.state.attempts)
        self.state = replace(self.state, attempts=ended, pending=MappingProxyType({}), plan=None)


def test_one_that_starts_a_second_attempt_beside_the_living_one() -> None:
    assert "never two live attempts" in caught(range(BASE, BASE + 60), Inventive)


def test_one_that_restarts_without_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.engine.ladder.judge_budget", lambda *_, **__: BudgetVerdict(True, 0.0, "as often as you like"))
    policy = policy_named("demo")
    patient = policy.spec.playbooks | {"restart": (policy.spec.playbooks["restart"][0],) * 60}
    endless = policy.model_copy(update={"spec": policy.spec.model_copy(update={"playbooks": patient})})
    scenario = Scenario(1, SHORT, (parse_fault("crash@step=60:always"),))
    assert run_scenario(scenario, endless, 4 * 3600.0).broken.startswith("restart budget")


class Silent(Engine):
    """Never calls anybody."""

    def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
        facts = super().handle(now_s, event)
        return tuple(fact for fact in facts if not (isinstance(fact, ActionDecided) and isinstance(fact.action, SendPage)))


def test_one_that_pages_nobody() -> None:
    broken = simulate_with(Silent, "crash@step=60:always", check_fold=False).broken
    assert broken.startswith("recovered, or paged before the deadline")


def test_one_whose_journal_does_not_say_what_it_believes() -> None:
    assert simulate_with(Silent, "crash@step=60:always").broken.startswith("same journal, same state")


def test_one_that_calls_its_own_blindness_a_hang() -> None:
    class Sure(Engine):
        def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
            blind, self.state = self.state.blind, replace(self.state, blind=MappingProxyType({}))
            facts = super().handle(now_s, event)
            self.state = replace(self.state, blind={**blind, **self.state.blind})
            return facts

    blind = [f"blind@time=20:source={source},for=50" for source in ("metrics", "heartbeats")]
    broken = simulate_with(Sure, *blind, check_fold=False).broken
    assert broken.startswith("a blind supervisor kills no healthy job")


def test_one_that_acts_while_it_should_only_observe() -> None:
    class Eager(Engine):
        def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
            self.state = replace(self.state, observe_only=False)
            return super().handle(now_s, event)

    broken = simulate_with(Eager, "kill@step=60", observe_only=True, check_fold=False).broken
    assert broken.startswith("observe only changes nothing")


def test_one_that_takes_a_read_error_for_damage_and_starts_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty(Engine):
        def handle(self, now_s: float, event: Event) -> tuple[Fact, ...]:
            if isinstance(event, ActionFailed) and event.key.startswith("verify"):
                event = replace(event, retry_in_s=None)
            return super().handle(now_s, event)

    def scratch(decision: Decision, action: VerifyCheckpoint, damage: str) -> None:
        decision.record(PlanDropped(damage))
        relaunch(decision, decision.state.incidents[-1].id, None, decision.state.overrides, 0.0, "start from scratch")

    monkeypatch.setattr("sentinel.engine.another_checkpoint._again_without", scratch)
    broken = simulate_with(Hasty, "kill@step=100", "unreadable@time=30:for=900").broken
    assert broken.startswith("never from scratch for nothing: the checkpoint of step 80 is whole")


def test_one_that_believes_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel.engine.action_results.judge_numbers", lambda saved: NumbersVerdict("", "believed"))
    for seen in ("norm", "finite"):
        broken = simulate_with(Engine, f"bad_numbers@step=80:seen={seen}", "kill@step=90").broken
        said = f"attempt 2 resumed from step 80, which is damaged ({seen})"
        assert broken.startswith(f"never resume from what is not trusted: {said}")


def test_one_that_resumes_from_what_its_own_journal_condemned(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("sentinel.plan.remedy", "sentinel.engine.another_checkpoint"):
        monkeypatch.setattr(f"{place}.choose_newest", newest_whatever_the_onset)
    broken = simulate_with(Engine, "bad_resume@step=80", "kill@step=90").broken
    said = "attempt 4 is to resume at step 80, which was passed over: attempts 2 and 3"
    assert broken.startswith(f"never resume from what is not trusted: {said}")


def simulate_with(engine: MakeEngine, *faults: str, observe_only: bool = False, check_fold: bool = True) -> SimulationResult:
    scenario = Scenario(1, SHORT, tuple(parse_fault(text) for text in faults), observe_only=observe_only)
    return run_scenario(scenario, policy_named("demo"), 4 * 3600.0, engine, check_fold)


def test_a_broken_invariant_has_a_name() -> None:
    assert InvariantBroken("a rule", "what was seen").name == "a rule"
