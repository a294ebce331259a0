"""Values that are no number."""

from __future__ import annotations

import pytest

from sentinel.detectors.loss_missing import KIND as LOSS_MISSING
from sentinel.model.findings import Kind, Verdict
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import alarms, clean_run, feed, make_bank, row

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("metric", ["loss", "val_loss", "param_norm", "adam_v_norm", "adam_v_max", "update_norm"])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_non_finite_loss_or_state_alarms_at_once(metric: str, value: float) -> None:
    bank = make_bank()
    found = feed(bank, [row(1, loss=3.0) if metric != "loss" else row(1, grad_norm=0.3), row(2, **{metric: value})])
    assert [(f.kind, f.severity, f.onset_step, f.metric) for f in found] == [(Kind.NON_FINITE, "critical", 2, metric)]
    assert bank.verdicts()[Kind.NON_FINITE][0] is Verdict.BREACHED


def test_a_nan_on_the_very_first_step_alarms() -> None:
    assert len(alarms(feed(make_bank(), [row(1, loss=NAN)]))) == 1


def test_nan_from_a_step_to_the_end_is_one_finding() -> None:
    found = feed(make_bank(), (row(step, loss=NAN) for step in range(1, 200)))
    assert len(found) == 1


def test_nan_again_after_a_calm_stretch_is_another_finding() -> None:
    rows = [row(step, loss=NAN if step in (10, 15, 60) else 2.0) for step in range(1, 80)]
    assert [f.onset_step for f in feed(make_bank(), rows)] == [10, 60]


def test_one_gated_gradient_is_info() -> None:
    found = feed(make_bank(), [row(1, loss=2.0, grad_norm=0.3), row(2, loss=2.0, grad_norm=NAN, skipped=1.0)])
    assert [(f.severity, f.metric) for f in found] == [("info", "grad_norm")]


def test_five_gated_gradients_in_a_row_alarm_with_the_first_as_onset_and_a_key_of_their_own() -> None:
    found = feed(make_bank(), (row(step, loss=2.0, grad_norm=NAN, skipped=1.0) for step in range(10, 17)))
    assert [(f.severity, f.metric, f.onset_step, f.detected_step) for f in found] == [
        ("info", "grad_norm", 10, 10),
        ("critical", "skipped", 10, 14),
    ]
    assert found[0].key != found[1].key
    assert found[1].visible_s == 10.0


def test_four_gated_and_a_good_one_in_between_do_not_alarm() -> None:
    rows = [row(s, loss=2.0, **({"grad_norm": 0.3} if s % 5 == 0 else {"grad_norm": NAN, "skipped": 1.0})) for s in range(1, 60)]
    assert alarms(feed(make_bank(), rows)) == []


def test_fp16_overflow_is_no_finding() -> None:
    rows = [row(s, loss=2.0, grad_norm=INF, overflow=1.0, skipped=1.0) for s in range(1, 20)]
    assert feed(make_bank(), rows) == []


def test_a_non_finite_gradient_that_was_applied_alarms() -> None:
    found = feed(make_bank(), [row(1, loss=2.0, grad_norm=NAN, skipped=0.0)])
    assert [f.severity for f in found] == ["critical"]
    assert "applied" in found[0].reason


def test_any_other_metric_is_info() -> None:
    found = feed(make_bank(), [row(1, loss=2.0, mfu=NAN, tokens_per_s=INF)])
    assert [(f.severity, f.metric) for f in found] == [("info", "mfu"), ("info", "tokens_per_s")]


def test_a_metric_that_disappears_is_info_once_and_one_that_comes_rarely_is_not() -> None:
    rows = []
    for step in range(1, 200):
        metrics = {"loss": 2.0}
        if step < 100:
            metrics["grad_norm"] = 0.3
        if step % 10 == 0:
            metrics["val_loss"] = 2.5
        rows.append(row(step, **metrics))
    found = feed(make_bank(), rows)
    assert [(f.severity, f.metric, f.onset_step, f.detected_step, f.visible_s) for f in found] == [
        ("info", "grad_norm", 100, 104, 100.0)
    ]


def test_a_metric_that_misses_a_row_or_two_is_no_finding() -> None:
    rows = [row(s, loss=2.0, **({} if s % 30 in (0, 1) else {"grad_norm": 0.3})) for s in range(1, 200)]
    assert feed(make_bank(), rows) == []


def test_a_huge_but_finite_row_is_not_called_non_finite() -> None:
    assert feed(make_bank(), [row(1, loss=1.7e308, param_norm=1.7e308)]) == []


def test_a_clean_run_is_healthy_and_an_unread_one_unknown() -> None:
    bank = make_bank()
    assert bank.verdicts()[Kind.NON_FINITE][0] is Verdict.UNKNOWN
    feed(bank, clean_run(5, 1))
    assert bank.verdicts()[Kind.NON_FINITE][0] is Verdict.HEALTHY


