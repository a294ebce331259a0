"""What the clocks on people's walls show: the one door to the timezone database (the standard library's zoneinfo).

No clock is read here; the time is always an argument. Zones are IANA names, such as Europe/Berlin; days are counted from
1 January of the year 1, as `datetime.date.toordinal` does, and minutes from midnight.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from sentinel.policy.problems import nearest
from sentinel.policy.quantities import Malformed, show

UTC_NAMES = ("UTC", "Etc/UTC")  # known without any database
NOT_THE_SAME_EVERYWHERE = ("localtime", "posix/", "right/", "posixrules")  # what some machines have beside the IANA names
HOUR_S = 3600.0
DAY_MINUTES = 1440


@dataclass(frozen=True, slots=True)
class Wall:
    """What a wall clock shows. `weekday`: 0 is Monday."""

    day: int
    minute: int

    @property
    def weekday(self) -> int:
        return (self.day + 6) % 7


def parse_timezone(value: object) -> str:
    """The name of a timezone that this machine knows. Raises Malformed: with the nearest name, or with how to get a database."""
    remedy = "write an IANA name, such as Europe/Berlin, or UTC"
    if not isinstance(value, str):
        raise Malformed(f"{show(value)} is not a timezone", remedy)
    try:
        if value.startswith(NOT_THE_SAME_EVERYWHERE):
            raise ValueError(value)
        zone_of(value)
    except (KeyError, ValueError, OSError):
        known = tuple(sorted(available_timezones()))
        if not known:
            remedy = "install tzdata (apt install tzdata, or pip install tzdata), or write UTC"
            raise Malformed(f"{show(value)} cannot be looked up: this machine has no timezone database", remedy) from None
        near = _nearest(value, known)
        raise Malformed(f"{show(value)} is no timezone", f"did you mean '{near}'? {remedy}" if near else remedy) from None
    return value


def _nearest(name: str, known: tuple[str, ...]) -> str | None:
    """Often the continent is missing or wrong: a city stands for itself."""
    cities = {zone.rpartition("/")[2].lower(): zone for zone in known}
    by_city = nearest(name.rpartition("/")[2].replace(" ", "_").lower(), tuple(cities))
    return nearest(name, known) or (cities[by_city] if by_city else None)


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Raises KeyError, ValueError or OSError where this machine does not know it."""
    return UTC if name in UTC_NAMES else ZoneInfo(name)


def wall_at(zone: str, at_s: float) -> Wall:
    local = _local(zone, at_s)
    return Wall(local.toordinal(), local.hour * 60 + local.minute)


def instants(zone: str, day: int, minute: int) -> tuple[float, ...]:
    """When clocks there show that minute, the first moment of it: one, or two in the hour that is shown twice. A minute that is
    left out in spring counts from the clock before the change, and from the one after it."""
    local = datetime.fromordinal(day + minute // DAY_MINUTES) + timedelta(minutes=minute % DAY_MINUTES)
    found = {local.replace(tzinfo=zone_of(zone), fold=fold).timestamp() for fold in (0, 1)}
    return tuple(sorted(found))


def moment_of(zone: str, day: int, minute: int) -> float:
    """When clocks there show that minute; of two such moments the first. A minute that is left out counts as the moment at which
    they are set: no clock shows it, and the next that one shows comes after it."""
    first, *more = instants(zone, day, minute)
    if more and wall_at(zone, first) != Wall(day, minute):
        return shifts(zone, first, more[0])[0]
    return first


def shifts(zone: str, from_s: float, to_s: float) -> list[float]:
    """When the clocks there are set, to the second, between these two times."""
    found, left = [], from_s
    while left < to_s:
        right = min(left + 6 * HOUR_S, to_s)
        if _offset(zone, left) != _offset(zone, right):
            found.append(_shift_between(zone, left, right))
        left = right
    return found


def wall_text(zone: str, at_s: float, beside_s: float | None = None) -> str:
    """`07:00 CET`, or `Mon 2026-12-07 07:00 CET` where it is a day or more from `beside_s`. In UTC where the zone is unknown."""
    try:
        local = _local(zone, at_s)
    except (KeyError, ValueError, OSError):
        local = _local("UTC", at_s)
    is_near = beside_s is not None and abs(at_s - beside_s) < 24 * HOUR_S
    return local.strftime("%H:%M %Z" if is_near else "%a %Y-%m-%d %H:%M %Z")


def parse_moment(text: str) -> tuple[int, int]:
    """`2026-12-01 08:00` as day and minute. Raises ValueError."""
    day, _, clock = text.replace("T", " ").partition(" ")
    hours, _, minutes = clock.partition(":")
    return date.fromisoformat(day).toordinal(), int(hours) * 60 + int(minutes)


def _local(zone: str, at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, zone_of(zone))


def _offset(zone: str, at_s: float) -> timedelta | None:
    return _local(zone, at_s).utcoffset()


def _shift_between(zone: str, left: float, right: float) -> float:
    before = _offset(zone, left)
    while right - left > 1.0:
        middle = float(round((left + right) / 2))
        left, right = (middle, right) if _offset(zone, middle) == before else (left, middle)
    return right
