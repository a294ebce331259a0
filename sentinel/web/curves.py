"""The curves of a run as the page asks for them again and again: only what is new, or everything when a part no longer fits.

A cursor says what its holder has: whose curves (STAMP: this server, and how often a stream was drawn anew), of which metrics and
in which shape (SHAPE), and for each attempt the step they reached. It is opaque, and one that does not fit is answered with
everything. Of a series that goes on, the bucket of that step comes again, because it may have grown.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

from sentinel.curves.reach import reach_of
from sentinel.engine.goodput import surviving_steps
from sentinel.model.state import RunState
from sentinel.report.drawn import DrawnAttempt
from sentinel.streams.curve import Bucket, Curve

METRICS_ASKED_MAX = 64
SERIES_MAX = 256  # of one attempt
MEMBERS_MAX = 16  # of a family: so many the page draws
POINTS_MAX = 60_000  # of one answer, about 2 MB, but for an attempt that alone has more; the rest comes with the next


@dataclass(frozen=True, slots=True)
class MetricChoice:
    """`names` are metrics, or prefixes that end in a slash."""

    names: tuple[str, ...]

    def of(self, curves: Mapping[str, Curve]) -> list[str]:
        prefixes = tuple(name for name in self.names if name.endswith("/"))
        found = [name for name in curves if name in self.names or (prefixes and name.startswith(prefixes))]
        return sorted(found)[:SERIES_MAX]


@dataclass(frozen=True, slots=True)
class CurveView:
    """The steps that are looked at, and on what scale: for these the values that the scale shows are told."""

    first: float = -inf
    last: float = inf
    is_log: bool = False


ALL_STEPS = CurveView()


@dataclass(frozen=True, slots=True)
class Cursor:
    """`reached`: by attempt, the step up to which everything is known."""

    stamp: str
    shape: str
    reached: dict[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return "~".join([self.stamp, self.shape, *(f"{attempt}.{step}" for attempt, step in self.reached.items())])


def read_cursor(text: str) -> Cursor:
    stamp, _, rest = text.partition("~")
    shape, *known = rest.split("~")
    reached = {int(part.split(".")[0]): int(part.split(".")[1]) for part in known if re.fullmatch(r"\d{1,9}\.\d{1,18}", part)}
    return Cursor(stamp, shape, reached)


def curves_document(
    drawn: Mapping[int, DrawnAttempt],
    state: RunState,
    newest_step: int | None,
    choice: MetricChoice,
    since: Cursor,
    stamp: str,
    view: CurveView = ALL_STEPS,
) -> dict[str, Any]:
    """`stamp`: of these drawings; another one than the cursor's, and nothing that its holder has still holds."""
    wanted = {number: choice.of(drawn[number].curves) for number in sorted(drawn, reverse=True)}
    shape = _shape(drawn, wanted, choice)
    whole = (since.stamp, since.shape) != (stamp, shape)
    reached = {} if whole else {number: step for number, step in since.reached.items() if number in drawn}
    curves: dict[str, dict[str, Any]] = {}
    points = 0
    for number, names in wanted.items():
        step, known = drawn[number].newest_step, reached.get(number)
        if step is None or step == known:
            continue
        if points >= POINTS_MAX:
            break  # the newest attempts first: what is left out here is not in the cursor, so it comes next time
        for name in names:
            part = _news(drawn[number].curves[name], known)
            points += len(part["step"])
            if part["step"] or part["non_finite"]:
                curves.setdefault(name, {})[str(number)] = part
        reached[number] = step
    cursor = Cursor(stamp, shape, dict(sorted(reached.items())))
    attempts = attempt_documents(drawn, state, newest_step)
    reach = _reach_documents(drawn, attempts, choice, view)
    return {"cursor": str(cursor), "whole": whole, "attempts": attempts, "reach": reach, "curves": curves}