def test_ten_nan_iterations_in_one_row_are_certain_at_once() -> None:
    """Megatron's row over ten iterations, all of them skipped: no loss stands in it."""
    rows = [row(step, loss=2.0) for step in range(10, 310, 10)]
    found = alarms(feed(make_bank(), [*rows, row(310, skipped=1.0, nan_iterations=10.0)]))
    assert [(f.severity, f.metric, f.onset_step, f.detected_step, f.value) for f in found] == [
        ("critical", "nan_iterations", 301, 310, 10.0)
    ]


def test_a_loss_that_vanishes_while_nan_iterations_are_counted_does_not_stay_info() -> None:
    rows = [row(step, loss=2.0) for step in range(1, 31)]
    gone = [row(step, skipped=1.0, nan_iterations=1.0) for step in range(31, 330)]
    found = alarms(feed(make_bank(), [*rows, *gone]))
    assert [(f.severity, f.metric, f.onset_step, f.detected_step) for f in found] == [("critical", "nan_iterations", 31, 35)]


def test_a_few_nan_iterations_among_good_ones_do_not_alarm() -> None:
    some = {"skipped": 1.0, "nan_iterations": 4.0}
    rows = [row(step, loss=2.0, **(some if step % 30 == 0 else {})) for step in range(10, 900, 10)]
    assert alarms(feed(make_bank(), rows)) == []


@pytest.mark.parametrize("count", [NAN, INF, -3.0, 0.5])
def test_a_count_that_is_none_counts_nothing(count: float) -> None:
    rows = [row(step, loss=2.0, nan_iterations=count) for step in range(1, 40)]
    assert [f for f in alarms(feed(make_bank(), rows)) if f.metric == "nan_iterations"] == []


def counted(step: int, bad: float, *, metric: str = "nan_iterations", loss: bool = True) -> StepReading:
    """A row over ten iterations, `bad` of them bad."""
    return row(step, grad_norm=0.3, **({"loss": 2.0} if loss else {}), **({"skipped": 1.0, metric: bad} if bad else {}))


def test_nan_iterations_in_every_other_row_are_not_forgotten_in_the_rows_between() -> None:
    before = [counted(step, 0) for step in range(10, 310, 10)]
    rows = [counted(step, 4 if step % 20 else 0, loss=step % 20 == 0) for step in range(310, 900, 10)]
    found = alarms(feed(make_bank(), [*before, *rows]))
    assert [(f.severity, f.metric, f.onset_step, f.detected_step, f.value) for f in found] == [
        ("critical", "nan_iterations", 301, 350, 12.0)
    ]


def test_updates_that_are_all_left_out_alarm_although_loss_and_gradient_are_numbers() -> None:
    before = [counted(step, 0) for step in range(10, 310, 10)]
    rows = [counted(step, 10, metric="skipped_iterations") for step in range(310, 900, 10)]
    found = alarms(feed(make_bank(), [*before, *rows]))
    assert [(f.kind, f.severity, f.metric, f.onset_step, f.detected_step) for f in found] == [
        (Kind.NON_FINITE, "critical", "skipped", 301, 350)
    ]
    assert "50 updates were left out since step 301" in found[0].reason


def test_updates_left_out_while_fp16_searches_its_scale_and_one_in_every_third_row_do_not_alarm() -> None:
    searching = [row(step, loss=2.0, grad_norm=0.3, skipped=1.0) for step in range(1, 33)]
    rows = [row(step, loss=2.0, grad_norm=0.3, skipped=float(step % 3 == 0)) for step in range(33, 900)]
    assert alarms(feed(make_bank(), [*searching, *rows])) == []
    seldom = [row(step, loss=2.0, grad_norm=0.3, skipped=1.0) for step in range(100, 90000, 100)]
    assert alarms(feed(make_bank(), seldom)) == []  # of a hundred updates one is known to be left out


def test_a_loss_that_stays_away_while_training_goes_on_becomes_a_warning_once() -> None:
    rows = [row(step, grad_norm=0.3, **({"loss": 2.0} if step <= 300 else {})) for step in range(1, 3000)]
    found = alarms(feed(make_bank(), rows))
    assert [(f.kind, f.severity, f.onset_step, f.detected_step, f.visible_s) for f in found] == [
        (LOSS_MISSING, "warning", 301, 350, 301.0)
    ]


def test_a_loss_that_comes_now_and_then_or_comes_back_is_no_warning() -> None:
    now_and_then = [row(s, grad_norm=0.3, **({"loss": 2.0} if s <= 100 or s % 50 == 0 else {})) for s in range(1, 900)]
    back = [row(s, grad_norm=0.3, **({} if 100 < s <= 149 else {"loss": 2.0})) for s in range(1, 300)]
    never = [row(s, grad_norm=0.3) for s in range(1, 300)]
    for rows in (now_and_then, back, never):
        assert alarms(feed(make_bank(), rows)) == []


def test_a_vanished_loss_is_told_once_where_nan_iterations_alarm_already() -> None:
    rows = [counted(step, 10 if step > 300 else 0, loss=step <= 300) for step in range(10, 3000, 10)]
    assert [f.kind for f in alarms(feed(make_bank(), rows))] == [Kind.NON_FINITE]
