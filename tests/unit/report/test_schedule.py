"""What interventions cost the schedule: only surviving steps count, from the step the trainer says to the step of the lapse."""

from __future__ import annotations

import pytest

from sentinel.model import actions as a
from sentinel.model import facts as f
from sentinel.model.attempts import ResumePoint, SampleRange, SettingsInForce
from sentinel.report.lineage import Lineage
from sentinel.report.schedule import SettingsHistory, schedule_rows

HALF = SettingsInForce("ov-1.half", lr_scale=0.5, owners=(("lr_scale", 0),))
NONE = SettingsInForce("ov-1.none")


def write(step: int, wanted: SettingsInForce, attempt: int = 1) -> list[f.Fact]:
    action = a.WriteOverrides(f"override/{wanted.id}", attempt, wanted, step)
    return [
        f.ActionDecided(action), f.ActionConfirmed(action.key), f.OverridesAnswered(attempt, wanted.id, step + 2),
    ]  # fmt: skip


def launch(attempt: int, resume: int = 0, settings: SettingsInForce | None = None) -> list[f.Fact]:
    point = ResumePoint(resume, f"checkpoints/step-{resume:08d}") if resume else None
    return [f.AttemptLaunched(attempt, point, settings or SettingsInForce(), "why"), f.ReceiptSeen(attempt, resume, 2)]


def ended(attempt: int, last: int) -> f.Fact:
    return f.AttemptEnded(attempt, "crashed", "why", last, 0.0)


def cost(*facts: f.Fact, newest: int | None = None, tokens: float | None = None) -> dict[str, object]:
    lineage, schedule = Lineage(), SettingsHistory()
    for fact in facts:
        lineage.take(fact)
        schedule.take(fact)
    return schedule.document(lineage.branches(newest), tokens)


def test_a_run_that_was_left_alone_lost_nothing_and_says_nothing() -> None:
    found = cost(*launch(1), newest=500)
    assert found == {
        "full_rate_steps_lost": 0.0, "steps_under": {}, "skipped_samples": 0, "skipped_tokens": None, "steps_thrown_away": 0,
        "steps_thrown_away_exact": True,
        "lapses": [],
    }  # fmt: skip
    assert schedule_rows(found) == []


def test_where_rows_are_seldom_what_was_thrown_away_is_a_bound() -> None:
    for seen, words in ((0, "an unknown number of steps thrown away"), (90, "at least 90 steps thrown away")):
        found = cost(*launch(1), f.StepsLost(1, seen, 9), newest=500) | {"steps_thrown_away": seen}
        assert not found["steps_thrown_away_exact"]
        assert schedule_rows(found) == [("schedule", words)]


def test_half_the_rate_counts_from_the_answer_to_the_lapse() -> None:
    lapse = f.SettingLapsed(1, ("lr_scale",), 198, HALF, "due")
    proven = f.LapseJudged(("lr_scale",), "proven", "healthy for 60 steps")
    found = cost(*launch(1), *write(98, HALF), lapse, *write(198, NONE), proven, newest=500)
    assert found["steps_under"] == {"lr_scale": 100}, "steps 100 to 199"
    assert found["full_rate_steps_lost"] == 50.0
    rows = schedule_rows(found)
    assert rows[0] == ("schedule", "50 full-rate steps lost, 100 steps under another lr_scale")
    assert rows[1] == ("lapse", "lr_scale at step 198, proven: healthy for 60 steps")


@pytest.mark.parametrize(("settable", "steps"), [(None, 50), (("lr_scale",), 250)])
def test_under_a_profile_a_setting_holds_behind_its_end_and_is_counted(settable: tuple[str, ...] | None, steps: int) -> None:
    session = f.SupervisorTookOver(1, "node", 1, "default", "0", False, settable=settable)
    until = SettingsInForce(lr_scale=0.5, owners=(("lr_scale", 1),), until=(("lr_scale", 301),))
    found = cost(session, *launch(1), ended(1, 260), *launch(2, 250, until), newest=500)
    assert found["steps_under"] == {"lr_scale": steps}


def test_what_was_abandoned_is_thrown_away_as_a_whole() -> None:
    facts = [*launch(1), *write(98, HALF), f.CheckpointCommitted(1, 150, "c", 2400), ended(1, 190)]
    facts += launch(2, 150, SettingsInForce("ov-2", lr_scale=0.25))
    found = cost(*facts, newest=160)
    assert found["steps_thrown_away"] == 40
    assert found["steps_under"] == {"lr_scale": 51 + 10}, "steps 100 to 150 at half, 151 to 160 at a quarter"
    assert found["full_rate_steps_lost"] == 51 * 0.5 + 10 * 0.75


def test_a_refused_change_never_held_and_the_trainers_own_until_ends_one() -> None:
    refused = f.OverridesAnswered(1, HALF.id, 100, (), whole=True)
    assert cost(*launch(1), *write(98, HALF)[:2], refused, newest=500)["steps_under"] == {}
    own = SettingsInForce("ov-1", clip_norm=0.3, until=(("clip_norm", 101),))
    assert cost(*launch(1, 0, own), newest=500)["steps_under"] == {"clip_norm": 100}


def test_what_was_in_force_and_is_refused_later_counts_up_to_there() -> None:
    facts = [*launch(1), *write(98, HALF), f.OverridesAnswered(1, HALF.id, 151, ("lr_scale",))]
    assert cost(*facts, newest=500)["steps_under"] == {"lr_scale": 51}, "steps 100 to 150"


def test_a_trainer_that_lapsed_by_itself_is_believed() -> None:
    facts = [*launch(1, 0, HALF), f.SettingLapsed(1, ("lr_scale",), 51, HALF, "by itself", by_trainer=True)]
    assert cost(*facts, newest=500)["full_rate_steps_lost"] == 25.0


def test_data_left_out_is_counted_once_in_samples_and_in_tokens() -> None:
    first = SettingsInForce("ov-2", skip=(SampleRange(0, 100), SampleRange(200, 300)))
    more = SettingsInForce("ov-3", skip=(SampleRange(0, 150), SampleRange(200, 300)))
    found = cost(*launch(1), ended(1, 9), *launch(2, 0, first), ended(2, 9), *launch(3, 0, more), newest=20, tokens=2048.0)
    assert (found["skipped_samples"], found["skipped_tokens"]) == (250, 250 * 2048)
    assert "250 samples left out (512000 tokens)" in schedule_rows(found)[0][1]


def test_a_change_asked_for_before_the_first_step_and_refused_leaves_what_was_launched() -> None:
    action = a.WriteOverrides("override/1", 1, HALF, 0)
    refused = f.OverridesAnswered(1, HALF.id, 0, ("lr_scale",), whole=True)
    found = cost(*launch(1, settings=NONE), f.ActionDecided(action), f.ActionConfirmed(action.key), refused, newest=9)
    assert found["steps_under"] == {}
    launched = SettingsInForce("ov-1", lr_scale=0.25)
    found = cost(*launch(1, settings=launched), f.ActionDecided(action), f.ActionConfirmed(action.key), refused, newest=9)
    assert found["steps_under"] == {"lr_scale": 9}
