"""Causes inhibit symptoms: the table over kinds, and what joining does to the ladder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sentinel.detectors.registry import KINDS
from sentinel.engine import ladder
from sentinel.engine.causes import BY_KINDS, LATE_S, LINKS, explain, is_cause_of
from sentinel.engine.decision import Decision
from sentinel.model import facts as f
from sentinel.model.findings import Finding, Kind
from sentinel.model.incidents import Incident, IncidentState, Outcome
from sentinel.policy.schema import Rung
from tests.builders import RESTART, Bench, build_policy

RESUME = Rung.model_validate({"resume": {"from": "newest"}})
PAGE: dict[str, Any] = {"page": {"severity": "critical"}, "then": "stop_now"}
RULES = [
    {"alert": name, "on": name, "labels": {"severity": "critical"}, "playbook": book}
    for name, book in [("gpu_fault", "gpu"), ("straggler", "gpu"), ("slowdown", "gpu"), ("hang", "restart"), ("crash", "restart"),
                       ("non_finite", "non_finite"), ("stale_checkpoint", "restart")]
]  # fmt: skip


def found(kind: Kind, attempt: int = 1, step: int = 30, onset: int | None = None) -> Finding:
    return Finding(kind, "critical", attempt, onset, step, 0.0, f"a {kind}")


def incident(kind: Kind, number: int = 1, attempt: int = 1, detected_s: float = 100.0) -> Incident:
    return Incident(number, kind, "critical", "A", "p", attempt, None, 30, 30, detected_s, detected_s, "why")


def bench_with(gpu: list[dict[str, Any]], observe_only: bool = False) -> Bench:
    policy = build_policy(playbooks={"gpu": gpu, "restart": RESTART}, rules=RULES)
    bench = Bench(policy, observe_only=observe_only).launched()
    return bench.steps(1, 30)


def consider(bench: Bench, finding: Finding) -> None:
    """What the engine does with the finding of a detector that this bench does not have."""
    engine = bench.engine
    decision = Decision(engine.state, bench.now_s, engine.policy, engine.detectors, engine._live)
    ladder.consider(decision, finding)
    engine.state = bench.folded = decision.state
    bench.entries += [f.Entry(len(bench.entries) + n, bench.now_s, 1, fact) for n, fact in enumerate(decision.facts, 1)]


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link.cause}-{link.symptom}")
def test_a_symptom_is_explained_within_its_distance_and_attempt_only(link: Any) -> None:
    cause, symptom = incident(link.cause), found(link.symptom)
    late_s = 100.0 + link.within_s
    known = explain(symptom, [cause], {1: [RESUME]}, late_s)
    assert known is not None
    assert known.joins == (not link.cause.is_numeric and not link.symptom.is_numeric)
    assert f"symptom of incident 1 ({link.cause})" in known.reason
    assert explain(symptom, [cause], {1: [RESUME]}, late_s + 1.0) is None
    assert explain(replace(symptom, attempt=2), [cause], {1: [RESUME]}, late_s) is None


def test_nothing_explains_itself_and_the_table_has_no_pair_twice() -> None:
    assert len(BY_KINDS) == len(LINKS)
    assert not [link for link in LINKS if link.cause is link.symptom]
    assert explain(found(Kind.DRIFT), [incident(kind) for kind in KINDS], {}, 100.0) is None


def test_a_death_does_not_join_a_cause_whose_playbook_relaunches_nothing() -> None:
    for kind in (Kind.CRASH, Kind.HANG):
        known = explain(found(kind), [incident(Kind.GPU_FAULT)], {1: [Rung.model_validate(PAGE)]}, 110.0)
        assert known is not None
        assert not known.joins
        assert "relaunches nothing" in known.reason


def test_a_closed_cause_is_named_and_not_joined() -> None:
    cause = replace(incident(Kind.GPU_FAULT), state=IncidentState.EXHAUSTED)
    known = explain(found(Kind.SLOWDOWN), [cause], {1: [RESUME]}, 110.0)
    assert known is not None
    assert (known.joins, "exhausted already" in known.reason) == (False, True)


def test_the_newest_cause_explains() -> None:
    causes = [incident(Kind.GPU_FAULT, 1), incident(Kind.STRAGGLER, 2)]
    known = explain(found(Kind.SLOWDOWN), causes, {}, 110.0)
    assert known is not None
    assert known.incident.id == 2


def test_a_cause_found_late_is_said_to_be_one() -> None:
    known = is_cause_of(found(Kind.GPU_FAULT), [incident(Kind.HANG)], 112.0)
    assert known is not None
    assert known.reason.startswith("cause of incident 1 (hang), found 12 s after it")
    assert is_cause_of(found(Kind.GPU_FAULT), [incident(Kind.HANG)], 101.0 + LATE_S) is None


def test_a_slowdown_under_a_sick_gpu_joins_and_takes_no_rung() -> None:
    bench = bench_with([{"resume": {"from": "newest"}}, PAGE], observe_only=True)
    consider(bench, found(Kind.GPU_FAULT))
    tries = bench.incident.tries
    consider(bench, found(Kind.SLOWDOWN, step=31))
    assert [i.kind for i in bench.state.incidents] == [Kind.GPU_FAULT]
    record = bench.of(f.FindingRecorded)[-1]
    assert record.became == 1
    assert record.reason == "symptom of incident 1 (gpu_fault): everybody waits for the slow GPU"
    assert bench.incident.tries == tries


def test_a_crash_under_a_sick_gpu_takes_the_next_rung_of_its_playbook() -> None:
    bench = bench_with([{"resume": {"from": "newest"}}, {"resume": {"from": "newest"}}, PAGE], observe_only=True)
    consider(bench, found(Kind.GPU_FAULT))
    bench.exits(signal=9)
    assert [i.kind for i in bench.state.incidents] == [Kind.GPU_FAULT]
    assert [t.outcome for t in bench.incident.tries] == [Outcome.OBSERVED] * 2


def test_a_crash_after_non_finite_values_is_restarted_on_its_own_and_says_what_it_may_be_of() -> None:
    bench = bench_with([PAGE], observe_only=True)
    consider(bench, found(Kind.NON_FINITE, onset=29))
    bench.exits(signal=9)
    assert [i.kind for i in bench.state.incidents] == [Kind.NON_FINITE, Kind.CRASH]
    assert "symptom of incident 1 (non_finite)" in bench.incident.reason


def test_a_crash_under_a_cause_that_only_told_somebody_is_restarted_by_its_own_playbook() -> None:
    bench = bench_with([{"page": {"severity": "warning"}, "then": "keep_training"}])
    consider(bench, found(Kind.GPU_FAULT))
    bench.exits(signal=9)
    assert [i.kind for i in bench.state.incidents] == [Kind.GPU_FAULT, Kind.CRASH]
    assert "symptom of incident 1 (gpu_fault)" in bench.incident.reason
    assert bench.state.plan is not None


def test_a_sick_gpu_found_while_the_hang_is_being_repaired_is_a_member_of_it() -> None:
    bench = bench_with([{"resume": {"from": "newest"}}, PAGE])
    bench.beat("forward", 30).tick(400)
    assert bench.state.plan is not None
    consider(bench, found(Kind.GPU_FAULT))
    record = bench.of(f.FindingRecorded)[-1]
    assert record.became == 1
    assert record.reason.startswith("a recovery is already under way; cause of incident 1 (hang)")
    assert len(bench.state.incidents) == 1
    assert bench.incident.tries[-1].outcome is Outcome.PENDING


def test_a_sick_gpu_found_after_its_straggler_acts_on_its_own() -> None:
    bench = bench_with([{"resume": {"from": "newest"}}, PAGE], observe_only=True)
    consider(bench, found(Kind.STRAGGLER))
    consider(bench, found(Kind.GPU_FAULT))
    assert [i.kind for i in bench.state.incidents] == [Kind.STRAGGLER, Kind.GPU_FAULT]
    assert "cause of incident 1 (straggler)" in bench.incident.reason
