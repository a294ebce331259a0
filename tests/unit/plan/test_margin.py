"""How long before a deadline the stop begins: by what was seen on this run, or by a default that says so."""

from __future__ import annotations

import pytest

from sentinel.model.attempts import SettingsInForce
from sentinel.model.state import Attempt, Mark
from sentinel.plan.margin import LEAVE_S, judge_margin
from sentinel.policy.schema import DEADLINE_MARGIN_S


def attempt(*saves: tuple[float, float], stop_s: float | None = None) -> Attempt:
    marks = tuple(Mark(step, 0.0, cost, took) for step, (cost, took) in enumerate(saves, start=1))
    ended = {} if stop_s is None else {"outcome": "stopped", "stopping_s": 100.0, "ended_s": 100.0 + stop_s}
    return Attempt(1, 0.0, None, SettingsInForce(), "", marks=marks, **ended)


@pytest.mark.parametrize(
    ("attempts", "step_s", "seconds", "said"),
    [
        ((), 1.0, DEADLINE_MARGIN_S, "nothing was saved yet"),
        ((attempt(),), 1.0, DEADLINE_MARGIN_S, "nothing was saved yet"),
        ((attempt((2.0, 0.0), (1.0, 40.0)),), 5.0, 80.0 + 15.0 + LEAVE_S, "a save took up to 40 s"),
        ((attempt((2.0, 0.0)), attempt((3.0, 0.0))), None, 6.0 + LEAVE_S, "a save took up to 3 s"),
        ((attempt((2.0, 2.0), stop_s=400.0),), 1.0, 600.0, "a stop up to 6 min 40 s"),
    ],
)
def test_the_longest_that_was_seen_counts(attempts: tuple[Attempt, ...], step_s: float, seconds: float, said: str) -> None:
    margin = judge_margin(attempts, None, step_s)
    assert margin.seconds == seconds
    assert said in margin.reason


def test_what_the_policy_says_is_taken_as_it_stands() -> None:
    assert judge_margin((attempt((200.0, 200.0)),), 30.0, 1.0).seconds == 30.0
