"""Which setting lapses next, what is put back and for how long, and how far the trainer's own lapse is put off."""

from __future__ import annotations

from dataclasses import replace

from sentinel.model.attempts import PERSON, Decay, SettingsInForce
from sentinel.plan.decay import left_to_trainer, next_to_lapse, put_back, put_off
from sentinel.plan.overrides import for_relaunch, laid_over, without

LR = SettingsInForce(lr_scale=0.5)
CLIP = SettingsInForce(clip_norm=0.3)


def both() -> SettingsInForce:
    """Incident 1 halved the rate until step 300; a person clips harder until step 280."""
    now = laid_over(SettingsInForce(), LR, ["lr_scale"], 1, 300, 100, 40)
    return laid_over(now, CLIP, ["clip_norm"], PERSON, 280, 80, 40)


def test_the_newest_that_is_due_goes_first_whoever_set_it() -> None:
    now = both()
    assert next_to_lapse(now, 279) is None
    assert [next_to_lapse(now, step) for step in (280, 300)] == [Decay("clip_norm", 280, 80)] * 2
    assert next_to_lapse(without(now, ["clip_norm"]), 300) == Decay("lr_scale", 300, 100)


def test_the_trainers_own_lapse_is_later_and_without_a_wait_it_is_the_only_one() -> None:
    assert dict(both().until) == {"lr_scale": 340, "clip_norm": 320}
    alone = laid_over(SettingsInForce(), LR, ["lr_scale"], 1, 300)
    assert (alone.decay, alone.until) == ((), (("lr_scale", 300),))


def test_a_relaunch_behind_the_due_step_keeps_what_was_never_taken_back() -> None:
    assert for_relaunch(both(), 310, None).decay == both().decay
    assert for_relaunch(both(), 330, None).decay == (Decay("lr_scale", 300, 100),)


def test_put_back_holds_for_twice_as_long_each_time_and_keeps_its_owner() -> None:
    before = both()
    again = put_back(without(before, ["lr_scale"]), before, ["lr_scale"], 320, 40)
    assert (again.lr_scale, dict(again.owners)["lr_scale"], dict(again.until)["lr_scale"]) == (0.5, 1, 320 + 200 + 40)
    assert Decay("lr_scale", 520, 200) in again.decay
    third = put_back(without(again, ["lr_scale"]), again, ["lr_scale"], 600, 40)
    assert Decay("lr_scale", 1000, 400) in third.decay


def test_what_was_set_anew_is_not_put_back() -> None:
    before = both()
    anew = laid_over(without(before, ["lr_scale"]), replace(LR, lr_scale=0.8), ["lr_scale"], PERSON, None)
    assert put_back(anew, before, ["lr_scale"], 320, 40) == anew


def test_only_what_is_near_is_put_off_and_only_what_sentinel_takes_back() -> None:
    now = both()
    assert put_off(now, 300, 40) is None
    later = put_off(now, 310, 40)
    assert later is not None
    assert dict(later.until) == {"lr_scale": 340, "clip_norm": 350}
    assert put_off(left_to_trainer(now, ["lr_scale", "clip_norm"]), 339, 40) is None
