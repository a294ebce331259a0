"""behind_reference: compared at the same place, by the same axis, with patience for a run that catches up."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sentinel.detectors.bank import DetectorBank
from sentinel.detectors.behind_reference import BehindReference, BehindReferenceSettings
from sentinel.detectors.contract import Start
from sentinel.detectors.reference import Reference
from sentinel.model.findings import Finding, Kind, Verdict
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import config, receipt, watched

TOKENS = 1000


def loss_at(tokens: float) -> float:
    return 3.0 + 6.0 / (1 + tokens / 100_000)


def reference(points: int = 400, every: int = 10_000) -> Reference:
    """A small model's run to 4M tokens, in steps of 2,000 of them."""
    tokens = tuple(float(every * n) for n in range(1, points + 1))
    steps = tuple(place / 2000 for place in tokens)
    return Reference("small", steps, tuple(map(loss_at, tokens)), tokens)


class Watched:
    def __init__(self, known: Reference | None, **settings: float) -> None:
        self.detector = BehindReference(BehindReferenceSettings(**settings), watched(reference=known))
        self.detector.begin(Start(1))
        self.found: list[Finding] = []

    def run(self, losses: list[float], first: int = 1, tokens: int = TOKENS) -> Watched:
        for step, loss in enumerate(losses, first):
            metrics = {"loss": loss, "consumed_tokens": float(step * tokens)} if tokens else {"loss": loss}
            self.found += self.detector.step(StepReading(1, step, 0.0, (), metrics), 1, float(step))
        return self

    @property
    def verdict(self) -> tuple[Verdict, str]:
        return self.detector.verdict()


def noisy(count: int, add: float = 0.0, seed: int = 1) -> list[float]:
    dice = random.Random(seed)
    return [loss_at(step * TOKENS) + add + dice.gauss(0.0, 0.05) for step in range(1, count + 1)]


def test_the_same_curve_at_half_the_batch_is_healthy() -> None:
    """By tokens the two agree; by steps one would stand far above the other."""
    watched = Watched(reference()).run(noisy(3000))
    assert (watched.found, watched.verdict[0]) == ([], Verdict.HEALTHY)


def test_a_run_that_stands_above_is_found_and_said_in_tokens() -> None:
    losses = noisy(600) + [loss + 1.8 for loss in noisy(1500, seed=2)[600:]]
    (found,) = (watched := Watched(reference()).run(losses)).found
    assert (found.severity, found.metric) == ("warning", "loss")
    assert found.onset_step is not None
    assert 600 < found.onset_step < 660
    assert found.detected_step - found.onset_step <= 100
    assert "where small had" in found.reason
    assert "tokens" in found.reason
    assert watched.verdict[0] is Verdict.BREACHED


def test_it_is_told_once_and_again_when_it_had_caught_up() -> None:
    losses = noisy(2500)
    for start in (700, 1700):
        losses[start : start + 400] = [loss + 1.8 for loss in losses[start : start + 400]]
    assert [
        700 < (one.onset_step or 0) < 760 or 1700 < (one.onset_step or 0) < 1760 for one in Watched(reference()).run(losses).found
    ] == [
        True,
        True,
    ]


def test_a_run_that_catches_up_is_left_alone() -> None:
    """A larger batch makes fewer steps of the same tokens: behind at first, and closing."""
    losses = [loss + 4.0 * 0.995**step for step, loss in enumerate(noisy(3000))]
    assert Watched(reference()).run(losses).found == []


@pytest.mark.parametrize("add", [0.0, 0.1, 0.25])
def test_a_little_above_is_no_alarm(add: float) -> None:
    assert Watched(reference()).run(noisy(3000, add)).found == []


def test_beyond_the_end_of_the_reference_nothing_is_known() -> None:
    watched = Watched(reference(points=100)).run([loss + 1.8 for loss in noisy(3000)], first=1001)
    assert watched.found == []
    assert watched.verdict[0] is Verdict.UNKNOWN
    assert "outside of small" in watched.verdict[1]
    assert "tokens" in watched.verdict[1]


def test_without_tokens_in_both_the_axis_is_steps_and_that_is_said() -> None:
    watched = Watched(reference()).run(noisy(1500), tokens=0)
    assert "steps" in watched.verdict[1]
    no_tokens = replace(reference(), tokens=())
    watched = Watched(no_tokens).run(noisy(1500))
    assert "steps" in watched.verdict[1]


def test_tokens_are_told_by_the_start_line_as_well() -> None:
    watched = Watched(reference())
    watched.detector.resume(replace(receipt(), tokens_per_step=TOKENS), (), 0.0)
    watched.run(noisy(1500), tokens=0)
    assert (watched.verdict[0], "tokens" in watched.verdict[1]) == (Verdict.HEALTHY, True)


def test_samples_are_compared_with_samples() -> None:
    known = reference()
    by_samples = replace(known, tokens=(), samples=known.tokens)
    watched = Watched(by_samples)
    for step, loss in enumerate(noisy(1500), 1):
        metrics = {"loss": loss + 1.8, "consumed_samples": float(step * TOKENS)}
        watched.found += watched.detector.step(StepReading(1, step, 0.0, (), metrics), 1, 0.0)
    (found,) = watched.found
    assert "samples" in found.reason


def test_unknown_says_why() -> None:
    assert Watched(None).run(noisy(500)).verdict == (Verdict.UNKNOWN, "no reference given")
    off = DetectorBank(config(behind_reference=BehindReferenceSettings(enabled=False)), {}, {}, reference())
    assert off.verdicts()[Kind.BEHIND_REFERENCE] == (Verdict.UNKNOWN, "switched off by policy")
    assert Watched(reference()).run(noisy(50)).verdict[0] is Verdict.UNKNOWN
