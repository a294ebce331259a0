"""docs/compare.md: what `make compare` measured, with versions."""

from __future__ import annotations

import importlib.metadata
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

NAMES = {
    "torchrun": "torchrun",
    "torchrun-own": "torchrun, store not shared",
    "ft_launcher": "ft_launcher",
    "cold": "Sentinel",
    "direct": "Sentinel `--direct`",
    "warm": "Sentinel `--warm`",
}
TITLES = {
    "kill": "rank killed → new ground, s",
    "hang": "rank stopped → new ground, s",
    "nan": "NaN in every weight: last loss above an unhurt run's",
    "poison": "20 steps of random data: last loss above an unhurt run's",
}


@dataclass(frozen=True)
class Outcome:
    """Seconds, or a loss above the unhurt one; None where it did not get there, and why."""

    value: float | None
    why: str = ""

    def __str__(self) -> str:
        return self.why if self.value is None else f"{self.value:.3f}"


@dataclass
class Cell:
    system: str
    fault: str
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def words(self) -> str:
        if not self.outcomes:
            return "not measured"
        known = sorted(one.value for one in self.outcomes if one.value is not None)
        count = f"{len(known)} of {len(self.outcomes)}"
        if not known:
            return f"0 of {len(self.outcomes)}: {self.outcomes[-1].why}"
        return f"**{statistics.median(known):.2f}** ({known[0]:.2f} to {known[-1]:.2f}), {count}"


ELSEWHERE = """
What the table does not show, and where a peer is better: torchrun and ft_launcher restart over many nodes, which `--warm` and
`--direct` do not. Without either Sentinel starts torchrun anew, which torchrun itself need not. ft_launcher has hot spares,
restarts within the process, and checks of GPUs and nodes; it finds a hang where the trainer beats through its client, which this
one does not. Both need less memory than `--warm`, whose reserve holds the imports once more for each rank.
"""


def best_of(cells: Sequence[Cell]) -> str:
    """Who got there most often; among equals, with the smallest median."""

    def rank(cell: Cell) -> tuple[int, float]:
        known = [one.value for one in cell.outcomes if one.value is not None]
        return -len(known), statistics.median(known) if known else 0.0

    tried = [cell for cell in cells if any(one.value is not None for one in cell.outcomes)]
    return NAMES[min(tried, key=rank).system] if tried else "none"


def version(name: str) -> str:
    """Also of what lies in $NVRX."""
    places = [*filter(None, [os.environ.get("NVRX")]), *sys.path]
    return next((one.version for one in importlib.metadata.distributions(name=name, path=places)), "not installed")


def page(cells: Sequence[Cell]) -> str:
    faults = list(dict.fromkeys(cell.fault for cell in cells))
    systems = list(dict.fromkeys(cell.system for cell in cells))
    found = {(system, fault): "not measured" for system in systems for fault in faults}
    found |= {(cell.system, cell.fault): cell.words for cell in cells}
    best = {fault: best_of([cell for cell in cells if cell.fault == fault]) for fault in faults}
    head = "| " + " | ".join(["", *(NAMES[system] for system in systems), "best"]) + " |"
    rows = [
        "| " + " | ".join([TITLES[fault], *(found[system, fault] for system in systems), best[fault]]) + " |" for fault in faults
    ]
    versions = f"torch {version('torch')}, nvidia-resiliency-ext {version('nvidia-resiliency-ext')}"
    day, load = datetime.now(UTC).date().isoformat(), os.getloadavg()[2]
    return "\n".join(
        [
            "# The same faults under torchrun, ft_launcher and Sentinel",
            "",
            f"Written by `make compare` on {day}: {versions}; {os.cpu_count()} cores, no GPU, load average over 15 minutes",
            f"{load:.1f}. The bundled trainer, preset `micro`, two ranks, in turn. Median (least to most), and how many of the",
            "runs got there.",
            "",
            head,
            "|---" * (len(systems) + 2) + "|",
            *rows,
            ELSEWHERE,
        ]
    )
