"""A family of metrics: which rows hold a member, whatever the trainer calls it."""

from __future__ import annotations

from sentinel.streams.family import STEPS_KEPT, members_of
from sentinel.streams.series import Series
from tests.unit.detectors.bank_kit import row


def test_the_members_stand_in_the_order_of_the_row() -> None:
    assert list(members_of("norm/", {"norm": 1, "norm/b": 1, "loss": 1, "norm/a": 1})) == ["norm/b", "norm/a"]


def test_a_row_holds_a_member_or_not() -> None:
    series = Series(("norm/",))
    rows = [{"loss": 1.0}, {"loss": 1.0, "norm/a": 1.0}, {"loss": 1.0, "norm": 1.0}, {"norm/b": 1.0}, {"loss": 1.0}]
    for step, metrics in enumerate(rows, 1):
        series.add(row(step, **metrics))
    assert series.newest_steps("norm/") == [2, 4]


def test_what_is_tracked_later_is_kept_of_rows_of_a_shape_that_was_seen() -> None:
    series = Series(("loss",))
    series.add(row(1, **{"loss": 1.0, "norm/a": 1.0, "lr": 1.0}))
    series.track(("lr", "norm/"))
    series.add(row(2, **{"loss": 1.0, "norm/a": 1.0, "lr": 1.0}))
    assert (series.newest_steps("lr"), series.newest_steps("norm/")) == ([2], [2])


def test_a_series_knows_the_newest_steps_of_what_it_tracks() -> None:
    series = Series(("loss", "norm/"))
    for step in range(1, 40):
        series.add(row(step, loss=1.0, **({"norm/a": 1.0} if step % 10 == 0 else {})))
    assert series.newest_steps("norm/") == [10, 20, 30]
    assert series.newest_steps("loss") == list(range(40 - STEPS_KEPT, 40))
    assert series.newest_steps("lr") == []
    series.begin()
    assert series.newest_steps("norm/") == []
