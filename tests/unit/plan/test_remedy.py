"""A rung made absolute: from the incident's own onset, whatever rungs were tried before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sentinel.client.settings import SETTINGS
from sentinel.model.attempts import SampleRange, SettingsInForce
from sentinel.model.findings import Kind
from sentinel.model.incidents import Incident, IncidentState, SampleAnchor
from sentinel.model.state import Checkpoint
from sentinel.plan.remedy import Treatment, build_treatment, choose_checkpoint, margin_steps, skip_window
from sentinel.policy.schema import Rung
from tests.setting_examples import as_policy_writes, example

KEPT = [Checkpoint(step, f"p{step}", 1, step * 10) for step in range(10, 100, 10)]


def rungs(*plain: dict[str, Any]) -> tuple[Rung, ...]:
    return tuple(Rung.model_validate(p) for p in plain)


LADDER = rungs(
    {"wait": {"for": "10 steps"}},
    {"rollback": {"before_onset": "10 steps"}, "skip": {"from": "onset - 2 steps", "to": "detected + 4 steps"}},
    {"rollback": {"further": "2x"}, "skip": {"wider": "2x"}},
    {"rollback": {"further": "2x"}, "skip": {"wider": "2x"}, "lr": "0.5x"},
    {"rollback": {"further": "2x"}, "lr": "0.5x", "clip_norm": 0.3, "until": "50 steps"},
)


def spike(onset: int | None = 81, number: int = 1, kind: Kind = Kind.SPIKE) -> Incident:
    anchor = SampleAnchor(800, 830, 10) if onset is not None else None
    return Incident(number, kind, "critical", "A", "p", 1, onset, 83, 85, 0, 0, "x", samples=anchor)


def build(
    ladder: Sequence[Rung],
    index: int,
    incident: Incident,
    open_incidents: Iterable[Incident],
    in_force: SettingsInForce,
    is_alive: bool,
    new_seed: int | None = None,
) -> Treatment:
    """With the checkpoints of every tenth step."""
    return build_treatment(
        ladder,
        index,
        incident,
        checkpoints=KEPT,
        open_incidents=open_incidents,
        in_force=in_force,
        is_alive=is_alive,
        new_seed=new_seed,
    )


@pytest.mark.parametrize(("index", "margin"), [(0, 1), (1, 10), (2, 20), (3, 40), (4, 80)])
def test_further_multiplies_what_the_rungs_above_say(index: int, margin: int) -> None:
    assert margin_steps(LADDER, index) == margin


@pytest.mark.parametrize(("index", "wanted"), [(1, (780, 870)), (2, (760, 910)), (3, (720, 990)), (4, None), (0, None)])
def test_wider_multiplies_both_reaches_from_the_same_anchor(index: int, wanted: tuple[int, int] | None) -> None:
    assert skip_window(LADDER, index, spike()) == (SampleRange(*wanted) if wanted else None)


def test_a_skip_whose_place_in_the_data_is_unknown_skips_nothing_and_says_so() -> None:
    treatment = build(LADDER, 1, spike(onset=None), [], SettingsInForce(), True)
    assert treatment.overrides.skip == ()
    assert "the place in the data is unknown" in treatment.remedy.reason


@pytest.mark.parametrize(("index", "step"), [(1, 70), (2, 60), (3, 40), (4, 10)])
def test_each_rung_starts_where_its_own_distance_says(index: int, step: int) -> None:
    treatment = build(LADDER, index, spike(), [spike()], SettingsInForce(), True)
    assert (treatment.remedy.rollback_to_step, treatment.resume and treatment.resume.step) == (step, step)


def test_settings_last_until_so_many_steps_past_the_break() -> None:
    treatment = build(LADDER, 4, spike(), [spike()], SettingsInForce(), True)
    assert (treatment.overrides.lr_scale, treatment.overrides.clip_norm) == (0.5, 0.3)
    assert dict(treatment.overrides.until) == {"lr_scale": 135, "clip_norm": 135}


def test_skips_grow_and_other_settings_of_this_incident_start_again() -> None:
    now = SettingsInForce(
        "ov-2", incident=1, lr_scale=0.5, skip=(SampleRange(0, 5), SampleRange(790, 800)), owners=(("lr_scale", 1),)
    )
    treatment = build(LADDER, 2, spike(), [spike()], now, True)
    assert treatment.overrides.lr_scale is None
    assert treatment.overrides.skip == (SampleRange(0, 5), SampleRange(760, 910))


@pytest.mark.parametrize(
    ("index", "onset", "step", "is_held"),
    [
        (1, 45, 40, True),  # ten steps before its own onset, and before the other's; not ten steps before the other's
        (3, 45, 40, False),  # 40 steps before its own onset lies before the other's
        (4, 45, 10, False),  # rung 5 goes back 80 steps: its own distance is the longer one
        (1, 95, 70, False),  # an onset behind its own changes nothing
        (2, 15, 10, True),  # as far as it goes back is more than lies before the other's onset: no start from scratch
    ],
)
def test_another_open_incident_holds_the_rollback_back_and_its_depth_is_the_own_one(
    index: int, onset: int, step: int, is_held: bool
) -> None:
    other = replace(spike(onset=onset, number=2), state=IncidentState.PROBATION)
    treatment = build(LADDER, index, spike(), [other, spike()], SettingsInForce(), True)
    assert treatment.remedy.rollback_to_step == step
    says = f"held back by incident 2 (spike, repair on probation), which rules out step {onset} and later"
    assert (says in treatment.remedy.reason) == is_held


def test_a_rung_that_the_policy_has_no_more_goes_on_from_the_newest_before_another_onset() -> None:
    assert choose_checkpoint((), 7, spike(), KEPT, [spike(onset=45, number=2)]).step == 40


def test_what_was_kept_in_the_probation_of_another_incident_may_be_rolled_back_to() -> None:
    other = replace(spike(onset=45, number=2), state=IncidentState.PROBATION, kept_step=60)
    assert choose_checkpoint(LADDER, 1, spike(), KEPT, [other, spike()]).step == 60
    assert choose_checkpoint(LADDER, 3, spike(), KEPT, [other, spike()]).step == 40


def test_another_onset_before_every_checkpoint_is_named_where_the_run_starts_from_scratch() -> None:
    choice = choose_checkpoint(LADDER, 1, spike(), KEPT, [spike(onset=10, number=2), spike()])
    assert choice.checkpoint is None
    assert "held back by incident 2 (spike, open), which rules out step 10 and later" in choice.reason


@pytest.mark.parametrize("kind", [Kind.CRASH, Kind.HANG, Kind.STRAGGLER, Kind.SLOWDOWN, Kind.GPU_FAULT])
def test_an_open_incident_that_is_not_about_numbers_moves_no_rollback(kind: Kind) -> None:
    for onset in (45, None):
        other = spike(onset=onset, number=2, kind=kind)
        assert choose_checkpoint(LADDER, 1, spike(), KEPT, [other, spike()]).step == 70


def test_a_crash_counts_its_rollback_from_where_it_broke() -> None:
    crash = spike(onset=None, kind=Kind.CRASH)
    assert build(LADDER, 1, crash, [crash], SettingsInForce(), False).remedy.rollback_to_step == 70
    healing = spike(onset=45, number=2)
    assert build(LADDER, 1, crash, [healing, crash], SettingsInForce(), False).remedy.rollback_to_step == 40


@pytest.mark.parametrize(
    ("plain", "alive", "relaunch"),
    [
        ({"lr": "0.5x"}, True, False),
        ({"lr": "0.5x"}, False, True),
        ({"resume": {"from": "newest"}}, True, True),
        ({"reset_optimizer": True, "resume": {}}, True, True),
        ({"precision": "fp32", "resume": {}}, True, True),
    ],
)
def test_settings_alone_are_applied_live_where_a_trainer_lives(plain: dict[str, Any], alive: bool, relaunch: bool) -> None:
    treatment = build(rungs(plain), 0, spike(), [spike()], SettingsInForce(), alive)
    assert (treatment.relaunch, treatment.remedy.live) == (relaunch, not relaunch)


GUILTY = rungs(
    {"rollback": {"before_onset": "10 steps"}, "skip": {"from": "onset - 2 steps", "to": "detected + 4 steps", "only": "guilty"}},
    {"rollback": {"further": "2x"}, "skip": {"wider": "2x"}},
)


def test_a_skip_of_the_guilty_is_of_the_whole_window_until_it_was_looked_at() -> None:
    treatment = build(GUILTY, 0, spike(), [spike()], SettingsInForce(skip=(SampleRange(0, 5),)), True)
    assert treatment.inspection is not None
    assert (treatment.inspection.suspect, treatment.inspection.samples) == (SampleRange(780, 870), (SampleRange(524, 870),))
    assert (treatment.inspection.overrides.skip, treatment.inspection.within_s) == ((SampleRange(0, 5),), 1800.0)
    assert treatment.overrides.skip == (SampleRange(0, 5), SampleRange(780, 870))
    assert "skip the guilty of samples 780..870" in treatment.remedy.reason
    assert build(GUILTY, 1, spike(), [spike()], SettingsInForce(), True).inspection is None


def test_a_window_too_wide_to_look_at_is_skipped_whole_and_the_reason_says_so() -> None:
    huge = replace(spike(), samples=SampleAnchor(800_000, 830_000, 10_000))
    treatment = build(GUILTY, 0, huge, [huge], SettingsInForce(), True)
    assert treatment.inspection is not None, "90000 samples are not too many"
    huge = replace(spike(), samples=SampleAnchor(800_000, 950_000, 10_000))
    treatment = build(GUILTY, 0, huge, [huge], SettingsInForce(), True)
    assert treatment.inspection is None
    assert "more than 100000 samples are not looked at one by one" in treatment.remedy.reason


def test_a_new_data_order_begins_at_the_relaunch_and_forgets_the_skips_of_the_old_one() -> None:
    rung = rungs({"rollback": {"before_onset": "10 steps"}, "reseed_data": True})
    now = SettingsInForce(skip=(SampleRange(0, 5),), lr_scale=0.5)
    treatment = build(rung, 0, spike(), [spike()], now, True, new_seed=77)
    assert (treatment.overrides.data_seed, treatment.overrides.skip, treatment.overrides.lr_scale) == (77, (), 0.5)
    assert "a new data order, seed 77" in treatment.remedy.reason
    assert treatment.remedy.skip == ()


def test_an_incident_placed_in_another_data_order_skips_nothing() -> None:
    treatment = build(LADDER, 1, spike(), [spike()], SettingsInForce(data_seed=77), True)
    assert treatment.overrides.skip == ()
    assert "the place in the data is unknown" in treatment.remedy.reason
    anchored = replace(spike(), samples=SampleAnchor(800, 830, 10, 77))
    assert build(LADDER, 1, anchored, [anchored], SettingsInForce(data_seed=77), True).overrides.skip


# Values whose words are checked one by one; `weight_decay` 0 asks for something, too.
SAID: dict[str, Any] = {
    "lr_scale": 0.5, "clip_norm": 0.3, "weight_decay": 0.0, "betas": (0.9, 0.98), "eps": 1e-6, "embed_grad_scale": 0.1,
    "loss_scale": 1024.0, "reset_optimizer": True, "precision": "fp16", "checkpoint_interval": 50,
}  # fmt: skip


def test_a_remedy_says_and_keeps_every_setting_of_its_rung() -> None:
    rows = {key: row for key, row in SETTINGS.items() if row.word is not None}
    values = {key: example(row) for key, row in rows.items()} | SAID
    assert set(values) == set(rows), "a rung of every setting that a rung can give"
    settings = {row.word: as_policy_writes(row, values[key]) for key, row in rows.items()}
    rung = {"rollback": {"before_onset": "100 steps"}, **settings, "reseed_data": True, "until": "200 steps"}
    treatment = build(rungs(rung), 0, spike(), (), SettingsInForce(), True, new_seed=7)
    remedy = treatment.remedy
    assert {key: getattr(remedy, key) for key in SETTINGS} == values | {"data_seed": 7}
    assert {key: getattr(treatment.overrides, key) for key in SETTINGS} == values | {"data_seed": 7}
    assert "; ".join(SETTINGS[key].remedy(value) for key, value in values.items()) in remedy.reason
    assert remedy.reason.endswith("a new data order, seed 7")


def test_a_remedy_says_its_settings_in_words_for_people() -> None:
    words = "; ".join(SETTINGS[key].remedy(value) for key, value in SAID.items())
    assert words == (
        "learning rate 0.5x; clip at 0.3; weight decay 0; betas 0.9 0.98; eps 1e-06; embedding gradient scale 0.1; "
        "loss scale 1024; reset the optimizer; precision fp16; a checkpoint every 50 steps"
    )


def test_a_resume_from_far_ahead_of_what_was_seen_is_taken_and_says_so() -> None:
    found = replace(spike(onset=None), break_step=85)
    near, far = Checkpoint(95, "p95", 1, 950), Checkpoint(1425, "p1425", 1, 14250)
    choice = choose_checkpoint((), 0, found, [*KEPT, near], ())
    assert choice.reason == "checkpoint of step 95, the newest"
    choice = choose_checkpoint((), 0, found, [*KEPT, far], ())
    assert choice.checkpoint is far
    assert choice.reason == "checkpoint of step 1425, the newest; 1340 steps ahead of step 85, the newest that was seen"
