"""The bank on labelled real logs: false episodes per 10k healthy samples, and labelled events found, per group.

    python tests/unit/detectors/score_logs.py ../shared/data/logs [--hold-steps 2] [--per-run] [--window-steps 200] …

A log is a CSV with `step,loss,grad_norm,loss_scale,lr`; `labels.csv` beside the logs names each run's label and events.
Alarms within 50 rows of each other are one episode; an event counts as found when an alarm falls between 2 rows before its
onset and 3 rows after its end. Events with fewer than 128 rows of history are left out, except NaN.
"""

from __future__ import annotations

import argparse
import bisect
import csv
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from sentinel.model.findings import Finding
from sentinel.model.readings import StepReading
from tests.unit.detectors.bank_kit import SpikeConfig, alarms, make_bank

EPISODE_ROWS = 50
HISTORY_ROWS = 128
METRICS = ("loss", "grad_norm", "loss_scale", "lr")

Label = dict[str, str]


@dataclass
class Group:
    rows: int = 0
    episodes: int = 0
    runs: int = 0
    outside: int = 0
    events: dict[str, list[int | None]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class Score:
    """Per group, and over all: false episodes per 10k healthy rows, and the share of strong events found."""

    groups: dict[str, Group]
    rows_per_s: float

    @property
    def false_per_10k(self) -> float:
        groups = self.groups.values()
        return 1e4 * sum(group.episodes for group in groups) / max(1, sum(group.rows for group in groups))

    def recall(self, kind: str) -> tuple[int, int]:
        delays = [delay for group in self.groups.values() for delay in group.events[kind]]
        return sum(delay is not None for delay in delays), len(delays)


def read_log(path: Path) -> list[StepReading]:
    with path.open() as handle:
        table = list(csv.DictReader(handle))
    return [
        StepReading(1, int(float(line["step"])), float(line["step"]), (), {k: float(line[k]) for k in METRICS if line.get(k)})
        for line in table
    ]


def group_of(label: Label) -> str:
    source, cadence = label["source"], float(label["cadence"] or 1)
    if source.startswith(("modded-nanogpt", "Hector")):
        return "A1 per step, with grad norm" if label["has_grad_norm"] == "1" else "A2 per step, noisy loss"
    if source == "megatron-golden":
        return "B  Megatron, every 5"
    if source == "algoperf-wmt":
        return "C1 AlgoPerf, every 100" if cadence < 300 else "C2 AlgoPerf, every 500"
    return "D  other"


def findings_of(rows: list[StepReading], spike: SpikeConfig, hold_steps: int) -> list[Finding]:
    bank = make_bank(spike, hold_steps=hold_steps)
    found: list[Finding] = []
    for reading in rows:
        found.extend(bank.step(reading, reading.time_s))
    return found


def read_labels(folder: Path) -> dict[str, list[Label]]:
    """Lines of `labels.csv` by log: one for a run without events, else one for each event."""
    labels: dict[str, list[Label]] = defaultdict(list)
    with (folder / "labels.csv").open() as handle:
        for label in csv.DictReader(handle):
            labels[label["csv"]].append(label)
    return labels


def is_scored(label: Label) -> bool:
    return label["label"] == "nan" or (label["label"] in ("healthy", "spiky") and int(label["n"]) >= 200)


def judge_run(group: Group, name: str, labels: list[Label], rows: list[StepReading], found: list[Finding], per_run: bool) -> None:
    """Add one run's alarms to its group: false episodes of a healthy run, hits and misses of another."""
    steps = [reading.step for reading in rows]
    at = sorted(bisect.bisect_left(steps, finding.detected_step) for finding in found)
    if labels[0]["label"] != "healthy":
        match_events(group, name, labels, steps, at, per_run=per_run)
        return
    episodes = sum(1 for i, x in enumerate(at) if i == 0 or x - at[i - 1] > EPISODE_ROWS)
    group.rows, group.runs, group.episodes = group.rows + len(rows), group.runs + 1, group.episodes + episodes
    if per_run and episodes:
        print(f"  false  {name}: {[(f.detected_step, f.reason) for f in found[:4]]}")


def score(folder: Path, spike: SpikeConfig, hold_steps: int = 2, *, per_run: bool = False) -> Score:
    groups: dict[str, Group] = defaultdict(Group)
    seconds, total = 0.0, 0
    for name, labels in read_labels(folder).items():
        if not is_scored(labels[0]):
            continue
        rows = read_log(folder / name)
        began = time.perf_counter()
        found = alarms(findings_of(rows, spike, hold_steps))
        seconds += time.perf_counter() - began
        total += len(rows)
        judge_run(groups[group_of(labels[0])], name, labels, rows, found, per_run)
    return Score(dict(sorted(groups.items())), total / max(seconds, 1e-9))


def match_events(group: Group, name: str, events: list[Label], steps: list[int], at: list[int], *, per_run: bool) -> None:
    inside: list[int] = []
    for event in events:
        kind = event["event_kind"]
        if not kind:
            continue
        first = bisect.bisect_left(steps, float(event["onset_step"]))
        last = bisect.bisect_left(steps, float(event["end_step"] or event["onset_step"]))
        inside += [x for x in at if first - 10 <= x <= last + 30]
        if first < HISTORY_ROWS and kind != "nan":
            continue
        hits = [x for x in at if max(0, first - 2) <= x <= (last + 3 if kind != "nan" else first + 1)]
        group.events[kind].append(hits[0] - first if hits else None)
        if per_run and not hits:
            print(f"  missed {name}: {kind} at {event['onset_step']}, {event['base_loss']} -> {event['peak_loss']}")
    outside = sorted(x for x in at if x not in inside)
    group.outside += sum(1 for i, x in enumerate(outside) if i == 0 or x - outside[i - 1] > EPISODE_ROWS)


def print_score(result: Score) -> None:
    print(f"{'group':30s} healthy rows  false episodes  per 10k | found (median delay, rows) | alarms outside events")
    for name, group in result.groups.items():
        parts = []
        for kind, delays in sorted(group.events.items()):
            hits = [delay for delay in delays if delay is not None]
            delay = f" ({statistics.median_low(hits)})" if hits else ""
            parts.append(f"{kind} {len(hits)}/{len(delays)}{delay}")
        per_10k = 1e4 * group.episodes / max(1, group.rows)
        print(f"{name:30s} {group.rows:12d}  {group.episodes:14d}  {per_10k:7.3f} | {', '.join(parts) or '-'} | {group.outside}")
    found, events = result.recall("strong")
    print(f"all: {result.false_per_10k:.3f} false per 10k, strong {found}/{events}, {result.rows_per_s:,.0f} rows/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hold-steps", type=int, default=2)
    parser.add_argument("--per-run", action="store_true")
    for name in ("window_steps", "level_steps", "min_history_steps"):
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=getattr(SpikeConfig(), name))
    parser.add_argument("--z", type=float, default=SpikeConfig().z)
    parser.add_argument("--relative", type=float, default=SpikeConfig().relative)
    given = parser.parse_args()
    spike = SpikeConfig(
        z=given.z, relative=given.relative, window_steps=given.window_steps,
        level_steps=given.level_steps, min_history_steps=given.min_history_steps,
    )  # fmt: skip
    print_score(score(given.folder, spike, given.hold_steps, per_run=given.per_run))


if __name__ == "__main__":
    main()
