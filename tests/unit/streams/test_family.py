"""A family of metrics: which rows hold a member, whatever the trainer calls it."""

from __future__ import annotations

from sentinel.streams.family import STEPS_KEPT, MetricFamily, members_of
from sentinel.streams.series import Series
from tests.unit.detectors.bank_kit import row


def test_the_members_stand_in_the_order_of_the_row() -> None:
    assert list(members_of("norm/", {"norm": 1, "norm/b": 1, "loss": 1, "norm/a": 1})) == ["norm/b", "norm/a"]


def test_a_row_holds_a_member_or_not() -> None:
    family = MetricFamily("norm/")
    rows = [{"loss": 1.0}, {"loss": 1.0, "norm/a": 1.0}, {"loss": 1.0, "norm": 1.0}, {"norm/b": 1.0}, {"loss": 1.0}]
    assert [family.take(step, metrics) for step, metrics in enumerate(rows)] == [False, True, False, True, False]
    assert list(family.steps) == [1, 3]


def test_a_series_knows_the_newest_steps_of_what_it_tracks() -> None:
    series = Series(("loss", "norm/"))
    for step in range(1, 40):
        series.add(row(step, loss=1.0, **({"norm/a": 1.0} if step % 10 == 0 else {})))
        assert series.families == (("norm/",) if step % 10 == 0 else ())
    assert series.newest_steps("norm/") == [10, 20, 30]
    assert series.newest_steps("loss") == list(range(40 - STEPS_KEPT, 40))
    assert series.newest_steps("lr") == []
    series.begin()
    assert series.newest_steps("norm/") == []
