"""Whether a window of the policy mutes at a time, and until when. Pure: the time is an argument.

    is_active(mute, now_s)             begins are in, ends are out
    free_at(mutes, now_s)              the first time at which none of them mutes; None: no end in sight

An instant is muted by what the clocks of the window's zone show then. So an hour that is shown twice in autumn is muted twice,
and one that is left out in spring is never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from sentinel.model.paging import IncidentPage, PageHold
from sentinel.policy.schema_mute import WEEKDAYS, WHOLE_DAY, Mute
from sentinel.policy.timezones import DAY_MINUTES, instants, shifts, wall_at, wall_text

DAYS_AHEAD = 9  # what returns does so within a week; two more, for the ends over midnight and for clocks that are set
CHAIN_MAX = 64  # windows that follow one another without a gap


def is_active(mute: Mute, at_s: float) -> bool:
    if not mute.begins_s <= at_s < mute.ends_s:
        return False
    wall, days = wall_at(mute.timezone, at_s), mute.weekdays
    today, yesterday = wall.weekday in days, (wall.weekday - 1) % 7 in days
    for span in mute.times or (WHOLE_DAY,):
        if span.is_over_midnight:
            if (today and wall.minute >= span.begin) or (yesterday and wall.minute < span.end):
                return True
        elif today and span.begin <= wall.minute < span.end:
            return True
    return False


def end_of(mute: Mute, at_s: float) -> float | None:
    """The first time behind `at_s` at which an active window mutes no more; None: it has no end in sight."""
    for change_s in _changes(mute, at_s):
        if not is_active(mute, change_s):
            return change_s
    return mute.ends_s if mute.to is not None else None


def free_at(mutes: Sequence[Mute], at_s: float) -> float | None:
    """The first time from `at_s` on at which none of them mutes; None: no end in sight."""
    if not any(is_active(mute, at_s) for mute in mutes):
        return at_s
    return _free_at(tuple(mutes), at_s // 60.0 * 60.0)


@lru_cache(maxsize=64)
def _free_at(mutes: tuple[Mute, ...], at_s: float) -> float | None:
    """Asked on every tick for every page that waits; within a minute nothing changes."""
    for _ in range(CHAIN_MAX):
        ends = [end_of(mute, at_s) for mute in mutes if is_active(mute, at_s)]
        if not ends:
            return at_s
        later = [end for end in ends if end is not None]
        if not later:
            return None
        at_s = min(later)
    return None


def mute_words(mute: Mute) -> str:
    """`nights (22:00-07:00 on mon, tue; Europe/Berlin)`."""
    when = [", ".join(span.text for span in mute.times) or "all day"]
    if mute.days:
        when.append("on " + ", ".join(WEEKDAYS[day] for day in sorted(mute.weekdays)))
    if mute.from_ is not None:
        begin, end = (wall_text(mute.timezone, at_s) for at_s in (mute.begins_s, mute.ends_s))
        when.append(f"from {begin} to {end}")
    return f"{mute.name} ({' '.join(when)}; {mute.timezone})"


def hold_words(hold: PageHold) -> str:
    """`muted until 07:00 CET (nights)`; `waits while incident 3 is open`."""
    words = []
    if hold.windows:
        end = "" if hold.until_s is None else wall_text(hold.timezone, hold.until_s, hold.since_s)
        until = f"until {end}" if end else "with no end in sight"
        words.append(f"muted {until} ({', '.join(hold.windows)})")
    if hold.incidents:
        many = len(hold.incidents) > 1
        numbers = ", ".join(str(number) for number in hold.incidents)
        words.append(f"waits while incident{'s' if many else ''} {numbers} {'are' if many else 'is'} open")
    return "; ".join(words)


def was_held_words(page: IncidentPage) -> str:
    """Since when a page that was let go has been open, and what had held it back; empty where nothing had."""
    hold = page.freed_from
    if hold is None:
        return ""
    why = [f"muted ({', '.join(hold.windows)})"] if hold.windows else []
    why += [f"kept back by incident {', '.join(str(number) for number in hold.incidents)}"] if hold.incidents else []
    return f"open since {wall_text(hold.timezone, page.raised_s)}, and {' and '.join(why)} until now"


def _changes(mute: Mute, at_s: float) -> Iterator[float]:
    """When it may begin or end behind `at_s`, in order: what lies between two of these is all muted, or not at all."""
    zone, day = mute.timezone, wall_at(mute.timezone, at_s).day
    minutes = {0, *(edge % DAY_MINUTES for span in mute.times for edge in (span.begin, span.end))}
    found = {at for ahead in range(DAYS_AHEAD) for minute in minutes for at in instants(zone, day + ahead, minute)}
    found.update(shifts(zone, at_s, at_s + DAYS_AHEAD * 86400.0))
    yield from sorted(at for at in {*found, mute.ends_s} if at_s < at < float("inf"))
