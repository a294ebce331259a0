"""What a replay found, as a table for people, and a progress bar while it works (on standard error, only on a terminal)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow"}
PLAIN_WIDTH = 160  # where there is no terminal: wide enough that no row is broken


class Progress:
    """A bar over so many logs; nothing at all where nobody would see it."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        parts = (TextColumn("replay"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*parts, console=console, transient=True, disable=not console.is_terminal or total < 2)
        self._task = self._bar.add_task("logs", total=total)

    def step(self) -> None:
        self._bar.advance(self._task)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()


def print_table(runs: Sequence[Mapping[str, Any]]) -> None:
    """One row a finding, alarms only; then one line that sums up."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("log", "severity", "kind", "onset", "found at", "back at", "remedy"):
        table.add_column(name, no_wrap=name != "log", justify="right" if name in ("onset", "found at", "back at") else "left")
    table.add_column("why", ratio=1)
    shown = 0
    prefix = _common_prefix([str(run["file"]) for run in runs])
    for run in runs:
        for found in run["found"]:
            shown += 1
            table.add_row(str(run["file"])[len(prefix) :], *cells(found))
    if shown:
        console.print(table)
    console.print(_sum_up(runs, shown), soft_wrap=True, highlight=False)


def cells(found: Mapping[str, Any]) -> tuple[str | Text, ...]:
    severity = str(found["severity"])
    remedy = found["remedy"] or ("none: it healed" if found["benign"] else "none")
    return (
        Text(severity, SEVERITY_STYLES.get(severity, "")),
        str(found["kind"]),
        _step(found["onset_step"]),
        _step(found["detected_step"]),
        _step(found["resolved_step"]),
        str(remedy),
        str(found["reason"]),
    )


def _step(step: object) -> str:
    return "-" if step is None else str(step)


def _common_prefix(files: Sequence[str]) -> str:
    """The directory all of them stand in: said once is enough."""
    if len(files) < 2:
        return os.path.dirname(files[0]) + os.sep if files and os.path.dirname(files[0]) else ""
    common = os.path.commonprefix(files)
    return common[: common.rfind(os.sep) + 1]


def _sum_up(runs: Sequence[Mapping[str, Any]], alarms: int) -> str:
    read = [run for run in runs if not run["error"]]
    rows = sum(int(run["rows"]) for run in runs)
    acted = sum(bool(found["intervened"]) for run in runs for found in run["found"])
    info = sum(int(run["info"]) for run in runs)
    line = f"{_count(len(read), 'log')} read, {rows:,} rows: {_count(alarms, 'alarm')}, {acted} with a remedy, {info} for information"
    return line + (f"; {len(runs) - len(read)} could not be read" if len(read) < len(runs) else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
