"""When a page waits: quiet hours and maintenance windows (`mute`), and incidents that keep others' pages back (`inhibit`).

What is held back is the delivery to people alone. Detection, repair, journal, page in the browser and report go on as ever.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from sentinel.policy.quantities import Malformed, show
from sentinel.policy.schema_fields import FindingKind, Model, Name, Severity, written
from sentinel.policy.timezones import DAY_MINUTES, moment_of, parse_moment, parse_timezone

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
TIMES_PATTERN = rf"^{_CLOCK}-(?:{_CLOCK}|24:00)$"
DAYS_PATTERN = rf"^(?:{'|'.join(WEEKDAYS)})(?:-(?:{'|'.join(WEEKDAYS)}))?$"
MOMENT_PATTERN = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T]{_CLOCK}$"
WINDOWS_MAX = 100
YEARS = range(1970, 3000)  # at the ends of the calendar no other timezone has the same day


@dataclass(frozen=True, slots=True)
class DaySpan:
    """A stretch of the day in minutes from midnight: its begin belongs to it, its end does not. One that begins later than it
    ends goes on over midnight."""

    begin: int
    end: int

    @property
    def text(self) -> str:
        begin, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (self.begin, self.end))
        return f"{begin}-{end}"

    @property
    def is_over_midnight(self) -> bool:
        return self.begin > self.end


WHOLE_DAY = DaySpan(0, DAY_MINUTES)


def _times(value: Any) -> DaySpan:
    remedy = "write '22:00-07:00': from the first minute on, up to the second"
    if not isinstance(value, str) or not re.fullmatch(TIMES_PATTERN, value):
        raise Malformed(f"{show(value)} is no stretch of a day", remedy)
    begin, end = (int(clock[:2]) * 60 + int(clock[3:]) for clock in value.split("-"))
    if begin == end:
        raise Malformed(f"{show(value)} is no stretch at all", "write '00:00-24:00' for the whole day, or leave 'times' out")
    return DaySpan(begin, end)


def _days(value: Any) -> frozenset[int]:
    if not isinstance(value, str) or not re.fullmatch(DAYS_PATTERN, value):
        raise Malformed(f"{show(value)} is no weekday", f"write one of {', '.join(WEEKDAYS)}, or a range such as mon-fri")
    first, last = (WEEKDAYS.index(word) for word in (value[:3], value[-3:]))
    return frozenset((first + step) % 7 for step in range((last - first) % 7 + 1))


def _moment(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    remedy = f"write '2026-12-01 08:00', as the clocks show it in the window's timezone, of a year from {YEARS[0]} to {YEARS[-1]}"
    if not isinstance(value, str) or not re.fullmatch(MOMENT_PATTERN, value):
        raise Malformed(f"{show(value)} is no date with a time", remedy)
    try:
        moment = parse_moment(value)
    except ValueError:
        raise Malformed(f"{show(value)} is no date of any calendar", remedy) from None
    if int(value[:4]) not in YEARS:
        raise Malformed(f"{show(value)} is no date of a run", remedy)
    return moment


def _text(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


Timezone = Annotated[str, PlainValidator(parse_timezone), WithJsonSchema({"type": "string", "examples": ["Europe/Berlin"]})]
Times = Annotated[DaySpan, PlainValidator(_times), _text(TIMES_PATTERN, "22:00-07:00")]
Days = Annotated[frozenset[int], PlainValidator(_days), _text(DAYS_PATTERN, "mon-fri")]
Moment = Annotated[tuple[int, int] | None, PlainValidator(_moment), _text(MOMENT_PATTERN, "2026-12-01 08:00")]
Severities = Annotated[tuple[Severity, ...], Field(min_length=1)]


class Mute(Model):
    """Quiet hours that return (`times`, `days`), a window that comes once (`from`, `to`), or both together: then inside it, at
    those hours."""

    name: Name
    """What it is called where it is told of: muted until 07:00 (nights)."""
    timezone: Timezone
    """Whose clocks count, by an IANA name. Hours follow them when they are set for summer and winter."""
    times: tuple[Times, ...] = ()
    """Stretches of the day, any of them; the end is not part of it. Default: the whole day."""
    days: tuple[Days, ...] = ()
    """Weekdays, any of them. A stretch over midnight belongs to the day on which it begins. Default: every day."""
    from_: Moment = Field(default=None, alias="from", json_schema_extra=_without_default)
    """When a window that comes once begins."""
    to: Moment = Field(default=None, json_schema_extra=_without_default)
    """When it ends."""
    severities: Severities = written(["info", "warning"])
    """Which pages wait. A critical page waits only where critical is written here."""
    kinds: tuple[FindingKind, ...] = ()
    """Only pages about incidents of these kinds. Default: of all."""
    rules: tuple[Name, ...] = ()
    """Only pages about incidents of the rules with these alerts. Default: of all."""
    routes: tuple[Name, ...] = ()
    """Only on these routes. Default: on all."""

    @model_validator(mode="after")
    def _comes_to_an_end(self) -> Mute:
        if (self.from_ is None) != (self.to is None):
            lacks = "from" if self.from_ is None else "to"
            raise Malformed(f"a window that comes once has a begin and an end, and '{lacks}' is missing", f"write '{lacks}', too")
        if self.from_ is not None and self.begins_s >= self.ends_s:
            raise Malformed("the window ends before it begins", "write the earlier date under 'from'")
        if self.from_ is None and self.weekdays == frozenset(range(7)) and _fills_the_day(self.times):
            raise Malformed("it never ends: nobody would ever be paged", "write times, days, or from and to")
        return self

    @property
    def weekdays(self) -> frozenset[int]:
        return frozenset().union(*self.days) if self.days else frozenset(range(7))

    @property
    def begins_s(self) -> float:
        """-inf where it has no date. A time that the clocks show twice is the first of the two; one that they leave out, the
        moment at which they are set."""
        return self._moment_of(self.from_) if self.from_ is not None else -float("inf")

    @property
    def ends_s(self) -> float:
        """The same, inf."""
        return self._moment_of(self.to) if self.to is not None else float("inf")

    def _moment_of(self, date: tuple[int, int]) -> float:
        day, minute = date
        return moment_of(self.timezone, day, minute)


def _fills_the_day(times: tuple[DaySpan, ...]) -> bool:
    """Whether no minute is left, of every day."""
    left = set(range(DAY_MINUTES)) if times else set()
    for span in times:
        tail = range(span.begin, DAY_MINUTES if span.is_over_midnight else span.end)
        left -= {*tail, *range(span.end)} if span.is_over_midnight else set(tail)
    return not left


class Inhibit(Model):
    """While one of these incidents is open, those others page nobody: they are its consequence, and one page is enough."""

    name: Name
    """What it is called in messages of the checker."""
    while_: Annotated[tuple[Name, ...], Field(min_length=1)] = Field(alias="while")
    """Kinds of findings, or names of alerts. Open: not recovered, and its page, if it has one, not resolved."""
    hold: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Kinds of findings, or names of alerts, whose pages wait."""
    equal: tuple[Literal["attempt", "node", "rank"], ...] = written(["attempt"])
    """What both must share. A node or rank that is not known equals nothing."""
    severities: Severities = written(["info", "warning"])
    """Which pages wait. A critical page waits only where critical is written here."""
