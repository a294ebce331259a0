"""An inspection asked about: it goes on, it answers, or no answer will come; each is said once and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sentinel.actions.inspection import SampleSource, inspect_samples
from sentinel.actions.runner import carry_out
from sentinel.errors import GiveUp, GoesOn
from sentinel.model.actions import InspectSamples
from sentinel.model.attempts import (
    Alive,
    AttemptSpec,
    AttemptView,
    Exited,
    ExitReport,
    Orphaned,
    RankExit,
    ResumePoint,
    SampleRange,
    SettingsInForce,
)
from sentinel.model.events import ActionFailed
from sentinel.model.records import Attribution, SampleSeen

SUSPECT = SampleRange(100, 200)
RESUME = ResumePoint(40, "checkpoints/step-00000040", "d")
ACTION = InspectSamples("inspect/4", 1, 1, 4, RESUME, SettingsInForce("ov-4"), (SampleRange(50, 200),), SUSPECT, 60.0)
SEEN = tuple(SampleSeen(i, 9.0 if i in (150, 151) else 2.0 + 0.01 * (i % 7), 1.0, "a", i) for i in range(50, 200))


class Launched:
    """A launcher that shows one view, and remembers what it was asked to start."""

    def __init__(self, view: AttemptView) -> None:
        self.view = view
        self.specs: list[AttemptSpec] = []

    def ensure_started(self, spec: AttemptSpec) -> AttemptView:
        self.specs.append(spec)
        return self.view

    def ensure_stopped(self, attempt: int) -> AttemptView:
        return self.view

    def signal_ranks(self, attempt: int, signal_number: int) -> int:
        return 0

    def observe(self, attempt: int, with_processes: bool = True) -> AttemptView:
        return self.view


def source(trains: bool = False, seen: Sequence[SampleSeen] = SEEN) -> SampleSource:
    return SampleSource(lambda _: trains, lambda _: seen)


def ask(view: AttemptView, how: SampleSource | None = None) -> Attribution:
    return inspect_samples(Launched(view), how or source(), ACTION, ("train",), "/")


def left(*codes: int, error: str | None = None) -> Exited:
    ranks = tuple(RankExit(n, code, None, "record", error) for n, code in enumerate(codes))
    return Exited(4, ExitReport(0, ranks, None, "the command ended"))


def test_it_is_launched_with_the_samples_and_without_the_rungs_own_skip() -> None:
    launcher = Launched(Alive(4, 1, (2,)))
    with pytest.raises(GoesOn):
        inspect_samples(launcher, source(), ACTION, ("train",), "/")
    assert launcher.specs == [AttemptSpec(4, ("train",), "/", RESUME, ACTION.overrides, ACTION.samples)]


def test_a_node_that_is_left_out_looks_at_no_samples_either() -> None:
    launcher = Launched(Alive(4, 1, (2,)))
    with pytest.raises(GoesOn):
        inspect_samples(launcher, source(), replace(ACTION, exclude_nodes=("n7",)), ("train",), "/")
    assert launcher.specs[0].exclude_nodes == ("n7",)


def test_when_it_has_ended_its_record_is_judged() -> None:
    found = ask(left(0, 0))
    assert (found.verdict, found.ranges, found.attempt) == ("guilty", (SampleRange(150, 152),), 4)


@pytest.mark.parametrize(
    ("view", "how", "said"),
    [
        (Alive(4, 1, ()), source(trains=True), "the trainer trains where it was asked to inspect"),
        (left(0, 1, error="RuntimeError: out of memory"), source(), "failed: RuntimeError: out of memory"),
        (Exited(4, ExitReport(None, (), None, "stopped before it was started")), source(), "stopped before it was started"),
        (Orphaned(4, (), "its keeper died"), source(), "was lost: its keeper died"),
    ],
)
def test_no_answer_will_come(view: AttemptView, how: SampleSource, said: str) -> None:
    with pytest.raises(GiveUp, match=said):
        ask(view, how)


def test_that_it_goes_on_is_no_failure_to_be_counted() -> None:
    def handler(action: object) -> Attribution:
        raise GoesOn("attempt 4 inspects samples", 1.0)

    outcome = carry_out({InspectSamples: handler}, ACTION)
    assert outcome == ActionFailed("inspect/4", "attempt 4 inspects samples", 1.0, goes_on=True)
