"""How everything stands, with unknown said wherever nobody can know: a detector that judged nothing lately is not healthy.

A detector knows its own history; what it cannot know is that its metric stopped coming, that the source behind it is blind, that
no attempt runs, or that a grace keeps it from judging. Only `healthy` becomes `unknown` here: what is breached stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sentinel.detectors.contract import Detector, DetectorSettings
from sentinel.model.findings import Kind, Verdict
from sentinel.streams.series import Series

MISSING_ROWS = 5
GRACED = frozenset({Kind.DRIFT, Kind.DIVERGENCE})  # neither judge nor learn in a grace
OFF = "switched off by policy"
SOURCE_OF: Mapping[Kind, str] = {  # what else than the stream a kind is judged from; hardware says itself what it cannot see
    Kind.STRAGGLER: "heartbeats", Kind.STALE_CHECKPOINT: "checkpoints", Kind.GPU_FAULT: "",
}  # fmt: skip

Standing = Mapping[Kind, tuple[Verdict, str]]


@dataclass(frozen=True, slots=True)
class View:
    """What is seen just now. `blind`: reason by source; `needs`: metrics by kind, any of which is enough to judge by."""

    series: Series
    blind: Mapping[str, str]
    is_alive: bool
    has_beats: bool
    quiet_until: int
    needs: Mapping[Kind, frozenset[str]]


def needs_of(settings: DetectorSettings) -> Mapping[Kind, frozenset[str]]:
    loss = frozenset({"loss"})
    spike, drift = frozenset(settings.spike.metrics), frozenset(settings.drift.metrics)
    return {Kind.SPIKE: spike, Kind.DRIFT: drift, Kind.DIVERGENCE: loss, Kind.TOO_GOOD: loss, Kind.PLATEAU: loss}


def judge_standing(detectors: Iterable[Detector], view: View) -> Standing:
    """Every detector's verdict and reason."""
    standing: dict[Kind, tuple[Verdict, str]] = {}
    for detector in detectors:
        verdict, reason = detector.verdict()
        if verdict is not Verdict.BREACHED and reason != OFF:
            unknown = _unknown(detector.kind, view, is_judged=verdict is Verdict.HEALTHY)
            if unknown:
                verdict, reason = Verdict.UNKNOWN, unknown
        standing[detector.kind] = verdict, reason
    return standing


def _unknown(kind: Kind, view: View, *, is_judged: bool) -> str:
    """Why the kind cannot be judged just now; empty when the detector may speak for itself."""
    if not view.is_alive:
        return "no attempt is running"
    source = _blind_source(kind, view)
    if source:
        return f"{source} cannot be seen: {view.blind[source]}"
    if kind in GRACED and is_judged and view.series.newest_step <= view.quiet_until:
        return f"not judged in the grace, which ends at step {view.quiet_until}"
    wanted = view.needs.get(kind, frozenset())
    ages = {name: _age(view.series, name) for name in sorted(wanted)}
    if ages and all(said for said in ages.values()):
        return "; ".join(ages.values())
    return ""


def _blind_source(kind: Kind, view: View) -> str:
    if kind is not Kind.HANG:
        source = SOURCE_OF.get(kind, "metrics")
        return source if source in view.blind else ""
    if "heartbeats" in view.blind:
        return "heartbeats"
    return "metrics" if "metrics" in view.blind and not view.has_beats else ""


def _age(series: Series, metric: str) -> str:
    """What is wrong with a metric's newest value; empty when it is fresh."""
    newest = series.newest(metric, 1)
    if not newest:
        return f"no {metric} is logged"
    step = newest[0][0]
    is_old = series.newest_step - step >= MISSING_ROWS * series.interval_steps
    return f"{metric} is missing since step {step}" if is_old else ""
