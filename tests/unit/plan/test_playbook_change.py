"""Where an open incident stands under another policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sentinel.channels.registry  # noqa: F401 - a policy is read with the channels that there are
from sentinel.model.findings import Kind
from sentinel.model.incidents import AwaitedApproval, Incident, IncidentState, Outcome, Remedy, Try
from sentinel.plan.playbook_change import PlaybookPlace, find_place, marks_of, playbook_of, was_tried
from sentinel.policy.schema import Policy, Rung
from sentinel.policy.schema_problems import validate_policy

RESUME = {"resume": {"from": "newest"}}
BACK = {"rollback": {"before_onset": "100 steps"}}
FURTHER = {"rollback": {"further": "2x"}}
SLOW = {**BACK, "lr": "0.5x"}
CALL = {"page": {"severity": "critical"}, "then": "stop_now"}


def policy(
    *rungs: object, name: str = "numeric", rule: str = "Spike", on: str = "spike", playbook: str | None = "numeric"
) -> Policy:
    document = {
        "apiVersion": "sentinel/v1", "kind": "RemediationPolicy", "metadata": {"name": "p"},
        "spec": {
            "rules": [{"alert": rule, "on": on, **({"playbook": playbook} if playbook else {})}],
            "playbooks": {name: list(rungs)} if rungs else {},
        },
    }  # fmt: skip
    made, problems = validate_policy(document)
    assert made is not None, problems
    return made


def rungs(*written: object) -> tuple[Rung, ...]:
    return policy(*written).spec.playbooks["numeric"]


def incident(*taken: tuple[int, str, Outcome], state: IncidentState = IncidentState.OPEN) -> Incident:
    """`taken`: of each try the rung, its mark, and how it ended."""
    tries = tuple(Try(Remedy(rung, ("rollback",), "r"), 1.0, 1, outcome=outcome, mark=mark) for rung, mark, outcome in taken)
    made = Incident(7, Kind.SPIKE, "warning", "Spike", "numeric", 1, 90, 100, 100, 1.0, 2.0, "r", state=state, tries=tries)
    return replace(made, rung=taken[-1][0] if taken else -1)


def standing(before: tuple[Rung, ...], index: int, **more: object) -> Incident:
    marks = marks_of(before)
    return replace(incident(*((at, marks[at], Outcome.FAILED) for at in range(index + 1))), **more)  # type: ignore[arg-type]


def test_the_same_rung_has_the_same_mark_and_a_relative_one_counts_what_it_builds_on() -> None:
    assert marks_of(rungs(BACK, SLOW, CALL))[1:] == marks_of(rungs(RESUME, SLOW, CALL))[1:]
    assert marks_of(rungs(BACK, FURTHER, CALL))[1] != marks_of(rungs(SLOW, FURTHER, CALL))[1]
    assert len(set(marks_of(rungs(BACK, SLOW, RESUME, CALL)))) == 4


def test_nothing_changes_where_the_playbook_is_the_same() -> None:
    assert find_place(standing(rungs(BACK, SLOW, CALL), 1), policy(BACK, SLOW, CALL)) is None
    assert find_place(incident(), policy(BACK, SLOW, CALL)) is None


@pytest.mark.parametrize(
    ("after", "rung"),
    [
        ((RESUME, BACK, SLOW, CALL), 2),  # a rung before it: it keeps its place
        ((SLOW, CALL), 0),
        ((BACK, SLOW), None),  # shorter, and its rung is at the same place
        ((BACK, CALL), -1),  # its rung is gone
        ((RESUME, CALL), -1),
    ],
)
def test_it_stands_where_its_rung_is_or_before_the_first(after: tuple[object, ...], rung: int | None) -> None:
    place = find_place(standing(rungs(BACK, SLOW, CALL), 1), policy(*after))
    assert (place.rung if place is not None else None) == rung


def test_a_playbook_by_another_name_is_found_by_the_rule_that_takes_it_now() -> None:
    one = standing(rungs(BACK, CALL), 0)
    renamed = policy(BACK, SLOW, CALL, name="gentle", rule="Jump", playbook="gentle")
    assert find_place(one, renamed) == PlaybookPlace(
        "gentle", 0, "it stands at rung 1 of playbook gentle, in the place of numeric,"
    )


@pytest.mark.parametrize("after", [policy(BACK, CALL, rule="Other", on="crash"), policy(rule="Spike", playbook=None)])
def test_where_no_rule_has_a_playbook_for_it_nothing_is_left_to_try(after: Policy) -> None:
    place = find_place(standing(rungs(BACK, CALL), 0), after)
    assert place is not None
    assert (place.playbook, place.rung) == ("", -1)
    assert place.reason == "no rule of the policy in force has a playbook for it (it had numeric): nothing more is tried"


def test_the_rule_of_its_alert_decides_before_that_of_its_kind() -> None:
    document = policy(BACK, CALL).model_copy()
    assert playbook_of(replace(standing(rungs(BACK, CALL), 0), alert="Gone"), document) == "numeric"
    assert playbook_of(replace(standing(rungs(BACK, CALL), 0), alert="Gone", kind=Kind.EXPRESSION), document) == ""


def test_an_approval_goes_along_with_its_rung_and_is_void_without_it() -> None:
    before = rungs(BACK, SLOW, CALL)
    waiting = standing(before, 0, approval=AwaitedApproval(1, 99.0, "deny", mark=marks_of(before)[1]))
    assert find_place(waiting, policy(BACK, SLOW, CALL)) is None
    moved = find_place(waiting, policy(RESUME, BACK, SLOW, CALL))
    assert moved is not None
    assert (moved.rung, moved.asked_rung) == (1, 2)
    assert find_place(waiting, policy(RESUME, SLOW, CALL)) is None, "it stands just before the rung that waits"
    void = find_place(waiting, policy(BACK, CALL))
    assert void is not None
    assert (void.rung, void.asked_rung) == (-1, None)


def test_what_failed_under_the_policy_before_is_not_tried_again_and_what_this_one_repeats_is() -> None:
    before, after = rungs(BACK, RESUME, CALL), rungs(SLOW, BACK, BACK, CALL)
    moved = replace(standing(before, 1), rung=-1, relaid_tries=2)
    assert [was_tried(moved, after, index) for index in range(3)] == [False, True, True]
    assert not was_tried(standing(after, 1), after, 2), "written twice, it is meant twice"


def test_a_try_of_a_version_without_marks_is_known_by_its_words_and_its_place() -> None:
    old = incident((0, "", Outcome.FAILED))
    assert find_place(old, policy(BACK, CALL)) is None
    moved = find_place(old, policy(RESUME, BACK, CALL))
    assert moved is not None
    assert moved.rung == -1
