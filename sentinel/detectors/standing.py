"""How everything stands, with `unknown` wherever nobody can know: a detector that judged nothing lately is not healthy.

A detector knows its own history. It does not know that its metric stopped coming, that the source behind it is blind, that
no attempt runs, or that a grace keeps it from judging. Only `healthy` becomes `unknown` here: what is breached stays so.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import pairwise

from sentinel.detectors.contract import OFF, Detector
from sentinel.detectors.registry import DETECTORS, DetectorRow
from sentinel.model.findings import Kind, Verdict
from sentinel.model.metrics import shown_name
from sentinel.streams.series import Series

MISSING_ROWS = 5

Standing = Mapping[Kind, tuple[Verdict, str]]


@dataclass(frozen=True, slots=True)
class DetectorView:
    """What is seen just now. `blind`: reason by source; `quiet_until`: the last step of the present grace."""

    series: Series
    blind: Mapping[str, str]
    is_alive: bool
    has_beats: bool
    quiet_until: int


def judge_standing(detectors: Mapping[Kind, Detector], off: Set[Kind], view: DetectorView) -> Standing:
    """Every detector's verdict and reason, in the registry's order. `off`: kinds whose detector the policy switches off."""
    standing: dict[Kind, tuple[Verdict, str]] = {}
    for row in DETECTORS:
        kind = row.finds[0].kind
        detector = detectors.get(kind)
        if kind in off:
            standing[kind] = Verdict.UNKNOWN, OFF
        elif detector is not None:
            standing[kind] = _judge(row, detector, view)
    return standing


def _judge(row: DetectorRow, detector: Detector, view: DetectorView) -> tuple[Verdict, str]:
    verdict, reason = detector.verdict()
    if verdict is Verdict.BREACHED:
        return verdict, reason
    unknown = _why_unknown(row, detector.needs, view, is_judged=verdict is Verdict.HEALTHY)
    return (Verdict.UNKNOWN, unknown) if unknown else (verdict, reason)


def _why_unknown(row: DetectorRow, needs: Set[str], view: DetectorView, *, is_judged: bool) -> str:
    """Why the row's kind cannot be judged just now; empty when the detector may speak for itself."""
    if not view.is_alive:
        return "no attempt is running"
    source = _blind_source(row, view)
    if source:
        return f"{source} cannot be seen: {view.blind[source]}"
    if row.is_graced and is_judged and view.series.newest_step <= view.quiet_until:
        return f"not judged in the grace, which ends at step {view.quiet_until}"
    ages = [_age(view.series, name) for name in sorted(needs)]
    return "; ".join(ages) if all(ages) else ""


def _blind_source(row: DetectorRow, view: DetectorView) -> str:
    if row.source == "its own":
        return ""
    if row.source != "signs of life":
        return row.source if row.source in view.blind else ""
    if "heartbeats" in view.blind:
        return "heartbeats"
    return "metrics" if "metrics" in view.blind and not view.has_beats else ""


def _age(series: Series, name: str) -> str:
    """What is wrong with the newest value of a metric, or of a family; empty when it is fresh, by its own rhythm."""
    steps = series.newest_steps(name)
    if not steps:
        return f"no {shown_name(name)} is logged"
    usual = max(series.interval_steps, min((later - step for step, later in pairwise(steps)), default=1))
    is_old = series.newest_step - steps[-1] >= MISSING_ROWS * usual
    return f"{shown_name(name)} is missing since step {steps[-1]}" if is_old else ""
