"""Which checkpoints are given up: the rule alone, on checkpoints with their words."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sentinel.model.attempts import SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState
from sentinel.model.state import Attempt, Checkpoint, PlanInProgress, RunState
from sentinel.plan.retention import (
    Retained,
    RetentionRule,
    choose_anchor,
    choose_to_prune,
    judge_retention,
    rule_of,
    why_not_now,
)
from sentinel.plan.trust import Trust, Word
from tests.builders import build_policy

NEAR = RetentionRule(last=2, every_steps=None, reach_steps=0)


def trust(step: int, word: Word = "proven", **more: object) -> Trust:
    """One that was read whole and held, unless `more` says otherwise."""
    read = Checkpoint(step, f"checkpoints/step-{step:08d}", 1, step, f"d{step}", verified="x", is_remembered=True)
    found = replace(read, **more)  # type: ignore[arg-type]
    return Trust(found, word, "x")


def judge(trusts: list[Trust], rule: RetentionRule = NEAR, began_with: int = 0) -> tuple[Retained, ...]:
    """Of a run that was seen to come as far as its newest checkpoint."""
    return judge_retention(trusts, rule, began_with, max((t.checkpoint.step for t in trusts), default=0))


def pruned(trusts: list[Trust], rule: RetentionRule = NEAR, began_with: int = 0) -> list[int]:
    return [r.checkpoint.step for r in judge(trusts, rule, began_with) if r.prune]


def kept_because(trusts: list[Trust], rule: RetentionRule = NEAR, began_with: int = 0) -> dict[int, str]:
    return {r.checkpoint.step: r.reason for r in judge(trusts, rule, began_with) if not r.prune}


def proven(*steps: int) -> list[Trust]:
    return [trust(step) for step in steps]


def test_the_newest_good_ones_stay_and_each_of_the_others_says_why_it_goes() -> None:
    trusts = proven(10, 20, 30, 40)
    assert pruned(trusts) == [10, 20]
    assert kept_because(trusts) == {30: "one of the newest 2", 40: "one of the newest 2"}
    assert judge(trusts, NEAR, 0)[0].reason == "older than the newest 2, out of reach of any rollback"


def test_a_multiple_stays_for_ever() -> None:
    assert pruned(proven(10, 20, 30, 40, 50), RetentionRule(2, 20, 0)) == [10, 30]


@pytest.mark.parametrize(
    ("word", "more"),
    [
        ("suspect", {"condemned": "failed alike", "evidence": "failures"}),
        ("damaged", {"condemned": "sha256", "damaged": True}),
        ("suspect", {}),
    ],
)
def test_what_is_not_good_does_not_count_as_one_of_the_newest(word: Word, more: dict[str, object]) -> None:
    assert pruned([*proven(10, 20, 30), trust(40, word, **more)]) == [10]


def test_what_is_condemned_is_evidence_and_stays() -> None:
    bad = trust(5, "damaged", condemned="sha256", damaged=True)
    assert pruned([bad, *proven(10, 20, 30)]) == [10]


def test_nothing_younger_than_the_newest_that_is_trusted_goes_nor_that_one() -> None:
    young = [trust(step, "candidate") for step in (30, 40, 50, 60)]
    assert pruned([*proven(10, 20), *young]) == [10]
    assert pruned([trust(10, "candidate"), *young]) == [], "nobody knows yet how good any of them is"
    seen = [*proven(10, 20), trust(30, "verified"), *young[1:]]
    assert kept_because(seen)[20] == "the newest that is proven"
    assert kept_because(seen)[30] == "the newest that is trusted"
    assert pruned(seen) == [10]


def test_what_the_newest_attempt_began_with_stays() -> None:
    assert pruned(proven(10, 20, 30, 40), began_with=10) == [20]


def test_whatever_the_deepest_rollback_reaches_stays_with_one_at_or_below_it() -> None:
    trusts = proven(*range(10, 110, 10))
    assert pruned(trusts, RetentionRule(2, None, 35)) == [10, 20, 30, 40, 50], "from 100 it goes back to 65, and finds 60"
    assert pruned(trusts, RetentionRule(2, None, 40)) == [10, 20, 30, 40, 50]
    assert pruned(trusts, RetentionRule(2, None, 500)) == []


def test_a_checkpoint_without_a_digest_on_record_stays() -> None:
    assert pruned([trust(10, digest=None), *proven(20, 30, 40)]) == [20]


def test_what_was_moved_aside_or_deleted_is_not_judged() -> None:
    assert {r.checkpoint.step for r in judge([trust(5, "quarantined"), trust(6, "pruned"), *proven(10)], NEAR, 0)} == {
        10
    }


def test_what_training_was_let_go_on_with_is_counted_by_itself() -> None:
    let_go = [trust(step, "suspect") for step in (50, 60, 70, 80)]
    assert pruned([*proven(10, 20, 30), *let_go]) == [10, 50, 60], "of either kind the newest two stay"


def test_the_oldest_goes_first_and_what_could_not_be_deleted_comes_last() -> None:
    judged = judge([trust(10, unpruned_s=7.0), *proven(20, 30, 40, 50)], NEAR, 0)
    assert choose_to_prune(judged) == Retained(judged[1].checkpoint, True, judged[1].reason, "checkpoints/step-00000050")
    assert choose_to_prune(judge(proven(10, 20), NEAR, 0)) is None


def test_any_run_keeps_what_it_must() -> None:
    seed = 5
    dice = random.Random(seed)
    words: tuple[Word, ...] = ("candidate", "verified", "proven", "suspect")
    for number in range(500):
        trusts = [trust(step, dice.choice(words)) for step in sorted(dice.sample(range(1, 400), dice.randint(1, 30)))]
        rule = RetentionRule(dice.randint(2, 5), dice.choice((None, 7, 50)), dice.choice((0, 20, 150)))
        began = dice.choice(trusts).checkpoint.step
        left = [t for t in trusts if t.checkpoint.step not in pruned(trusts, rule, began)]
        good = [t for t in trusts if t.word != "suspect"]
        assert good[-rule.last :] == [t for t in left if t.word != "suspect"][-rule.last :], (seed, number)
        assert all(t in left for t in trusts if rule.every_steps and t.checkpoint.step % rule.every_steps == 0), (seed, number)
        assert any(t.checkpoint.step == began for t in left), (seed, number)
        best = max((t.checkpoint.step for t in good if t.word == "proven"), default=0)
        assert not best or any(t.checkpoint.step == best for t in left), (seed, number)
        assert pruned(left, rule, began) == [], "what is left is left for good"


# What nobody has read is no reason to delete what was read.


def unread(*steps: int) -> list[Trust]:
    return [trust(step, verified="", is_remembered=False) for step in steps]


def test_nothing_goes_while_none_of_those_that_stay_was_read_whole() -> None:
    assert pruned(unread(10, 20, 30, 40, 50)) == [], "proven only says that training went on past them"
    assert kept_because(unread(10, 20, 30, 40, 50))[10] == "no younger one was read whole yet"


def test_the_newest_that_was_read_stays_with_all_younger_however_many_follow() -> None:
    trusts = [*proven(10, 20), *unread(*range(30, 200, 10))]
    assert pruned(trusts) == []
    assert pruned([*proven(5, 10, 20), *unread(*range(30, 200, 10))]) == [5], "and as many of the read ones as are to stay"
    why = kept_because(trusts)
    assert (why[10], why[20]) == ("one of the newest 2 that were read whole and held", "the newest that was read whole and held")
    assert why[30] == "younger than the newest that was read whole and held, that of step 20"


def test_what_is_damaged_counts_as_none_of_those_that_were_read() -> None:
    bad = [trust(step, "damaged", condemned="zeros", damaged=True) for step in (30, 40, 50, 60)]
    assert pruned([*proven(10, 20), *bad]) == []


def test_one_that_was_verified_and_not_remembered_is_none_that_was_read() -> None:
    """What `verify: full` read before a resume is not remembered: whether it still is so nobody knows without reading."""
    assert pruned([*unread(10, 20, 30), trust(40, is_remembered=False)]) == []


def anchor(trusts: list[Trust], skip: int = 0) -> int | None:
    seen = max(t.checkpoint.step for t in trusts)
    then = judge_retention(trusts, NEAR, 0, seen, as_if_read=True)
    found = choose_anchor(judge(trusts), then, skip)
    return None if found is None else found.step


def test_where_only_reading_is_missing_the_newest_that_nobody_else_reads_is_read() -> None:
    assert anchor(unread(10, 20, 30, 40)) == 40
    assert anchor(unread(10, 20, 30, 40), skip=1) == 30
    assert anchor([*unread(10), *proven(20), *unread(30)]) is None, "the unread one goes for that of step 20"
    assert anchor([*proven(10), *unread(20, 30)]) == 30, "that of step 10 would go, had a younger one been read"
    assert anchor(proven(10, 20, 30, 40)) is None
    assert anchor(unread(10, 20)) is None, "nothing would go"
    assert anchor([*proven(10, 20), *unread(30), trust(40, "damaged", condemned="zeros", damaged=True)]) == 30


# When.


def training() -> RunState:
    attempt = Attempt(1, 0.0, None, SettingsInForce(), "x", first_step=1)
    return RunState(attempts=(attempt,))


def test_a_healthy_run_may_lose_checkpoints() -> None:
    assert why_not_now(training()) == ""


@pytest.mark.parametrize("state", [IncidentState.OPEN, IncidentState.PROBATION])
@pytest.mark.parametrize("kind", [Kind.SPIKE, Kind.CRASH])
def test_nothing_goes_while_an_incident_is_open_or_in_probation(state: IncidentState, kind: Kind) -> None:
    incident = Incident(3, kind, "critical", "A", "p", 1, 5, 6, 6, 0.0, 0.0, "x", state)
    assert why_not_now(replace(training(), incidents=(incident,))) == f"incident 3 ({kind}) is in {state}"
    assert why_not_now(replace(training(), incidents=(replace(incident, state=IncidentState.RECOVERED),))) == ""


@pytest.mark.parametrize(
    "more",
    [
        {"observe_only": True}, {"paused": "ada"}, {"ended": "finished"}, {"held": "x"}, {"hold_by": "ada"}, {"stop_by": "ada"},
        {"giving_up": "hold"}, {"plan": PlanInProgress(None, ())}, {"blind": {"metrics": "gone"}},
        {"blind": {"checkpoints": "x"}}, {"attempts": ()},
    ],
)  # fmt: skip
def test_nothing_goes_unless_the_run_simply_trains(more: dict[str, object]) -> None:
    assert why_not_now(replace(training(), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [{"ended_s": 1.0}, {"stopping": "x"}, {"first_step": None}])
def test_nothing_goes_before_the_first_step_of_an_attempt_or_at_its_end(more: dict[str, object]) -> None:
    (attempt,) = training().attempts
    assert why_not_now(replace(training(), attempts=(replace(attempt, **more),))) == "no attempt trains"  # type: ignore[arg-type]


def test_the_reach_is_the_deepest_rollback_and_what_an_onset_is_dated_back() -> None:
    assert rule_of(build_policy()) is None
    found = rule_of(build_policy(checkpoints={"retain": {"last": 3, "every": "1000 steps"}}))
    assert found == RetentionRule(3, 1000, 40 + 500), "20 steps before the onset, then twice as far; onset_lookback is 500 steps"


def test_the_reach_counts_from_the_newest_step_seen_where_that_is_less_than_the_newest_checkpoint() -> None:
    trusts = proven(*range(100, 1100, 100))
    far = RetentionRule(1, None, 300)
    assert [r.checkpoint.step for r in judge_retention(trusts, far, 0, 1000) if r.prune] == [100, 200, 300, 400, 500, 600]
    assert [r.checkpoint.step for r in judge_retention(trusts, far, 0, 720) if r.prune] == [100, 200, 300]


def test_where_no_step_is_known_to_have_been_seen_nothing_goes() -> None:
    judged = judge_retention(proven(10, 20, 30, 40), NEAR, 0, None)
    assert not any(r.prune for r in judged)
    assert "is not known" in judged[0].reason


def test_what_is_ahead_of_every_step_seen_stays_and_costs_none_of_the_others() -> None:
    ahead = replace(trust(900000, "suspect"), is_ahead=True)
    far = RetentionRule(1, None, 300)
    before = list(judge_retention(proven(*range(100, 1100, 100)), far, 0, 1000))
    after = judge_retention([*proven(*range(100, 1100, 100)), ahead], far, 0, 1000)
    assert list(after[:-1]) == before
    assert not after[-1].prune
    assert "ahead of every step seen" in after[-1].reason
