"""Every experiment tracker that Sentinel writes to, one row each. `sentinel track --to` and `sentinel run --track` name one.

To add one: write its module (a frozen dataclass of settings, a class that fulfils `contract.Tracker`) and add its row here.

    name, settings = parse_target("wandb:project=gpt,mode=offline")
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sentinel.errors import UsageError
from sentinel.policy.problems import did_you_mean, split_options
from sentinel.trackers.contract import Tracker
from sentinel.trackers.mlflow_runs import MlflowRuns, MlflowSettings
from sentinel.trackers.wandb_runs import WandbRuns, WandbSettings


@dataclass(frozen=True, slots=True)
class TrackerRow:
    """One tracker. library: the module it needs; install: what a person installs for it. settings: a frozen dataclass whose
    fields are all `str` with a default, and whose ValueError is a sentence. build: called with the settings and a folder."""

    name: str
    library: str
    install: str
    settings: type
    build: Callable[[Any, Path], Tracker]


TRACKERS = (
    TrackerRow("wandb", "wandb", "wandb", WandbSettings, WandbRuns),
    TrackerRow("mlflow", "mlflow", "mlflow-skinny", MlflowSettings, MlflowRuns),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A tracker and its settings. `text`: as a person wrote it."""

    text: str
    row: TrackerRow
    settings: Any

    def open(self, folder: Path) -> Tracker:
        """`folder`: for what the tracker keeps on this disk. Raises TrackerError."""
        return self.row.build(self.settings, folder)


def parse_target(flag: str, asked: str) -> Target:
    """`NAME[:option=value,...]`. Raises UsageError, also where the tracker's library is not installed."""
    name, options = split_options(flag, asked)
    row = next((row for row in TRACKERS if row.name == name), None)
    if row is None:
        raise UsageError(
            f"{flag} {asked}: no such tracker; {did_you_mean(name, tuple(row.name for row in TRACKERS), 'trackers')}"
        )
    known = tuple(field.name for field in fields(row.settings))
    for option in options:
        if option not in known:
            raise UsageError(f"{flag} {asked}: {name} has no option '{option}'; {did_you_mean(option, known, 'options')}")
    try:
        settings = row.settings(**options)
    except ValueError as error:
        raise UsageError(f"{flag} {asked}: {error}") from None
    if importlib.util.find_spec(row.library) is None:
        raise UsageError(f"{flag} {asked}: the library {row.library} is not installed beside sentinel; pip install {row.install}")
    return Target(asked, row, settings)


def check_targets(flag: str, asked: Sequence[str]) -> None:
    """Raises UsageError as `parse_target` does, and for a target that comes twice."""
    for text in asked:
        parse_target(flag, text)
        if asked.count(text) > 1:
            raise UsageError(f"{flag} {text}: is given twice; give it once")


def describe_targets() -> str:
    """For --help: `wandb:project,entity,…; mlflow:uri,…`."""
    return "; ".join(f"{row.name}: {', '.join(field.name for field in fields(row.settings))}" for row in TRACKERS)
