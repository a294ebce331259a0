"""Runs in Prometheus' text format. Each call has a registry of its own: nothing is kept, and nothing of this process is exported.

exposition([run.refresh() for run in runs])
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from sentinel.client.masking import Masking
from sentinel.metrics.families import FAMILIES, Family
from sentinel.metrics.of_run import rows
from sentinel.report.following import RunSnapshot
from sentinel.report.tally import DURATIONS_S, Durations

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LABEL_CHARS_MAX = 100
DIGEST_CHARS = 12


def exposition(snapshots: Sequence[RunSnapshot]) -> bytes:
    """The answer to a scrape, in UTF-8. Runs of the same name are distinguished by as much of their path as needed."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Runs(snapshots))
    return generate_latest(registry)


def name_runs(snapshots: Sequence[RunSnapshot]) -> list[str]:
    """A name for each, all different."""
    names = [snapshot.state.run_id or snapshot.run_dir.name for snapshot in snapshots]
    places = [snapshot.run_dir.absolute() for snapshot in snapshots]
    for depth in range(1, max((len(place.parts) for place in places), default=0) + 1):
        often = Counter(names)
        if len(often) == len(names):
            break
        names = [name if often[name] == 1 else _end_of(place, depth) for name, place in zip(names, places, strict=True)]
    return names


def distinct(names: Sequence[str], snapshots: Sequence[RunSnapshot]) -> list[str]:
    """Those that are alike once they are cut and printable end in a digest of where the run lies: one run must not stand for
    another, and sweeps name theirs by settings of which the last alone differs."""
    often = Counter(names)
    digests = [hashlib.sha256(os.fsencode(one.run_dir.absolute())).hexdigest()[:DIGEST_CHARS] for one in snapshots]
    return [
        name if often[name] == 1 else f"{name[: LABEL_CHARS_MAX - DIGEST_CHARS - 1]}-{digest}"
        for name, digest in zip(names, digests, strict=True)
    ]


def _end_of(place: Path, depth: int) -> str:
    return "/".join(place.parts[-depth:]).replace("//", "/")


class _Runs(Collector):
    """Label values are cut and made printable here, and a series that would stand there twice stands there once: no
    scrape is refused because of a trainer's metric names."""

    def __init__(self, snapshots: Sequence[RunSnapshot]) -> None:
        self._snapshots = snapshots

    def collect(self) -> Iterator[Metric]:
        series: dict[str, dict[tuple[str, ...], float | Durations]] = {family.name: {} for family in FAMILIES}
        masking = Masking.of(os.environ)
        names = [_plain(name, masking) for name in name_runs(self._snapshots)]
        for run, snapshot in zip(distinct(names, self._snapshots), self._snapshots, strict=True):
            for exported, labels, value in rows(snapshot):
                series[exported].setdefault((run, *(_plain(label, masking) for label in labels)), value)
        for family in FAMILIES:
            if series[family.name]:
                yield _metric(family, series[family.name])


def _metric(family: Family, series: dict[tuple[str, ...], float | Durations]) -> Metric:
    names = ("run", *family.labels)
    if family.type == "histogram":
        bounds = [*(f"{bound:g}" for bound in DURATIONS_S), "+Inf"]
        histogram = HistogramMetricFamily(family.name, family.meaning, labels=names)
        for labels, value in series.items():
            assert isinstance(value, Durations), family.name
            histogram.add_metric(labels, list(zip(bounds, accumulate(value.counts), strict=True)), value.sum_s)
        return histogram
    made = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
    metric = made(family.name, family.meaning, labels=names)
    for labels, value in series.items():
        assert isinstance(value, float), family.name
        metric.add_metric(labels, value)
    return metric


def _plain(label: str, masking: Masking) -> str:
    """One line of printable characters, no secret in it."""
    label = masking.text(label)
    if label.isprintable() and len(label) <= LABEL_CHARS_MAX:
        return label
    return "".join(c if c.isprintable() else "?" for c in label[:LABEL_CHARS_MAX])
