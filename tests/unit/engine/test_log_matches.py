"""Patterns of a policy over logs: while training goes on they tell or page; of an attempt that died they say the class of the
crash, leave the node out, and forbid a relaunch."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'training-sentinel[logs]'")

from sentinel.client.masking import Masking
from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.findings import Kind
from sentinel.model.incidents import IncidentState
from sentinel.model.readings import Heartbeat, LogMatch
from tests.builders import Bench, build_policy

ECC = {"name": "Ecc", "match": r"ECC error on GPU (?P<gpu>\d+)", "class": "sick GPU {{ gpu }}"}
RESUME = {"resume": {"from": "newest"}}
PLAYBOOK = [RESUME, RESUME, {"page": {"severity": "critical"}, "then": "stop_now"}]


def bench_with(*logs: dict[str, Any], excludes: bool = False, **more: Any) -> Bench:
    bench = Bench(build_policy(playbooks={"restart": PLAYBOOK}, logs=list(logs)), **more)
    bench.capabilities = (*bench.capabilities, "exclude") if excludes else bench.capabilities
    bench.die().launched()
    for rank, host in ((0, "n0"), (1, "n1")):
        bench.tell(Heartbeat(1, rank, 1, "forward", bench.now_s, host=host))
    return bench.steps(1, 20)


def found(bench: Bench, name: str = "Ecc", rank: int | None = 1, line: str = "ECC error on GPU 5", **more: Any) -> Bench:
    bench.tell(LogMatch(bench.number, name, rank, line, (("gpu", "5"),), **more))
    return bench


def paged(bench: Bench) -> list[str]:
    return [page.severity for page in bench.decided(a.SendPage)]


def test_a_match_is_recorded_once_for_an_attempt_and_changes_nothing() -> None:
    bench = found(found(bench_with(ECC)), rank=0)
    (fact,) = bench.of(f.LogMatched)
    assert (fact.attempt, fact.name, fact.rank, fact.step, fact.groups) == (1, "Ecc", 1, 20, (("gpu", "5"),))
    assert bench.state.incidents == ()
    assert paged(bench) == []
    found(bench.die())
    assert len(bench.of(f.LogMatched)) == 1, "another supervisor reads the same log again"


def test_one_that_says_page_calls_a_person_and_training_goes_on() -> None:
    bench = found(bench_with(ECC | {"page": "warning", "text": "GPU {{ gpu }} must be looked at"}))
    assert paged(bench) == ["warning"]
    incident = bench.incident
    assert (incident.kind, incident.alert, incident.state) == (Kind.LOG_MATCH, "Ecc", IncidentState.EXHAUSTED)
    assert incident.reason == "sick GPU 5 on rank 1: GPU 5 must be looked at: ECC error on GPU 5"
    assert (incident.blamed_rank, incident.blamed_node) == (1, "n1")
    assert "sentinel changes nothing because of it" in bench.decided(a.SendPage)[0].text
    assert bench.state.plan is None
    found(bench.steps(21, 40), rank=0)
    assert paged(bench) == ["warning"], "once"


def test_the_same_in_the_next_attempt_pages_nobody_twice_while_the_page_is_open() -> None:
    bench = found(bench_with(ECC | {"page": "warning"})).checkpoint(20).exits(signal=9)
    found(bench.launched())
    assert paged(bench) == ["warning"]
    assert len(bench.of(f.LogMatched)) == 2
    assert any("found again in attempt 2" in note.reason for note in bench.of(f.Noted))


def test_an_attempt_that_then_died_died_of_it() -> None:
    bench = found(bench_with(ECC)).exits(signal=9)
    assert bench.incident.kind is Kind.CRASH
    assert bench.incident.reason.startswith("sick GPU 5 on rank 1: ECC error on GPU 5 (")
    assert "SIGKILL" in bench.incident.reason
    assert bench.state.plan is not None, "it is retried"


def test_without_class_node_and_retry_a_match_says_nothing_of_a_death() -> None:
    told = {"name": "Ecc", "match": "ECC", "page": "warning"}
    bench = found(bench_with(told)).exits(signal=9)
    crash = next(i for i in bench.state.incidents if i.kind is Kind.CRASH)
    assert "ECC" not in crash.reason


def test_the_first_entry_of_the_policy_that_was_found_decides_and_the_rank_that_failed_first_is_blamed() -> None:
    other = {"name": "Link", "match": "link down", "class": "bad link"}
    bench = found(found(bench_with(other, ECC)), name="Link", rank=1, line="link down")
    found(bench, name="Link", rank=0, line="link down too").exits(signal=9)
    assert bench.incident.reason.startswith("bad link on rank 0: link down too (")
    assert bench.incident.blamed_rank == 0


def test_an_attempt_that_stopped_or_finished_died_of_nothing() -> None:
    bench = found(bench_with(ECC))
    bench.wants_stop()
    bench.exits(code=6)
    assert bench.state.ended == "stopped"
    assert bench.state.incidents == ()


def test_retry_false_goes_straight_to_a_person() -> None:
    bench = found(bench_with(ECC | {"retry": False})).exits(signal=9)
    assert bench.incident.kind is Kind.BROKEN_JOB
    assert "a relaunch cannot help, says the policy" in bench.incident.reason
    assert bench.state.ended == "failed"
    assert paged(bench) == ["critical"]
    assert len(bench.decided(a.StartAttempt)) == 1


def test_node_exclude_leaves_the_node_out_before_the_relaunch() -> None:
    bench = found(bench_with(ECC | {"node": "exclude"}, excludes=True)).exits(signal=9)
    (out,) = bench.of(f.NodeExcluded)
    assert (out.node, out.incident) == ("n1", 1)
    assert out.reason.startswith("Ecc: sick GPU 5 on rank 1")
    assert bench.state.plan is not None
    (start,) = [action for action in bench.state.plan.actions if isinstance(action, a.StartAttempt)]
    assert start.exclude_nodes == ("n1",)


def test_a_line_that_names_its_machine_blames_it() -> None:
    bench = found(bench_with(ECC | {"node": "exclude"}, excludes=True), rank=None, host="n0").exits(signal=9)
    assert [out.node for out in bench.of(f.NodeExcluded)] == ["n0"]


@pytest.mark.parametrize(
    ("how", "rank", "why"),
    [
        ({}, 1, "the command cannot leave a node out"),
        ({"excludes": True}, None, "the evidence blames no node"),
        ({"excludes": True, "observe_only": True}, 1, "observe only"),
    ],
)
def test_a_node_that_cannot_be_left_out_has_its_reason_on_record(how: dict[str, Any], rank: int | None, why: str) -> None:
    bench = bench_with(ECC | {"node": "exclude"}, **how)
    if rank is None:
        bench.engine._live.hosts.clear()
    found(bench, rank=rank).exits(signal=9)
    assert bench.of(f.NodeExcluded) == []
    assert any(why in note.reason and "no node is left out (Ecc)" in note.reason for note in bench.of(f.Noted))


def test_a_second_death_of_the_same_leaves_out_that_node_too() -> None:
    bench = found(bench_with(ECC | {"node": "exclude"}, excludes=True)).checkpoint(20).exits(signal=9)
    bench.launched()
    for rank, host in ((0, "n0"), (1, "n2")):
        bench.tell(Heartbeat(2, rank, 20, "forward", bench.now_s, host=host))
    found(bench, rank=1).exits(signal=9)
    assert [out.node for out in bench.of(f.NodeExcluded)] == ["n1", "n2"]


def test_secrets_in_a_line_are_masked() -> None:
    bench = bench_with(ECC)
    bench.engine.masking = Masking.of({"API_TOKEN": "hunter2hunter2"})
    found(bench, line="ECC error on GPU 5 token hunter2hunter2")
    assert "hunter2" not in bench.of(f.LogMatched)[0].line


def test_a_match_of_another_attempt_or_of_no_entry_is_nothing() -> None:
    bench = bench_with(ECC)
    bench.tell(LogMatch(7, "Ecc", 1, "x"))
    bench.tell(LogMatch(1, "Gone", 1, "x"))
    assert bench.of(f.LogMatched) == []