def _reach_documents(
    drawn: Mapping[int, DrawnAttempt], attempts: Sequence[Mapping[str, Any]], choice: MetricChoice, view: CurveView
) -> dict[str, list[float] | None]:
    """By name as it was asked for, the lowest and the highest value that the scale shows; null where there is nothing to show.
    Of a family the highest values of some members are drawn, and looked at."""
    survives = {one["attempt"]: one["survives_to"] for one in attempts}
    newest = max(drawn, default=0)
    out: dict[str, list[float] | None] = {}
    for asked in choice.names:
        is_family = asked.endswith("/")
        kept: list[float] = []
        lost: list[float] = []
        for number, attempt in drawn.items():
            keep = inf if number == newest else -inf if survives.get(number) is None else survives[number]
            names = MetricChoice((asked,)).of(attempt.curves)
            for name in names[:: max(1, ceil(len(names) / MEMBERS_MAX))]:
                parted = _parted(attempt.curves[name], attempt.newest_step or 0, view, keep)
                for buckets, to in zip(parted, (kept, lost), strict=True):
                    to += [high for _, _, high in buckets]
                    to += [] if is_family else [low for _, low, _ in buckets]
        reach = reach_of(kept, lost, is_log=view.is_log)
        out[asked] = None if reach is None else [reach.low, reach.high]
    return out


def _parted(curve: Curve, newest_step: int, view: CurveView, keep: float) -> tuple[list[Bucket], list[Bucket]]:
    """The buckets that are looked at: those that survive, and the others. One with steps of both kinds does not survive."""
    buckets = curve.buckets
    if newest_step < view.first:
        return [], []
    begin = 0 if view.first == -inf else max(0, bisect_right(buckets, (view.first, inf, inf)) - 1)
    end = len(buckets) if view.last == inf else bisect_right(buckets, (view.last, inf, inf))
    cut = len(buckets) if newest_step <= keep else max(0, bisect_right(buckets, (keep + 1, inf, inf)) - 1)
    return buckets[begin : min(cut, end)], buckets[max(begin, cut) : end]


def attempt_documents(drawn: Mapping[int, DrawnAttempt], state: RunState, newest_step: int | None) -> list[dict[str, Any]]:
    """Those that are drawn, oldest first. `survives_to`: the last of its steps the run stands on now, null when none is."""
    out: list[dict[str, Any]] = []
    for attempt, keep in zip(state.attempts, surviving_steps(state.attempts), strict=True):
        if attempt.attempt not in drawn:
            continue
        last = attempt.last_step if attempt.is_over else (newest_step or attempt.resumed_step)
        kept = int(min(keep, last))
        out.append(
            {
                "attempt": attempt.attempt,
                "after_step": attempt.resumed_step,
                "survives_to": kept if kept > attempt.resumed_step else None,
                "is_over": attempt.is_over,
            }
        )
    return out


def metric_names(drawn: Iterable[DrawnAttempt]) -> list[str]:
    return sorted({name for attempt in drawn for name in attempt.curves})


def _shape(drawn: Mapping[int, DrawnAttempt], wanted: Mapping[int, Sequence[str]], choice: MetricChoice) -> str:
    """Another one when a curve was halved, the oldest attempt is no longer drawn, or other metrics are asked for."""
    halvings = sum(drawn[number].curves[name].halvings for number, names in wanted.items() for name in names)
    return f"{zlib.crc32(','.join(choice.names).encode()):x}.{min(drawn, default=0)}.{halvings}"


def _news(curve: Curve, known: int | None) -> dict[str, list[Any]]:
    """From the bucket in which `known` lies; everything where nothing is known."""
    start = 0 if known is None else max(0, bisect_right(curve.buckets, (known, inf, inf)) - 1)
    buckets = curve.buckets[start:]
    return {
        "step": [bucket[0] for bucket in buckets],
        "low": [bucket[1] for bucket in buckets],
        "high": [bucket[2] for bucket in buckets],
        "non_finite": [step for step in curve.non_finite if known is None or step > known],
    }
