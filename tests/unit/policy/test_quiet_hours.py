"""Windows that mute: begins are in and ends are out; days, ranges over midnight, clocks that are set, windows that come once."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from sentinel.model.paging import PageHold
from sentinel.policy import timezones
from sentinel.policy.quantities import Malformed
from sentinel.policy.quiet_hours import end_of, free_at, hold_words, is_active, mute_words
from sentinel.policy.schema_mute import Mute

BERLIN = "Europe/Berlin"


def mute(**more: Any) -> Mute:
    return Mute.model_validate({"name": "nights", "timezone": BERLIN, **more})


def at(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


NIGHTS = mute(times=["22:00-07:00"])
WEEKNIGHTS = mute(times=["22:00-07:00"], days=["mon-fri"])
MOVE = mute(name="move", **{"from": "2026-12-01 08:00", "to": "2026-12-04 18:30"})


@pytest.mark.parametrize(
    ("window", "when", "muted"),
    [
        (NIGHTS, "2026-11-26 21:59:59", False),
        (NIGHTS, "2026-11-26 22:00:00", True),
        (NIGHTS, "2026-11-27 00:00:00", True),
        (NIGHTS, "2026-11-27 06:59:59", True),
        (NIGHTS, "2026-11-27 07:00:00", False),
        # A stretch over midnight belongs to the day on which it begins: Friday's lasts into Saturday, Sunday has none.
        (WEEKNIGHTS, "2026-11-27 23:00", True),
        (WEEKNIGHTS, "2026-11-28 06:59", True),
        (WEEKNIGHTS, "2026-11-28 23:00", False),
        (WEEKNIGHTS, "2026-11-30 06:59", False),
        (mute(days=["sat-mon"]), "2026-11-28 00:00", True),
        (mute(days=["sat-mon"]), "2026-11-30 23:59", True),
        (mute(days=["sat-mon"]), "2026-12-01 00:00", False),
        (mute(times=["12:00-13:00", "20:00-24:00"]), "2026-11-28 23:59", True),
        (mute(times=["12:00-13:00", "20:00-24:00"]), "2026-11-28 13:00", False),
        (MOVE, "2026-12-01 07:59", False),
        (MOVE, "2026-12-01 08:00", True),
        (MOVE, "2026-12-04 18:30", False),
    ],
)
def test_a_window_mutes_from_its_begin_up_to_its_end(window: Mute, when: str, muted: bool) -> None:
    assert is_active(window, at(when)) is muted


def test_a_window_that_comes_once_and_has_hours_mutes_at_those_hours() -> None:
    both = mute(times=["22:00-07:00"], **{"from": "2026-12-01 23:00", "to": "2026-12-03 03:00"})
    spans = [("2026-12-01 22:30", False), ("2026-12-01 23:30", True), ("2026-12-02 12:00", False), ("2026-12-03 02:00", True)]
    assert [is_active(both, at(when)) for when, _ in [*spans, ("2026-12-03 04:00", False)]] == [*(m for _, m in spans), False]
    assert end_of(both, at("2026-12-03 02:00")) == at("2026-12-03 03:00")


def test_the_hours_follow_the_clocks_of_their_zone() -> None:
    """07:00 in Berlin is 06:00 UTC in winter and 05:00 in summer; another zone has its own night at the same time."""
    assert end_of(NIGHTS, at("2026-01-10 23:00")) == at("2026-01-11 06:00", "UTC")
    assert end_of(NIGHTS, at("2026-07-10 23:00")) == at("2026-07-11 05:00", "UTC")
    tokyo = mute(timezone="Asia/Tokyo", times=["22:00-07:00"])
    assert [is_active(window, at("2026-07-10 15:00")) for window in (tokyo, NIGHTS)] == [True, False]


def test_the_night_in_which_an_hour_is_left_out_is_an_hour_shorter() -> None:
    begin, end = at("2026-03-28 22:00"), at("2026-03-29 07:00")
    assert end - begin == 8 * 3600
    assert end_of(NIGHTS, begin) == end
    # What lies wholly in the hour that is left out is never, and what ends in it ends when the clocks are set.
    gone, into = mute(times=["02:15-02:45"]), mute(times=["01:00-02:30"])
    assert not any(is_active(gone, at("2026-03-29 01:00") + minute * 60) for minute in range(180))
    assert end_of(into, at("2026-03-29 01:30")) == at("2026-03-29 03:00")


def test_an_hour_that_is_shown_twice_is_muted_twice() -> None:
    hour = mute(times=["02:00-03:00"])
    first, second = at("2026-10-25 02:30"), at("2026-10-25 02:30", fold=1)
    assert second - first == 3600
    assert [is_active(hour, moment) for moment in (first, second)] == [True, True]
    assert end_of(hour, first) == at("2026-10-25 03:00")
    half = mute(times=["02:00-02:30"])
    assert end_of(half, at("2026-10-25 02:10")) == at("2026-10-25 02:30")
    assert is_active(half, at("2026-10-25 02:10", fold=1)), "muted again, half an hour later"


def test_windows_that_follow_one_another_end_with_the_last() -> None:
    early = mute(name="early", times=["06:30-09:00"])
    assert free_at([NIGHTS, early], at("2026-11-26 23:00")) == at("2026-11-27 09:00")
    assert free_at([NIGHTS, early], at("2026-11-27 12:00")) == at("2026-11-27 12:00"), "free now"
    assert free_at([MOVE], at("2026-12-02 00:00")) == at("2026-12-04 18:30")
    day = mute(name="days", times=["07:00-22:00"])
    assert free_at([NIGHTS, day], at("2026-11-27 12:00")) is None, "together they never end"


def test_a_window_of_weeks_ends_when_it_says() -> None:
    long = mute(name="long", **{"from": "2026-12-01 08:00", "to": "2027-02-01 00:00"})
    assert end_of(long, at("2026-12-05 00:00")) == at("2027-02-01 00:00")
    always = mute(name="long", days=["mon-sun"], **{"from": "2026-12-01 08:00", "to": "2027-02-01 00:00"})
    assert end_of(always, at("2026-12-05 00:00")) == at("2027-02-01 00:00")


def test_a_window_that_begins_or_ends_at_a_time_that_is_left_out_does_so_when_the_clocks_are_set() -> None:
    """02:00 CET is 03:00 CEST that night; half past two would be muted from half past one on."""
    begins = mute(**{"from": "2026-03-29 02:30", "to": "2026-03-29 04:00"})
    ends = mute(**{"from": "2026-03-29 01:00", "to": "2026-03-29 02:30"})
    assert begins.begins_s == ends.ends_s == at("2026-03-29 03:00")
    assert not is_active(begins, at("2026-03-29 01:45"))
    assert is_active(ends, at("2026-03-29 01:59"))
    whole_day = mute(timezone="Pacific/Apia", **{"from": "2011-12-30 12:00", "to": "2011-12-31 12:00"})
    assert whole_day.ends_s - whole_day.begins_s == 12 * 3600.0, "there was no 30 December"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Australia/Lord_Howe", "UTC"])
def test_the_farthest_windows_can_be_told_everywhere(zone: str) -> None:
    farthest = mute(timezone=zone, **{"from": "1970-01-01 00:00", "to": "2999-12-31 23:59"})
    assert "2999-12-31 23:59" in mute_words(farthest)
    assert end_of(farthest, at("2026-11-26 23:00")) == farthest.ends_s


def test_every_end_is_where_muting_ends_by_the_minute() -> None:
    """Against a walk through every minute, over both nights in which the clocks are set."""
    windows = [NIGHTS, WEEKNIGHTS, mute(times=["01:30-02:15"]), mute(times=["02:30-03:30"], days=["sun"]), mute(days=["sat"])]
    for start in ("2026-03-28 12:00", "2026-10-24 12:00"):
        for window in windows:
            walk = [at(start) + minute * 60.0 for minute in range(3 * 1440)]
            truth = [is_active(window, moment) for moment in walk]
            for index in range(0, 2 * 1440, 7):
                if truth[index] and False in truth[index:]:
                    assert end_of(window, walk[index]) == walk[truth.index(False, index)], (window.name, start, index)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"times": ["22-7"]}, "'22-7' is no stretch of a day"),
        ({"times": ["22:00-22:00"]}, "'22:00-22:00' is no stretch at all"),
        ({"times": ["24:00-07:00"]}, "'24:00-07:00' is no stretch of a day"),
        ({"days": ["monday"]}, "'monday' is no weekday"),
        ({"from": "2026-02-30 08:00", "to": "2026-03-01 08:00"}, "'2026-02-30 08:00' is no date of any calendar"),
        ({"from": "2026-12-01", "to": "2026-12-02 08:00"}, "'2026-12-01' is no date with a time"),
        ({"from": "0001-01-01 00:00", "to": "2026-12-02 08:00"}, "'0001-01-01 00:00' is no date of a run"),
        ({"from": "2026-12-01 08:00", "to": "9999-12-31 23:59"}, "'9999-12-31 23:59' is no date of a run"),
        ({"from": "2026-03-29 02:10", "to": "2026-03-29 02:50"}, "the window ends before it begins"),
        ({"from": "2026-12-01 08:00"}, "'to' is missing"),
        ({"from": "2026-12-01 08:00", "to": "2026-12-01 08:00"}, "the window ends before it begins"),
        ({}, "it never ends"),
        ({"times": ["00:00-12:00", "11:00-24:00"], "days": ["mon-fri", "sat", "sun"]}, "it never ends"),
    ],
)
def test_what_is_no_window_is_refused(written: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        mute(**written)


@pytest.mark.parametrize("zone", ["Berlin", "Europe/Berlim", "Europe", "../../etc/passwd", "localtime", "CEST", "", 7])
def test_a_zone_that_nobody_knows_is_refused_with_the_nearest(zone: object) -> None:
    with pytest.raises(Malformed) as refused:
        timezones.parse_timezone(zone)
    assert "Europe/Berlin" in refused.value.remedy


def test_without_a_database_only_utc_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(timezones, "ZoneInfo", missing)
    monkeypatch.setattr(timezones, "available_timezones", set)
    timezones.zone_of.cache_clear()
    try:
        assert timezones.parse_timezone("UTC") == "UTC"
        with pytest.raises(Malformed, match="this machine has no timezone database") as refused:
            timezones.parse_timezone(BERLIN)
        assert "tzdata" in refused.value.remedy
        assert timezones.wall_text(BERLIN, 0.0) == "Thu 1970-01-01 00:00 UTC", "a journal is read on another machine"
    finally:
        timezones.zone_of.cache_clear()


def test_the_words_say_until_when_and_by_what() -> None:
    evening = at("2026-11-26 23:00")
    near = PageHold(("terminal",), evening, ("nights",), at("2026-11-27 07:00"), BERLIN)
    assert hold_words(near) == "muted until 07:00 CET (nights)"
    far = PageHold(("terminal",), evening, ("move",), at("2026-12-04 18:30"), BERLIN)
    assert hold_words(far) == "muted until Fri 2026-12-04 18:30 CET (move)"
    assert hold_words(PageHold(("terminal",), evening, ("a", "b"))) == "muted with no end in sight (a, b)"
    assert hold_words(PageHold(("terminal",), evening, incidents=(3,))) == "waits while incident 3 is open"
    assert mute_words(WEEKNIGHTS) == "nights (22:00-07:00 on mon, tue, wed, thu, fri; Europe/Berlin)"
