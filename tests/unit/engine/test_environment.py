"""What an attempt runs, against what ran before it: on record at every launch, a difference is judged by policy."""

from __future__ import annotations

from dataclasses import replace

from sentinel.model import facts as f
from sentinel.model.environment import Environment
from sentinel.model.events import ActionDone
from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import load_policy, shipped_policy_path
from sentinel.sim.program_changes import CHANGES, PROGRAM
from tests.builders import Bench


def launched(bench: Bench, found: Environment) -> None:
    """The plan under way to its end, whose start found this."""
    while bench.state.plan is not None:
        key = bench.state.plan.actions[bench.state.plan.next].key
        if key.startswith("start/"):
            bench.tell(ActionDone(key, "alive", found))
            bench.stream = []
        else:
            bench.done(key)


def crashed(first: Environment, then: Environment, policy: Policy | None = None) -> Bench:
    bench = Bench(policy or load_policy(shipped_policy_path("demo"))).start()
    launched(bench, first)
    bench.receipt().steps(1, 60).checkpoint(50)
    bench.exits(signal=9)
    launched(bench, then)
    return bench


def kinds(bench: Bench) -> list[Kind]:
    return [incident.kind for incident in bench.state.incidents]


def test_the_same_again_is_on_record_without_its_lists() -> None:
    bench = crashed(PROGRAM, PROGRAM)
    assert [(fact.attempt, fact.environment is None, fact.changes) for fact in bench.of(f.EnvironmentRead)] == [
        (1, False, ()), (2, True, ()),
    ]  # fmt: skip
    assert kinds(bench) == [Kind.CRASH]


def test_a_change_is_a_finding_dated_at_the_launch_and_training_goes_on() -> None:
    bench = crashed(PROGRAM, CHANGES["library"])
    assert kinds(bench) == [Kind.CRASH, Kind.ENVIRONMENT_CHANGED]
    told = bench.state.incidents[-1]
    assert told.reason == "attempt 2 does not run what ran before it: torch 2.13.0 → 2.14.0"
    assert (told.state, told.detected_step, told.onset_step, told.attempt) == (IncidentState.EXHAUSTED, 50, None, 2)
    assert any(key.startswith(f"page/{told.id}/") for key in bench.state.pending)
    assert bench.state.label != "held"
    assert bench.state.attempts[-1].changes == ("torch 2.13.0 → 2.14.0",)


def test_a_cautious_policy_holds_and_a_person_accepts_what_runs() -> None:
    from sentinel.model import operator_requests as w

    bench = crashed(PROGRAM, CHANGES["code"], load_policy(shipped_policy_path("cautious")))
    assert bench.state.giving_up == "hold"
    bench.done("kill/2").exits(signal=9)
    assert bench.state.held
    assert bench.asks(w.ResumeRun()).granted
    launched(bench, CHANGES["code"])
    assert kinds(bench).count(Kind.ENVIRONMENT_CHANGED) == 1
    assert bench.state.label == "recovering"


def test_what_cannot_be_read_is_unknown_and_the_next_known_is_compared_with_the_last_known() -> None:
    bench = crashed(PROGRAM, CHANGES["unread"])
    assert kinds(bench) == [Kind.CRASH]
    assert bench.state.attempts[-1].unread == CHANGES["unread"].unknown
    assert bench.state.environment == replace(PROGRAM, unknown=CHANGES["unread"].unknown)
    bench.receipt().steps(51, 70)
    bench.exits(signal=9)
    launched(bench, CHANGES["library"])
    assert kinds(bench)[-1] == Kind.ENVIRONMENT_CHANGED


def test_without_a_rule_it_is_recorded_and_a_restarted_supervisor_says_it_once() -> None:
    policy = load_policy(shipped_policy_path("demo"))
    rules = tuple(rule for rule in policy.spec.rules if rule.on != "environment_changed")
    bench = crashed(PROGRAM, CHANGES["code"], policy.model_copy(update={"spec": policy.spec.model_copy(update={"rules": rules})}))
    recorded = [fact for fact in bench.of(f.FindingRecorded) if fact.finding.kind is Kind.ENVIRONMENT_CHANGED]
    assert [(fact.finding.severity, fact.became) for fact in recorded] == [("info", None)]
    bench.die()
    assert len(bench.of(f.EnvironmentRead)) == 2


def test_a_launch_that_is_being_stopped_is_not_judged() -> None:
    bench = Bench(load_policy(shipped_policy_path("demo"))).start()
    launched(bench, PROGRAM)
    bench.receipt().steps(1, 60).checkpoint(50)
    bench.exits(signal=9)
    while not (key := bench.state.plan.actions[bench.state.plan.next].key).startswith("start/"):
        bench.done(key)
    bench.wants_stop()
    bench.tell(ActionDone(key, "alive", CHANGES["code"]))
    assert kinds(bench) == [Kind.CRASH]
    assert "being stopped" in bench.of(f.FindingRecorded)[-1].reason


def test_a_command_that_a_person_has_changed_is_on_record_and_told_at_its_first_launch_alone() -> None:
    bench = Bench(load_policy(shipped_policy_path("demo")))
    launched(bench, PROGRAM)
    bench.receipt().steps(1, 60).checkpoint(60)
    bench.wants_stop()
    bench.exits(code=6)
    bench.command = ("train", "--ranks", "2")
    bench.die()
    (changed,) = bench.of(f.CommandChanged)
    assert (changed.before, changed.command) == (("train",), ("train", "--ranks", "2"))
    launched(bench, PROGRAM)
    assert bench.state.attempts[-1].resume is not None
    assert bench.state.attempts[-1].resume.step == 60
    assert kinds(bench) == [Kind.ENVIRONMENT_CHANGED]
    assert "the command: --ranks 2 added" in bench.state.incidents[-1].reason
    bench.receipt().steps(61, 70)
    bench.exits(signal=9)
    launched(bench, PROGRAM)
    assert kinds(bench) == [Kind.ENVIRONMENT_CHANGED, Kind.CRASH]
    bench.die()
    assert len(bench.of(f.CommandChanged)) == 1
