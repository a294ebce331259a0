"""Another policy on a live run: asked for, read, in force by a fact; and what it means for what is under way."""

from __future__ import annotations

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model import operator_requests as w
from sentinel.model.events import ActionDone, ActionFailed, Tick
from sentinel.model.incidents import IncidentState, Outcome
from sentinel.model.readings import RequestReading
from sentinel.model.records import LoadedPolicy
from sentinel.policy.schema import Policy
from tests.builders import Bench, build_policy

RESUME = {"resume": {"from": "newest"}}
BACK = {"rollback": {"before_onset": "20 steps"}}
SLOW = {**BACK, "lr": "0.5x"}
CALL = {"page": {"severity": "critical"}, "then": "stop_now"}
ASKING = {**RESUME, "approval": {"within": "10m", "otherwise": "deny"}}
DIGEST = "f" * 64


def training(policy: Policy | None = None, steps: int = 60, **more: object) -> Bench:
    bench = Bench(policy, **more).launched()  # type: ignore[arg-type]
    bench.steps(1, steps)
    for step in range(20, steps + 1, 20):
        bench.checkpoint(step)
    return bench


def ask(bench: Bench, path: str = "/p/fix.yaml", note: str = "why") -> str:
    """The key of the action that it leads to; empty where it was refused at once."""
    bench.asked += 1
    bench.tell(RequestReading(f"wish-{bench.asked}", "ada@desk", w.ApplyPolicy(path, DIGEST, note)))
    return next((key for key in bench.state.pending if key.startswith("policy/")), "")


def apply(bench: Bench, policy: Policy) -> Bench:
    """It is read, applied, and the loop begins anew."""
    found = LoadedPolicy("/p/fix.yaml", DIGEST, "fix", "/p/unit.yaml", "0")
    bench.tell(ActionDone(ask(bench), found=found))
    assert bench.engine.is_outdated
    bench.policy, bench.digest = policy, DIGEST
    return bench.start().read_again()


def answer(bench: Bench) -> tuple[bool, str]:
    last = bench.of(f.RequestAnswered)[-1]
    return last.granted, last.answer


def broken(bench: Bench, at: int = 61, rows: int = 1) -> Bench:
    for step in range(at, at + rows):
        bench.step(step, float("nan"))
    return bench


def playbook(*rungs: object) -> Policy:
    return build_policy({"non_finite": list(rungs)})


def test_it_is_on_record_with_who_asked_and_the_engine_before_decides_nothing_more() -> None:
    bench = training()
    found = LoadedPolicy("/p/fix.yaml", DIGEST, "fix", "/p/unit.yaml", "0")
    bench.tell(ActionDone(ask(bench), found=found))
    (applied,) = bench.of(f.PolicyApplied)
    assert applied == f.PolicyApplied(
        "wish-1", "ada@desk", "why", "fix", "/p/fix.yaml", DIGEST, "bench", "0", "/p/unit.yaml", "0", 1, 60
    )
    words = "policy fix (sha256 ffffffffffff) is in force from the next decision on, in the place of bench (sha256 0)"
    assert answer(bench) == (True, words)
    with pytest.raises(AssertionError, match="another policy is in force"):
        bench.engine.handle(bench.now_s, Tick())


def test_the_one_in_force_is_confirmed_and_nothing_changes() -> None:
    bench = training()
    bench.tell(ActionDone(ask(bench), found=LoadedPolicy("/p/fix.yaml", "0", "bench")))
    assert answer(bench) == (True, "policy bench (sha256 0) is in force already")
    assert not bench.engine.is_outdated
    assert not bench.of(f.PolicyApplied)


def test_one_that_may_not_act_is_refused_with_its_sentences() -> None:
    bench = training()
    bench.tell(ActionFailed(ask(bench), "fix.yaml:3: no such rule", None))
    assert answer(bench) == (False, "fix.yaml:3: no such rule\nThe policy in force stays: bench")
    assert not bench.state.pending


def test_a_successor_reads_it_again_where_nobody_has_answered_yet() -> None:
    bench = training()
    key = ask(bench)
    bench.die()
    assert key in bench.state.pending
    bench.tell(ActionDone(key, found=LoadedPolicy("/p/fix.yaml", DIGEST, "fix")))
    assert answer(bench)[0]


def test_a_run_that_is_over_or_being_stopped_takes_no_other() -> None:
    bench = training()
    key = ask(bench)
    bench.wants_stop()
    assert ask(bench) == key, "no other is read"
    assert answer(bench) == (False, "the run is being stopped, by SIGTERM")
    bench.tell(ActionDone(key, found=LoadedPolicy("/p/fix.yaml", DIGEST, "fix")))
    assert answer(bench) == (False, "the run is being stopped, by SIGTERM"), "asked for before that, and read after it"
    assert not bench.engine.is_outdated
    bench.exits(code=0)
    ask(bench)
    assert "its supervisor is leaving: ask again in a minute, or start it with --policy" in answer(bench)[1]


