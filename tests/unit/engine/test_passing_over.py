"""Rungs whose needs the trainer lacks are passed over with the reason, and what is left is climbed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model import facts as f
from sentinel.model.incidents import Outcome
from sentinel.model.readings import Receipt
from sentinel.model.state import RunState
from tests.builders import Bench, build_policy

ROLLBACK = {"rollback": {"before_onset": "20 steps"}}
PAGE = {"page": {}, "then": "stop_now"}


def spiked(bench: Bench) -> Bench:
    bench.launched().steps(1, 50).checkpoint(50)
    return bench.steps(51, 70).steps(71, 78, loss=8.0)


@pytest.mark.parametrize(
    ("needs", "lacks", "reason"),
    [
        ({**ROLLBACK, "skip": {"from": "onset", "to": "detected"}}, "skip", "cannot skip samples"),
        ({**ROLLBACK, "reseed_data": True}, "skip", "cannot change its data order"),
        ({"lr": "0.5x"}, "live_overrides", "cannot change settings while it runs"),
        (
            {**ROLLBACK, "skip": {"from": "onset", "to": "detected", "only": "guilty"}},
            "attribution",
            "cannot look at single samples",
        ),
    ],
)
def test_what_the_trainer_lacks_is_passed_over_and_the_next_rung_taken(needs: dict[str, object], lacks: str, reason: str) -> None:
    bench = Bench(build_policy({"numeric": [needs, ROLLBACK, PAGE]}), without=(lacks,))
    first, second = spiked(bench).incident.tries
    assert first.outcome is Outcome.PASSED_OVER
    assert reason in first.reason
    assert first.attempt is None
    assert second.remedy.rung == 1
    assert bench.launched().number == 2


def test_and_taken_where_nothing_lacks() -> None:
    needs = {**ROLLBACK, "skip": {"from": "onset", "to": "detected"}}
    (only,) = spiked(Bench(build_policy({"numeric": [needs, ROLLBACK, PAGE]}))).incident.tries
    assert only.outcome is Outcome.PENDING


def test_a_setting_that_the_trainer_cannot_be_given_is_passed_over_and_one_that_it_can_is_given() -> None:
    slower, clipped = {**ROLLBACK, "lr": "0.5x"}, {**ROLLBACK, "clip_norm": 0.5}
    bench = Bench(build_policy({"numeric": [slower, clipped, PAGE]}), without=("live_overrides",), settable=("clip_norm",))
    first, second = spiked(bench).incident.tries
    assert first.outcome is Outcome.PASSED_OVER
    assert "cannot be given the learning rate" in first.reason
    assert second.remedy.rung == 1


@pytest.mark.parametrize(
    ("settable", "end"),
    [
        (None, "; until step 171"),
        (("lr_scale",), "; until a relaunch from step 170 or later: nothing changes this trainer while it runs"),
    ],
)
def test_a_setting_passed_as_an_argument_is_not_said_to_lapse_in_the_run(settable: tuple[str, ...] | None, end: str) -> None:
    bench = Bench(build_policy({"numeric": [{**ROLLBACK, "lr": "0.5x", "until": "100 steps"}, PAGE]}), settable=settable)
    (only,) = spiked(bench).incident.tries
    assert only.remedy.reason.endswith(end), only.remedy.reason


def test_what_the_trainer_can_be_given_is_asked_anew_of_every_session() -> None:
    bench = Bench(build_policy({"numeric": [{**ROLLBACK, "lr": "0.5x"}, PAGE]}), without=("live_overrides",), settable=())
    bench.launched().steps(1, 50).checkpoint(50)
    bench.settable = ("lr_scale",)
    bench.die()
    (only,) = bench.steps(51, 70).steps(71, 78, loss=8.0).incident.tries
    assert only.outcome is Outcome.PENDING


def test_a_trainer_that_died_before_a_word_is_started_again_where_its_profile_knows_its_folder() -> None:
    assert Bench(settable=()).launched(receipt=False).exits(signal=9).state.ended == ""
    assert Bench().launched(receipt=False).exits(signal=9).state.ended == "failed"


@pytest.mark.parametrize(
    ("lists", "outcome"),
    [(None, Outcome.PENDING), (("skip", "live_overrides"), Outcome.PENDING), (("live_overrides",), Outcome.PASSED_OVER)],
)
def test_a_trainer_that_lists_what_it_can_do_is_not_presumed_to_do_more(lists: tuple[str, ...] | None, outcome: Outcome) -> None:
    bench = Bench(build_policy({"numeric": [{**ROLLBACK, "skip": {"from": "onset", "to": "detected"}}, ROLLBACK, PAGE]}))
    bench.lists = lists
    assert spiked(bench).incident.tries[0].outcome is outcome


def test_what_was_declared_to_be_missing_stays_missing() -> None:
    policy = build_policy({"numeric": [{**ROLLBACK, "skip": {"from": "onset", "to": "detected"}}, ROLLBACK, PAGE]})
    bench = Bench(policy, without=("skip",))
    bench.lists = ("skip", "live_overrides")
    assert spiked(bench).incident.tries[0].outcome is Outcome.PASSED_OVER


def test_the_newest_list_counts_and_the_command_keeps_its_own() -> None:
    state = RunState(capabilities=("skip", "attribution", "exclude"))
    assert state.abilities == ("skip", "attribution", "exclude")
    assert replace(state, listed=()).abilities == ("exclude",)
    assert replace(state, listed=("attribution",)).abilities == ("attribution", "exclude")


def test_an_argument_that_was_passed_is_no_mismatch_where_nobody_can_read_it_back() -> None:
    clipped = {**ROLLBACK, "clip_norm": 0.5}
    bench = Bench(build_policy({"numeric": [clipped, PAGE]}), without=("live_overrides",), settable=("clip_norm",))
    spiked(bench).carry_out()
    asked = bench.state.overrides
    receipt = Receipt(2, bench.now_s, 50, None, 1, {"clip_norm": asked.clip_norm}, {}, profile="mine")
    bench.says(receipt)
    (only,) = bench.incident.tries
    assert [(proof.key, proof.grade) for proof in only.proofs] == [("clip_norm", "asserted")]
    assert len(bench.of(f.IncidentOpened)) == 1, "no override_mismatch"


@pytest.mark.parametrize(
    ("asked", "settable", "taken"),
    [
        ({"precision": "fp16"}, ("precision=bf16",), "cannot be given the precision fp16"),
        ({"precision": "bf16"}, ("precision=bf16",), ""),
        ({"precision": "fp16"}, ("precision",), ""),
        ({"reseed_data": True}, ("clip_norm",), "cannot be given the data seed"),
        ({"reseed_data": True}, ("data_seed",), ""),
    ],
)
def test_under_a_profile_a_value_or_a_new_order_needs_arguments(
    asked: dict[str, object], settable: tuple[str, ...], taken: str
) -> None:
    """And not the capability `skip`, which says that a trainer of Sentinel's own client can change its data order."""
    rungs = {"numeric": [{**ROLLBACK, **asked}, {**ROLLBACK}, PAGE]}
    bench = Bench(build_policy(rungs), without=("live_overrides", "skip"), settable=settable)
    first = spiked(bench).incident.tries[0]
    assert (first.outcome is Outcome.PASSED_OVER) == bool(taken)
    assert taken in first.reason
