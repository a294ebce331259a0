"""The order of a plan's actions, and when a metric is back where it was."""

from __future__ import annotations

from math import inf, nan

import pytest

from sentinel.model.attempts import ResumePoint, SettingsInForce
from sentinel.model.incidents import Band
from sentinel.plan.build import build_live_change, build_relaunch
from sentinel.plan.verdict import judge_band

POINT = ResumePoint(50, "p50")


@pytest.mark.parametrize(
    ("incident", "old", "alive", "resume", "keys"),
    [
        (None, None, False, None, ["start/2"]),
        (None, 1, False, POINT, ["verify/2/50", "quarantine/2", "start/2"]),
        (3, 1, False, POINT, ["capture/3/2", "verify/2/50", "quarantine/2", "start/2"]),
        (3, 1, True, POINT, ["capture/3/2", "kill/1", "verify/2/50", "quarantine/2", "start/2"]),
        (3, 1, True, None, ["capture/3/2", "kill/1", "quarantine/2", "start/2"]),
    ],
)
def test_evidence_first_then_the_kill_then_what_is_resumed_from(
    incident: int | None, old: int | None, alive: bool, resume: ResumePoint | None, keys: list[str]
) -> None:
    actions = build_relaunch(
        incident=incident, old_attempt=old, is_alive=alive, new_attempt=2, resume=resume, overrides=SettingsInForce("ov-2"),
        not_before_s=7.0, reason="why",
    )  # fmt: skip
    assert [action.key for action in actions] == keys
    assert actions[-1].not_before_s == 7.0  # type: ignore[union-attr]


def test_a_live_change_is_one_write_under_the_name_of_its_settings() -> None:
    (write,) = build_live_change(3, SettingsInForce("ov-3.2"), 40)
    assert (write.key, write.attempt) == ("override/ov-3.2", 3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("now", "before", "ratio", "within"),
    [
        (Band("loss", 2.03, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, True),
        (Band("loss", 2.05, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, False),
        (Band("loss", 1.0, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, True),
        (Band("loss", 2.05, 0.0, 4), Band("loss", 2.0, 0.05, 40), 0.02, True),  # finer than the noise of four values
        (Band("loss", 2.05, 9.0, 400), Band("loss", 2.0, 0.005, 40), 0.02, False),  # a sick scatter widens nothing
        (Band("loss", nan, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, False),
        (Band("loss", inf, 0.0, 50), Band("loss", 2.0, 0.0, 50), 0.02, False),
        (Band("loss", 2.0, 0.0, 0), Band("loss", 2.0, 0.0, 50), 0.02, False),
        (Band("loss", -1.99, 0.0, 50), Band("loss", -2.0, 0.0, 50), 0.02, True),
    ],
)
def test_back_in_the_band(now: Band, before: Band, ratio: float, within: bool) -> None:
    verdict = judge_band(now, before, ratio)
    assert verdict.is_within is within
    assert "loss" in verdict.reason
