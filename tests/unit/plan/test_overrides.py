"""Settings across a relaunch, and whether the trainer's receipt says what was asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sentinel.model.attempts import PERSON, ResumePoint, SampleRange, SettingsInForce
from sentinel.model.readings import Receipt
from sentinel.plan.overrides import draw_data_seed, for_relaunch, judge_receipt, with_rung
from sentinel.policy.schema import Rung


def receipt(step: int = 100, said: dict[str, Any] | None = None, **effective: Any) -> Receipt:
    return Receipt(2, 0.0, step, None, 2, said or {}, effective)


def test_settings_that_have_lapsed_by_the_resume_step_are_dropped_and_the_skips_stay() -> None:
    until = (("lr_scale", 100), ("clip_norm", 200))
    now = SettingsInForce("ov-1", 1, lr_scale=0.5, clip_norm=0.3, skip=(SampleRange(0, 5),), until=until)
    after = for_relaunch(now, 100, None)
    assert (after.lr_scale, after.clip_norm, after.until, after.skip) == (None, 0.3, (("clip_norm", 200),), now.skip)
    assert for_relaunch(now, 98, None).lr_scale == 0.5, "the next step is 99, and it lapses at 100"


def test_the_optimizer_is_reset_once() -> None:
    assert not for_relaunch(SettingsInForce(reset_optimizer=True), 100, None).reset_optimizer


def test_an_incidents_own_settings_are_dropped_and_anothers_are_kept() -> None:
    owned = (("lr_scale", 1), ("clip_norm", 2), ("eps", PERSON))
    now = SettingsInForce("ov-1", 2, lr_scale=0.5, clip_norm=0.3, eps=1e-6, skip=(SampleRange(0, 5),), owners=owned)
    assert for_relaunch(now, 100, 1) == replace(now, lr_scale=None, owners=owned[1:])
    assert for_relaunch(now, 100, 2) == replace(now, clip_norm=None, incident=1, owners=(owned[0], owned[2]))
    assert for_relaunch(now, 100, 2).lr_scale == 0.5


def test_a_rung_lays_its_settings_over_what_holds() -> None:
    rung = Rung.model_validate({"clip_norm": 0.3, "until": "50 steps"})
    now = SettingsInForce("ov-1", 1, lr_scale=0.5, until=(("lr_scale", 100), ("clip_norm", 90)))
    after = with_rung(now, rung, 2, 150, (SampleRange(5, 9),))
    assert (after.incident, after.lr_scale, after.clip_norm) == (2, 0.5, 0.3)
    assert after.until == (("lr_scale", 100), ("clip_norm", 150))
    assert after.skip == (SampleRange(5, 9),)


@pytest.mark.parametrize(
    ("asked", "got", "wrong"),
    [
        (SettingsInForce(), receipt(), ""),
        (SettingsInForce(), receipt(90), ""),
        (SettingsInForce(), receipt(101), "newer than the step 100"),
        (SettingsInForce(clip_norm=0.3), receipt(clip_norm=0.3000001), ""),
        (SettingsInForce(clip_norm=0.3), receipt(clip_norm=1.0), "clip_norm is 1.0, asked for 0.3"),
        (SettingsInForce(clip_norm=0.3), receipt(), "clip_norm is None"),
        (SettingsInForce(weight_decay=0.0), receipt(weight_decay=False), "weight_decay is False"),
        (SettingsInForce(betas=(0.9, 0.95)), receipt(betas=[0.9, 0.95]), ""),
        (SettingsInForce(betas=(0.9, 0.95)), receipt(betas=[0.9, 0.999]), "betas are"),
        (SettingsInForce(betas=(0.9, 0.95)), receipt(betas=0.9), "betas are"),
        (SettingsInForce(lr_scale=0.5), receipt(said={"lr_scale": 0.5}), ""),
        (SettingsInForce(lr_scale=0.5), receipt(), "lr_scale is None"),
        (SettingsInForce(data_seed=7), receipt(data_seed=7), ""),
        (SettingsInForce(data_seed=7), receipt(data_seed=1337), "data_seed is 1337, asked for 7"),
        (SettingsInForce(data_seed=7), receipt(said={"data_seed": 7}), "data_seed is None"),  # repeated, not in force
        (SettingsInForce(data_seed=7, skip=(SampleRange(5, 9),)), receipt(said={"skip": [[5, 9, 7]]}, data_seed=7), ""),
        (
            SettingsInForce(data_seed=7, skip=(SampleRange(5, 9),)),
            receipt(said={"skip": [[5, 9, 1]]}, data_seed=7),
            "samples 5..9",
        ),
        (
            SettingsInForce(lr_scale=0.5),
            receipt(said={"lr_scale": 0.5}, lr_scale=1.0),
            "lr_scale is 1.0",
        ),  # repeated, not in force
        (SettingsInForce(), replace(receipt(), resume_digest="d1"), ""),
        (SettingsInForce(), replace(receipt(), resume_digest="d2"), "digest d2, asked for d1"),
        (SettingsInForce(), replace(receipt(90), resume_digest="d2"), ""),  # passed over for an older one: another digest
        (SettingsInForce(skip=(SampleRange(5, 9),)), receipt(said={"skip": [[5, 9]]}), ""),
        (SettingsInForce(skip=(SampleRange(5, 9),)), receipt(said={"skip": [[7, 9]]}), ""),  # clamped at its cursor
        (SettingsInForce(skip=(SampleRange(5, 9),)), replace(receipt(said={"skip": [[7, 9]]}), cursor=5), "not in the trainer's"),
        (SettingsInForce(skip=(SampleRange(5, 9),)), replace(receipt(said={"skip": []}), cursor=9), ""),
        (SettingsInForce(skip=(SampleRange(5, 9),)), receipt(said={"skip": [[5, 8]]}), "samples 5..9"),
        (SettingsInForce(skip=(SampleRange(5, 9),)), receipt(said={"skip": "all"}), "samples 5..9"),
        (SettingsInForce(skip=(SampleRange(5, 9),)), receipt(said={"skip": [[9, 5], [1]]}), "samples 5..9"),
    ],
)
def test_a_receipt_is_held_against_what_was_asked(asked: SettingsInForce, got: Receipt, wrong: str) -> None:
    found = "; ".join(judge_receipt(asked, ResumePoint(100, "checkpoints/step-00000100", "d1"), got))
    assert wrong in found
    assert bool(wrong) == bool(found)


def test_only_a_first_launch_may_adopt_a_checkpoint_that_nobody_named() -> None:
    adopted = Receipt(1, 0.0, 40, None, 1, {}, {}, adopted=True)
    assert judge_receipt(SettingsInForce(), None, adopted) == ()
    named = ResumePoint(20, "checkpoints/step-00000020", "d1")
    for got, resume in ((replace(adopted, adopted=False), None), (replace(adopted, attempt=2), None), (adopted, named)):
        (wrong,) = judge_receipt(SettingsInForce(), resume, got)
        assert "newer than the step" in wrong


def test_a_trainer_under_a_profile_that_shows_its_first_steps_again_did_not_resume() -> None:
    resume, got = ResumePoint(100, "checkpoints/step-00000100", "d1"), Receipt(2, 0.0, 0, None, 1, {}, {}, profile="mine")
    (wrong,) = judge_receipt(SettingsInForce(), resume, got)
    assert "asked to resume from step 100: it ignores how the profile mine asks for that, or numbers its steps anew" in wrong
    assert not judge_receipt(SettingsInForce(), resume, replace(got, resume_step=50)), "an older checkpoint"
    assert not judge_receipt(SettingsInForce(), resume, replace(got, profile=None)), "says by itself where it is, and why"
    assert not judge_receipt(SettingsInForce(), None, got), "was asked to"


@pytest.mark.parametrize("skip", [[["a", "b"]], [[1.5, "x"]], [None], [[None, 3]], [5]])
def test_a_skip_list_that_is_no_list_of_ranges_is_a_difference_and_no_crash(skip: Any) -> None:
    assert judge_receipt(SettingsInForce(skip=(SampleRange(5, 9),)), None, receipt(said={"skip": skip}))


def test_a_seed_is_the_same_for_the_same_launch_and_another_for_any_other() -> None:
    assert draw_data_seed("big-run", 3, 12) == draw_data_seed("big-run", 3, 12) == 2071368121
    drawn = {draw_data_seed(run, i, n) for run in ("a", "b") for i in range(20) for n in range(20)}
    assert len(drawn) == 800
    assert all(0 <= seed < 2**31 for seed in drawn)


def test_a_new_data_order_outlives_every_relaunch() -> None:
    assert for_relaunch(SettingsInForce(data_seed=7), 100, 1).data_seed == 7
