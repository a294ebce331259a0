"""What a remedy is expected to do, as one sentence in the words of its probation."""

from __future__ import annotations

from sentinel.model.attempts import SampleRange
from sentinel.model.findings import Kind
from sentinel.model.incidents import Band, Incident, Remedy
from sentinel.plan.effect import predict_effect


def incident(kind: Kind, break_step: int, band: Band | None) -> Incident:
    return Incident(1, kind, "critical", "A", "p", 1, 81, 83, break_step, 0, 0, "x", band=band)


REMEDY = Remedy(1, ("rollback", "skip"), "chosen", rollback_to_step=75, skip=(SampleRange(1536, 1600), SampleRange(1700, 1710)))


def test_a_rollback_says_where_the_metric_will_stand_and_what_it_costs() -> None:
    spike = incident(Kind.SPIKE, 103, Band("loss", 2.801, 0.02, 40))
    said = predict_effect(REMEDY, spike, 106, 60, 0.02, may_find=False, is_alive=False)
    assert said == (
        "loss within 2 % of 2.801 for 60 steps past step 103; 31 steps are trained again; 74 samples are not trained on"
    )
    assert "; at most 31 steps are trained again;" in predict_effect(REMEDY, spike, 106, 60, 0.02, may_find=True, is_alive=False)


def test_what_has_no_band_must_only_not_come_again() -> None:
    crash = incident(Kind.CRASH, 103, None)
    resumed = Remedy(0, ("resume",), "chosen", rollback_to_step=103)
    said = predict_effect(resumed, crash, 103, 60, 0.02, may_find=True, is_alive=False)
    assert said == "no other crash for 60 steps past step 103"


def test_a_live_change_trains_nothing_again() -> None:
    spike = incident(Kind.SPIKE, 9, Band("loss", 2.0, 0.1, 40))
    remedy = Remedy(0, ("lr",), "chosen", lr_scale=0.5, live=True)
    said = predict_effect(remedy, spike, 12, 300, 0.02, may_find=True, is_alive=False)
    assert said == "loss within 2 % of 2 for 300 steps past step 9; nothing is trained again"


def test_what_a_living_attempt_trains_until_it_is_stopped_is_bounded_by_nothing() -> None:
    """Before, 'at most 31 steps' stood beside 38 that were."""
    spike = incident(Kind.SPIKE, 103, Band("loss", 2.801, 0.02, 40))
    said = predict_effect(REMEDY, spike, 106, 60, 0.02, may_find=False, is_alive=True)
    assert "; at least 31 steps are trained again;" in said
    said = predict_effect(REMEDY, spike, 106, 60, 0.02, may_find=True, is_alive=True)
    assert "; 31 steps so far are trained again, more until it is stopped, fewer from a newer checkpoint;" in said
    said = predict_effect(REMEDY, spike, 75, 60, 0.02, may_find=False, is_alive=True)
    assert "; what it trains until it is stopped is trained again;" in said
