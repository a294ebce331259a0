"""When more of the same will not help: all three levers failed at the same step, and nothing else is left to try."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, Outcome, Remedy, Try
from sentinel.model.proof import Grade, Proof
from sentinel.plan.structural import SAME_STEPS, judge_structural
from sentinel.policy.schema import Rung

ONSET = 81
SKIP = (SampleRange(780, 870),)
MORE = {"rollback": {"further": "2x"}, "lr": "0.5x", "clip_norm": 0.3}
READ_BACK = (Proof("skip", "read_back"), Proof("lr_scale", "read_back"))
PAGE = {"page": {"severity": "critical"}, "then": "stop_now"}


def rungs(*plain: dict[str, Any]) -> tuple[Rung, ...]:
    return tuple(Rung.model_validate(p) for p in plain)


def tried(index: int, *, skip: bool = False, lr: float | None = None, back: int | None = 60, at: int | None = ONSET) -> Try:
    words = tuple(w for w, held in (("rollback", back is not None), ("skip", skip), ("lr", lr is not None)) if held)
    remedy = Remedy(index, words, "chosen", back, SKIP if skip else (), lr)
    return Try(remedy, 0.0, 85, index + 1, Outcome.FAILED, "the same again", at, READ_BACK)


def spike(*tries: Try, onset: int | None = ONSET) -> Incident:
    return Incident(1, Kind.SPIKE, "critical", "A", "p", 1, onset, 83, 85, 0, 0, "x", tries=tries)


ALL_THREE = (tried(1, skip=True), tried(2, skip=True, back=40), tried(3, skip=True, lr=0.5, back=20))


def test_the_same_step_after_all_three_is_structural_and_says_so() -> None:
    said = judge_structural(spike(*ALL_THREE), rungs(MORE, PAGE), 0)
    assert said.startswith("structural: spike at step 81 again and again, from as far back as step 20, without 90 samples")
    assert "at 0.5x the learning rate" in said


@pytest.mark.parametrize(
    "tries",
    [
        ALL_THREE[:2],  # never at a lower rate
        (tried(1), tried(2, lr=0.5)),  # its data was never left out
        (tried(1, skip=True, back=None), tried(2, skip=True, lr=0.5, back=None)),  # never from further back
        (*ALL_THREE[:2], tried(3, skip=True, lr=0.5, at=ONSET + SAME_STEPS + 1)),  # the lower rate moved it
        (*ALL_THREE[:2], tried(3, skip=True, lr=0.5, at=None)),  # it only never came back to its band
        (*ALL_THREE[:2], replace(ALL_THREE[2], outcome=Outcome.PAGED)),
        (*ALL_THREE[:2], tried(3, skip=True, lr=2.0)),  # a higher one
    ],
)
def test_anything_less_is_not(tries: tuple[Try, ...]) -> None:
    assert judge_structural(spike(*tries), rungs(MORE, PAGE), 0) == ""


@pytest.mark.parametrize("grade", ["asserted", "none", "contradicted"])
@pytest.mark.parametrize("key", ["skip", "lr_scale"])
def test_what_the_trainer_only_says_it_has_done_is_not_counted(key: str, grade: Grade) -> None:
    doubted = tuple(Proof(key, grade) if proof.key == key else proof for proof in READ_BACK)
    assert judge_structural(spike(*(replace(one, proofs=doubted) for one in ALL_THREE)), rungs(MORE, PAGE), 0) == ""
    seen = tuple(replace(proof, grade="observed") for proof in READ_BACK)
    assert judge_structural(spike(*(replace(one, proofs=seen) for one in ALL_THREE)), rungs(MORE, PAGE), 0)


def test_what_has_no_onset_is_not() -> None:
    assert judge_structural(spike(*ALL_THREE, onset=None), rungs(MORE, PAGE), 0) == ""


@pytest.mark.parametrize(
    ("left", "is_structural"),
    [
        ((PAGE,), True),
        ((MORE, MORE, PAGE), True),
        ((MORE, {"rollback": {"further": "2x"}, "precision": "bf16"}, PAGE), False),
        (({"rollback": {"further": "2x"}, "reset_optimizer": True}, PAGE), False),
        (({**MORE, "approval": "required"}, PAGE), False),
        ((PAGE, {"rollback": {"further": "2x"}, "precision": "bf16"}), True),  # behind the page nothing is reached
    ],
)
def test_a_rung_that_does_something_else_is_still_tried(left: tuple[dict[str, Any], ...], is_structural: bool) -> None:
    assert bool(judge_structural(spike(*ALL_THREE), rungs(*left), 0)) is is_structural