def test_an_observed_run_takes_one_and_pauses_and_holds_go_on() -> None:
    bench = training(build_policy(mode="observe"), observe_only=True)
    assert apply(bench, build_policy(mode="observe")).state.policy_digest == DIGEST
    bench = training()
    bench.asks(w.PauseRun())
    assert apply(bench, build_policy()).state.paused == "ada@desk"
    bench = training()
    bench.asks(w.HoldRun())
    bench.exits(code=0)
    assert bench.state.held
    bench = apply(bench, build_policy())
    assert (bench.state.held != "", len(bench.state.attempts)) == (True, 1), "nothing is launched by it"


def test_the_remedy_on_probation_is_judged_and_the_next_is_the_first_that_did_not_fail() -> None:
    bench = broken(training(playbook(SLOW, BACK, CALL))).launched()
    bench.steps(bench.resumed_from + 1, 60)
    bench = apply(bench, playbook(RESUME, SLOW, CALL))
    (laid,) = bench.of(f.PlaybookChanged) or (None,)
    assert laid is None or laid.rung == 1
    bench = broken(bench)
    assert bench.incident.rung == 2, "behind the rung that stood at 2 of the new playbook comes the page"

    bench = broken(training(playbook(SLOW, BACK, CALL))).launched()
    bench.steps(bench.resumed_from + 1, 60)
    bench = apply(bench, playbook(BACK, {"rollback": {"before_onset": "40 steps"}}, CALL))
    (laid,) = bench.of(f.PlaybookChanged)
    assert laid.rung == -1
    bench.tick()
    assert bench.state.plan is None, "it is on probation: nothing is taken before that is over"
    bench = broken(bench)
    assert bench.incident.tries[-1].remedy.rung == 0
    assert bench.state.plan is not None


def test_what_has_failed_already_is_passed_over_in_a_playbook_that_begins_anew() -> None:
    bench = broken(training(playbook(BACK, SLOW, CALL))).launched()
    bench.steps(bench.resumed_from + 1, 60)
    bench = broken(bench).launched()  # the second rung
    bench.steps(bench.resumed_from + 1, 60)
    third = {"rollback": {"before_onset": "40 steps"}}
    bench = broken(apply(bench, playbook(BACK, third, CALL)))
    outcomes = [(one.remedy.rung, one.outcome) for one in bench.incident.tries]
    assert outcomes[2:] == [(0, Outcome.PASSED_OVER), (1, Outcome.PENDING)]


def test_who_is_asked_reads_what_would_be_done_and_no_word_of_the_policy_behind_it() -> None:
    bench = broken(training(playbook(ASKING, CALL)))
    (asked,) = bench.of(f.ApprovalAsked)
    assert asked.reason == "resume from the checkpoint of step 40, the newest before the open onset at step 60"


def test_an_approval_whose_rung_is_gone_is_void_and_the_playbook_begins() -> None:
    bench = broken(training(playbook(ASKING, CALL)))
    assert bench.incident.awaits_approval
    bench = apply(bench, playbook(BACK, CALL))
    assert not bench.incident.awaits_approval
    bench.tick()
    assert bench.state.plan is not None
    assert bench.incident.last_try is not None
    assert bench.incident.last_try.remedy.words == ("rollback",)


def test_an_approval_goes_on_waiting_where_the_rung_is_still_there() -> None:
    bench = broken(training(playbook(ASKING, CALL)))
    deadline_s = bench.incident.approval.deadline_s  # type: ignore[union-attr]
    bench = apply(bench, playbook(BACK, ASKING, CALL))
    waits = bench.incident.approval
    assert waits is not None
    assert (waits.rung, waits.deadline_s, bench.incident.awaits_approval) == (1, deadline_s, True)
    bench.tick()
    assert bench.state.plan is None
    assert bench.asks(w.Approve(1)).granted
    assert bench.incident.tries[-1].remedy.rung == 1


def test_without_a_rule_a_run_that_trains_trains_on_and_one_that_does_not_fails_with_a_page() -> None:
    silent = build_policy(rules=[{"alert": "Other", "on": "plateau", "labels": {"severity": "info"}}])
    bench = broken(training(playbook(ASKING, CALL)))
    bench = apply(bench, silent)
    bench.tick()
    assert bench.incident.state is IncidentState.EXHAUSTED
    assert bench.incident.verdict.endswith("has a playbook for it: nothing more is tried, and training goes on")
    assert not bench.state.giving_up

    bench = training(build_policy({"restart": [ASKING, CALL]}))
    bench.exits(code=1)
    assert bench.incident.awaits_approval
    bench = apply(bench, silent)
    bench.tick()
    assert bench.state.ended == "failed"
    assert bench.of(f.PageRaised)


def test_a_recovery_under_way_is_carried_out_as_it_was_decided() -> None:
    bench = broken(training(playbook(SLOW, CALL)))
    before = next(x for x in bench.state.plan.actions if isinstance(x, a.StartAttempt))  # type: ignore[union-attr]
    bench = apply(bench, playbook(BACK, CALL))
    bench.tick()
    assert "the recovery under way is carried out as it was decided" in answer(bench)[1]
    assert next(x for x in bench.state.plan.actions if isinstance(x, a.StartAttempt)) == before  # type: ignore[union-attr]
    assert bench.launched().state.incidents[0].state is IncidentState.PROBATION
