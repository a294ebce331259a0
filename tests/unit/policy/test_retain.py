"""`checkpoints.retain`: what is kept must reach as far back as the playbooks go."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel.policy_files.explain import Assumed, explain
from tests.unit.policy.policies_in_words import policy_with, said

EVERY = {"checkpoint_every": "50 steps"}


def retaining(run: dict[str, Any] | None = None, **retain: object) -> list[tuple[str, str, str]]:
    return said(policy_with(run=EVERY if run is None else run, checkpoints={"retain": retain}))


def test_without_a_word_nothing_is_deleted_and_nothing_said() -> None:
    assert policy_with().spec.checkpoints.retain is None


def test_enough_of_them_pass() -> None:
    assert retaining(last=3) == []
    assert retaining(last=3, every="1000 steps") == []


def test_too_few_for_the_deepest_rollback_are_refused_with_how_many_it_takes() -> None:
    policy = policy_with(run=EVERY, checkpoints={"retain": {"last": 2}})
    ((severity, path, message),) = said(policy)
    assert (severity, path) == ("error", "spec.playbooks.numeric[0].rollback.before_onset")
    assert message == "goes back 100 steps, and 2 checkpoints of every 50 steps reach back only 50"


def test_the_fewer_of_both_count_and_the_remedy_names_whose_they_are() -> None:
    found = retaining({**EVERY, "checkpoints_kept": 2}, last=5)
    assert [(severity, path) for severity, path, _ in found] == [
        ("warning", "spec.checkpoints.retain.last"), ("error", "spec.playbooks.numeric[0].rollback.before_onset"),
    ]  # fmt: skip
    assert "5 is never reached: spec.run.checkpoints_kept says that somebody else keeps only 2" in found[0][2]


@pytest.mark.parametrize(
    ("run", "retain", "severity", "path", "message"),
    [
        (EVERY, {"last": 1}, "error", "retain.last", "with one checkpoint alone there is nothing to go back to"),
        ({}, {"last": 5}, "warning", "retain", "whether the last ones reach as far back"),
        (EVERY, {"last": 5, "every": "120 steps"}, "warning", "retain.every", "few checkpoints are at a multiple of 120 steps"),
    ],
)
def test_what_else_is_doubtful_is_said(
    run: dict[str, Any], retain: dict[str, Any], severity: str, path: str, message: str
) -> None:
    first = retaining(run, **retain)[0]
    assert first[:2] == (severity, f"spec.checkpoints.{path}")
    assert message in first[2]


def test_explain_goes_back_only_to_what_is_kept_and_says_what_is() -> None:
    policy = policy_with(
        run=EVERY, checkpoints={"retain": {"last": 3, "every": "500 steps"}}, detectors={"onset_lookback": "10 steps"}
    )
    told = explain(policy, "spike", Assumed())
    assert "roll back to the checkpoint of step 900" in told.rungs[0][1]
    kept = next(sentence for sentence in told.after if sentence.startswith("checkpoints: "))
    assert kept == (
        "checkpoints: the newest 3 good ones are kept, every one at a multiple of 500 steps for ever, and what a rollback may "
        "need, 110 steps back at least; nothing is deleted while an incident is open"
    )
    assert not any(s.startswith("checkpoints: ") for s in explain(policy_with(), "spike", Assumed()).after)


@pytest.mark.parametrize(("how", "again"), [("sampled", "in samples"), ("remembered", "not again")])
def test_explain_says_what_is_read_before_a_resume_where_that_is_not_all_of_it(how: str, again: str) -> None:
    told = explain(policy_with(checkpoints={"verify": how}), "spike", Assumed()).after
    (said,) = [sentence for sentence in told if sentence.startswith("before a resume")]
    assert f"what nothing wrote to since is read {again}, all else whole" in said
    assert not any(s.startswith("before a resume") for s in explain(policy_with(), "spike", Assumed()).after)
