"""Settings that lapse: which is next, what it is to put one back, and the trainer's own lapse behind sentinel's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sentinel.model.attempts import PERSON, Decay, SettingsInForce
from sentinel.plan.overrides import laid_over

LONGER = 2  # times the wait, after a lapse that brought the failure back
SPARE_PROBATIONS = 4  # so much later the trainer lapses by itself, if nobody took the setting back or put it off
WAIT_MAX = 10**9


def next_to_lapse(now: SettingsInForce, step: int) -> Decay | None:
    """Of the settings that are due, the one set last: one at a time, the newest intervention first."""
    due = {found.key: found for found in now.decay if found.due <= step}
    return next((due[key] for key, _ in reversed(now.owners) if key in due), None)


def put_back(now: SettingsInForce, before: SettingsInForce, keys: Collection[str], step: int, spare: int) -> SettingsInForce:
    """`now` with `keys` as they were in `before`, each for twice its wait from `step` on. What was set anew since stays."""
    owners, waits = dict(before.owners), {found.key: found.wait for found in before.decay}
    before = replace(before, skip=())  # `now` has it, but for what counted in a data order that is over
    for key in keys:
        if is_set_anew(now, before, key):
            continue
        wait = min(LONGER * waits.get(key, 1), WAIT_MAX)
        now = laid_over(now, before, (key,), owners.get(key, PERSON), step + wait, wait, spare)
    return now


def is_set_anew(now: SettingsInForce, before: SettingsInForce, key: str) -> bool:
    """Somebody else, or to something else, since `before`."""
    value = getattr(now, key)
    return value is not None and (value, dict(now.owners).get(key)) != (getattr(before, key), dict(before.owners).get(key))


def left_to_trainer(now: SettingsInForce, keys: Collection[str]) -> SettingsInForce:
    """No longer taken back by sentinel: the trainer's own `until` holds."""
    return replace(now, decay=tuple(found for found in now.decay if found.key not in keys))


def put_off(now: SettingsInForce, step: int, spare: int) -> SettingsInForce | None:
    """With the trainer's own lapse later, where it comes too near for settings that sentinel has not taken back yet; None when
    none is near. It is put off by `spare` steps at a time, so that a trainer without sentinel is never bound for longer."""
    watched = {found.key for found in now.decay}
    near = {key for key, until in now.until if key in watched and until - step <= spare // 4}
    if not near or spare <= 0:
        return None
    return replace(now, until=tuple((key, step + spare if key in near else until) for key, until in now.until))
