"""When a checkpoint is passed over for what became of those that resumed from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident
from sentinel.model.state import Attempt, Checkpoint
from sentinel.plan.checkpoint_blame import judge_blame

CHECKPOINTS = tuple(
    Checkpoint(step, f"checkpoints/step-{step:08d}", 1, step * 16, str(step), committed_s=0.0) for step in (75, 100)
)
FIRST = Attempt(1, 0.0, None, SettingsInForce(), "first", first_step=1, last_step=110, ended_s=9.0, outcome="crashed")


def attempt(number: int, failed: str = "crash", step: int | None = None, resumed: int = 100) -> Attempt:
    """Failed at `step`; None: before its first step."""
    made = Attempt(
        number, 0.0, ResumePoint(resumed, "", str(resumed)), SettingsInForce(), "again", resumed_step=resumed, failed=failed
    )
    end = resumed if step is None else step
    first = None if step is None else resumed + 1
    return replace(made, first_step=first, failed_step=end, last_step=end, ended_s=1.0, outcome="crashed")


def blamed(
    *attempts: Attempt, checkpoints: tuple[Checkpoint, ...] = CHECKPOINTS, incidents: tuple[Incident, ...] = ()
) -> int | None:
    found = judge_blame(checkpoints, (FIRST, *attempts), incidents, attempts[-1].failed_step)
    return found.checkpoint.step if found is not None else None


@pytest.mark.parametrize("step", [None, 101, 104, 110])
@pytest.mark.parametrize("failed", ["crash", "non_finite"])
def test_two_that_failed_alike_soon_after_it_condemn_it(step: int | None, failed: str) -> None:
    assert blamed(attempt(2, failed, step), attempt(3, failed, step)) == 100
    assert blamed(attempt(2, failed, step)) is None, "once may be chance"


def test_the_reason_names_who_failed_how_and_where_it_goes_now() -> None:
    found = judge_blame(CHECKPOINTS, (FIRST, attempt(2), attempt(3)), (), 100)
    assert found is not None
    said = "attempts 2 and 3, which resumed from it, failed alike (crash) before their first step; the one of step 75 is tried"
    assert found.reason == said


@pytest.mark.parametrize(
    "attempts",
    [
        (attempt(2), attempt(3, step=104)),  # one at the load, one later
        (attempt(2, step=102), attempt(3, step=109)),  # at other steps
        (attempt(2, "non_finite", 101), attempt(3, "crash", 101)),
        (attempt(2), attempt(3, "")),  # a cause outside, or none of its own
        (attempt(2, ""), attempt(3)),
        (attempt(2, step=120), attempt(3, step=120)),  # not soon: it led to twenty good steps
        (attempt(2, step=300), attempt(3), attempt(4)),  # it once led to two hundred good steps
        (attempt(2, resumed=75), attempt(3), attempt(4)),  # loading the other one fails as well
        (attempt(2), attempt(3), attempt(4, resumed=75)),  # what was tried instead is not blamed for the same
    ],
)
def test_anything_else_blames_nothing(attempts: tuple[Attempt, ...]) -> None:
    assert blamed(*attempts) is None


def test_a_step_that_fails_whoever_comes_to_it_is_not_the_checkpoints_fault() -> None:
    first = replace(FIRST, failed="crash", failed_step=103, last_step=103)
    found = judge_blame(CHECKPOINTS, (first, attempt(2, step=103), attempt(3, step=103)), (), 103)
    assert found is None
    at_once = replace(first, failed_step=100, last_step=100)  # it is the first step after the checkpoint
    assert judge_blame(CHECKPOINTS, (at_once, attempt(2), attempt(3)), (), 100) is None


def test_without_an_older_one_to_go_to_it_is_kept() -> None:
    assert blamed(attempt(2), attempt(3), checkpoints=CHECKPOINTS[1:]) is None
    condemned = (replace(CHECKPOINTS[0], condemned="sha256", damaged=True), CHECKPOINTS[1])
    assert blamed(attempt(2), attempt(3), checkpoints=condemned) is None
    early = Incident(1, Kind.SPIKE, "critical", "A", "p", 1, 60, 62, 62, 0.0, 0.0, "x")
    assert blamed(attempt(2), attempt(3), incidents=(early,)) is None, "the older one lies after an open onset"


def test_one_saved_anew_under_the_same_name_starts_without_blame() -> None:
    anew = (CHECKPOINTS[0], replace(CHECKPOINTS[1], attempt=3))
    assert blamed(attempt(2), attempt(3, step=105), attempt(4), checkpoints=anew) is None


def test_one_that_is_condemned_is_not_condemned_again() -> None:
    told = (CHECKPOINTS[0], replace(CHECKPOINTS[1], condemned="known", evidence="failures"))
    assert blamed(attempt(2), attempt(3), checkpoints=told) is None
